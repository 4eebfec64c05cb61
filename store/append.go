package store

import "bytes"

// Unchecked as [Append.After] appends at the end of the run, wherever that is.
// The same append made twice then adds its events twice.
const Unchecked int64 = -1

// Append is what [Journal.Append] adds to a run. Without events and state it
// only checks that the run may be written to.
type Append struct {
	Run string

	// Owner and Epoch are those of the lease on the run's tree, which the caller holds.
	Owner string
	Epoch int64

	// After is the number of the run's last event as the caller knows it, zero for
	// a run without events. Where the run stands elsewhere nothing is written: see
	// [Journal.Append]. [Unchecked] does without.
	After int64

	// State the run has afterwards; "" leaves it. A state that ends the root of a tree
	// also ends the tree's lease, unless that is a job's which Job does not end: its holder ends it as the run has ended.
	State RunState

	// Summary replaces that of the run; "" leaves it.
	Summary string

	// Events, at most [MaxEvents] with [MaxPageBytes] of bodies together. A store keeps the
	// bodies as they are: their bytes do not change any more.
	Events []Event

	// Asks are opened, and asks of Settle settled, together with the events that say
	// so, of which there must be one. All asks are this run's; at most [MaxEvents], with
	// as many bytes again.
	Asks   []Ask
	Settle []Settlement

	// Job ends the job whose attempt the run is, in the same transaction; nil for none. If the lease that
	// it names is not held, or there is no such job, the rest is written without it: see
	// [JobUpdate].Ended, or read the job.
	Job *JobUpdate
}

// Settlement decides one ask as a part of an [Append].
type Settlement struct {
	Ask string // its ID
	Decision
}

// Repeats reports whether the events that stand behind a.After are those of a. Found
// are the run's events from number a.After+1 on, at least as many as a has, if the
// run has so many. It is for those who implement [Journal].
func (a Append) Repeats(found []Event) bool {
	if len(a.Events) == 0 || len(found) < len(a.Events) {
		return false
	}
	for i, e := range a.Events {
		f := found[i]
		if f.Seq != a.After+int64(i)+1 || f.Epoch != a.Epoch || f.Type != e.Type || f.Key != e.Key ||
			!bytes.Equal(f.Body, e.Body) || !e.Time.IsZero() && !f.Time.Equal(Clock(e.Time)) {
			return false
		}
	}
	return true
}

// Check reports the first rule that a breaks.
func (a Append) Check() error {
	if err := CheckID("append.Run", a.Run); err != nil {
		return err
	}
	if err := CheckID("append.Owner", a.Owner); err != nil {
		return err
	}
	if a.State != "" && !a.State.known() {
		return &InvalidError{"append.State", "is unknown"}
	}
	if a.After < Unchecked {
		return &InvalidError{"append.After", "is below -1"}
	}
	if err := CheckText("append.Summary", a.Summary); err != nil {
		return err
	}
	if err := CheckEvents(a.Events); err != nil {
		return err
	}
	if err := a.checkJob(); err != nil {
		return err
	}
	return a.checkAsks()
}

// checkJob reports the first rule that the job of an append breaks.
func (a Append) checkJob() error {
	switch {
	case a.Job == nil:
		return nil
	case !a.State.Ended() || !a.Job.State.Ended():
		return &InvalidError{"append.Job", "is ended, or its run is, without the other"}
	}
	return a.Job.Check()
}

// checkAsks reports the first rule that the asks of an append break.
func (a Append) checkAsks() error {
	n := len(a.Asks) + len(a.Settle)
	switch {
	case n == 0:
		return nil
	case len(a.Events) == 0:
		return &InvalidError{"append.Events", "say nothing of the asks"}
	case n > MaxEvents:
		return &LimitError{"append.Asks", n, MaxEvents}
	}
	seen := make(map[string]bool, n)
	for _, ask := range a.Asks {
		if ask.Run != a.Run || seen[ask.ID] {
			return &InvalidError{"append.Asks", "are not the run's, or one of them twice"}
		}
		seen[ask.ID] = true
		if err := ask.Check(); err != nil {
			return err
		}
	}
	for _, s := range a.Settle {
		if err := CheckID("append.Settle", s.Ask); err != nil {
			return err
		}
		if seen[s.Ask] {
			return &InvalidError{"append.Settle", "has an ask twice, or one of append.Asks"}
		}
		seen[s.Ask] = true
		if err := s.Decision.Check(); err != nil {
			return err
		}
	}
	if bytes := a.Bytes(); bytes > 2*MaxPageBytes {
		return &LimitError{"append bodies", bytes, 2 * MaxPageBytes}
	}
	return nil
}

// Bytes returns the size of what a carries in JSON.
func (a Append) Bytes() int {
	n := 0
	for _, e := range a.Events {
		n += len(e.Body)
	}
	for _, ask := range a.Asks {
		n += ask.Bytes()
	}
	for _, s := range a.Settle {
		n += len(s.Answer)
	}
	if a.Job != nil {
		n += len(a.Job.Result)
	}
	return n
}
