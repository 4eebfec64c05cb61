package store

import "time"

// RunState is where a run stands.
type RunState string

// States of a run. The last four end it: nothing can be appended any more.
const (
	Running   RunState = "running"
	Waiting   RunState = "waiting"   // for a person
	Finished  RunState = "finished"  // with an answer
	Failed    RunState = "failed"    // with an error
	Cancelled RunState = "cancelled" // by its caller or a human
	Limited   RunState = "limited"   // a limit or a budget was reached
)

// Ended reports whether a run in this state is over.
func (s RunState) Ended() bool {
	switch s {
	case Finished, Failed, Cancelled, Limited:
		return true
	}
	return false
}

// Run describes a run without its events.
type Run struct {
	ID      string   `json:"id"`
	Agent   string   `json:"agent,omitempty"`   // name of the agent
	Parent  string   `json:"parent,omitempty"`  // the run that started it; empty for none
	Root    string   `json:"root,omitempty"`    // the run at the root of its tree; its own ID for one that no run has started. Set by the store
	Job     string   `json:"job,omitempty"`     // the job whose attempt the root is; empty for none
	Title   string   `json:"title,omitempty"`   // one line for lists, such as the head of the prompt
	Summary string   `json:"summary,omitempty"` // one line about how it stands or ended
	State   RunState `json:"state"`

	// InputHash identifies what the run was started with. A second Create with
	// the same ID and another hash is a clash, not a repeat.
	InputHash string `json:"inputHash,omitempty"`

	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"` // of the last create or append
	Seq     int64     `json:"seq"`     // number of the last event; zero for none

	// Imported is how many of the first events were recorded by another store: [Event].Imported of those is true. A
	// decision of which they tell was not made here, and allows nothing. Zero for a run that was begun here.
	Imported int64 `json:"imported,omitzero"`

	// These are the lease of the run's tree: that of its job, while the job has not ended and the root is its
	// newest attempt, else the root's own. A run that has ended has no owner; its Epoch is that under which it ended.
	Owner   string    `json:"owner,omitempty"` // the holder of the lease; empty for none
	Epoch   int64     `json:"epoch"`           // raised by every claim
	Expires time.Time `json:"expires,omitzero"`
}

// Leased reports whether the run has an unexpired lease at that time.
func (r Run) Leased(now time.Time) bool { return r.Owner != "" && now.Before(r.Expires) }

// HeldBy reports whether the lease of a run that has not ended is that of owner under this epoch, expired or not.
func (r Run) HeldBy(owner string, epoch int64) bool {
	return !r.State.Ended() && r.Owner != "" && r.Owner == owner && r.Epoch == epoch
}

// Cursor is where the page after r begins: see [Query.After].
func (r Run) Cursor() string { return Cursor{r.Created, r.ID}.String() }

// Query selects runs. Zero fields select all.
type Query struct {
	Beginning string     // of the ID
	States    []RunState // any of these
	Agent     string
	Parent    string
	Since     time.Time // created then or later
	Until     time.Time // created before

	// Free selects runs that have not ended and have no
	// unexpired lease: those a worker may claim.
	Free bool

	Limit int    // zero, or above [MaxPage], means MaxPage
	After string // [Run.Cursor] of the last run of the page before; empty for the first page
}
