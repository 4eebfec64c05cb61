// Package journal writes the events of a run: one append at a time, all that waits in the next, under the
// lease of the run.
//
//	        write              acknowledged
//	still ─────────▶ appending ─────────────▶ still: then runs, and what waits is next
//	                  │      ▲
//	 error that passes│      │ due
//	                  ▼      │
//	                 stalled ┘──── fenced, or another error ──▶ (the run is left, or fails)
//
// A run whose store does not take its events at the moment, as it is locked, full or out of
// reach, waits for as long as that lasts, also when its lease is over meanwhile: the store then
// takes the events, or says that another process has the run. Nothing goes on without its
// acknowledgement, so that only the events under way are kept meanwhile.
//
// Events that nothing waits for are held: they go with those of the next step, or after a moment.
package journal

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// Store is the part of a [store.Store] that events are written to. One that is a [store.Starter] costs
// no goroutine, and no message if it answers at once.
type Store interface {
	Append(ctx context.Context, a store.Append) (last int64, err error)
	Renew(ctx context.Context, run, owner string, epoch int64, ttl time.Duration) error
}

// Target says where the events of a run go. It does not change.
type Target struct {
	Store Store // nil for none: entries count as written at once
	Run   string
	Owner string
	Lease time.Duration
}

// Run is the run whose events are written. Its actor calls them.
type Run interface {
	Target() Target
	// Written takes entries that are durable, in order, and none at each moment at which
	// nothing is left to write. It must not keep the slice.
	Written(entries []runlog.Entry)
	// Stalled reports that the store does not take the events, with its first error. Resumed ends that;
	// it does not come at the end of the run.
	Stalled(err error)
	Resumed()
	// Failed reports that events are not written any more, and whether that is the first time.
	Failed(c *actors.Context, err error, first bool)
	Ending() bool
}

// Messages to itself.
type (
	appended    struct{ *writing } // an append has ended
	appendAgain struct{}           // a wait for the store is over
	heldOver    struct{}           // what is held has waited for the next step long enough
)

// Writer is a run's journal. It is a part of the run's actor, so it has no lock.
type Writer struct {
	run Run

	recorded bool // the run is in the journal, if there is one
	final    bool // the run's last event is on its way
	left     bool // nothing more goes to the store

	epoch int64
	last  int64 // number of the last event that is durable
	lease lease

	next    *writing                // of what waits; nil for nothing
	held    actors.Timer            // of what is held
	under   *writing                // under way, stalled or unsure; nil for none
	unsure  bool                    // under is durable, and waits for a renewal of the lease
	asked   bool                    // the store has not answered yet
	known   bool                    // it has, and Acknowledge goes on
	cancel  context.CancelCauseFunc // of the append under way; nil while there is none, or it cannot be withdrawn
	stalled *Stall                  // nil unless the store does not take the append under way
	err     error                   // why nothing is written any more
}

// For returns the journal of a run.
func For(r Run) Writer { return Writer{run: r} }

// Recorded reports whether the run is in the journal, if there is one.
func (j *Writer) Recorded() bool { return j.recorded }

// Final reports whether the run's last event is on its way.
func (j *Writer) Final() bool { return j.final }

// Err returns why nothing is written any more; nil while it is.
func (j *Writer) Err() error { return j.err }

// Epoch returns that of the lease.
func (j *Writer) Epoch() int64 { return j.epoch }

// Lost reports whether the run is another process's now.
func (j *Writer) Lost() bool { return Lost(j.err) }

// Lost reports whether a run is another process's now, by the error of its store.
func Lost(err error) bool {
	return errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrFinished)
}

// Receive takes the messages of the journal, and reports whether msg was one.
func (j *Writer) Receive(c *actors.Context, msg any) bool {
	switch m := msg.(type) {
	case appended:
		j.acked(c, m.writing)
	case appendAgain:
		if j.under != nil && !j.asked && !j.unsure {
			j.append(c)
		}
	case heldOver:
		j.Flush(c)
	case renewLease:
		j.renew(c)
	case renewed:
		j.leaseRenewed(c, m)
	default:
		return false
	}
	return true
}

// Opened notes under which lease the run writes, which it asked for at a time.
func (j *Writer) Opened(c *actors.Context, head store.Run, began time.Time) {
	j.epoch, j.last, j.recorded = head.Epoch, head.Seq, true
	j.held.Init(c, heldOver{})
	if to := j.run.Target(); to.Store != nil {
		j.lease.start(c, to.Lease, began)
	}
}

// Write puts entries into the next append; then runs once they are durable, and
// not at all if they cannot be written. It must look whether the run is ending.
// Without a store then runs at once. The journal copies the entries.
func (j *Writer) Write(c *actors.Context, then func(*actors.Context), entries ...runlog.Entry) {
	j.WriteBatch(c, Batch{Then: then}, entries...)
}

// WriteBatch is Write for a batch.
func (j *Writer) WriteBatch(c *actors.Context, b Batch, entries ...runlog.Entry) {
	if j.queue(c, b, entries) {
		j.Flush(c)
	}
}

// WriteLast is WriteBatch for the last one of the run.
func (j *Writer) WriteLast(c *actors.Context, b Batch, entries ...runlog.Entry) {
	j.final = true
	j.WriteBatch(c, b, entries...)
}

// HeldFor is how long entries are held for those of the run's next step. Most steps take less than
// a commit; one that takes longer, such as a condition that looks something up, is not waited for.
// Only tests change it.
var HeldFor = 50 * time.Millisecond

// Hold puts a batch into the append of the next step, which follows at once as a rule, and so saves
// a commit. Nothing may depend on it but what that step writes: its effects begin once its own
// entries are durable, and these with them.
func (j *Writer) Hold(c *actors.Context, b Batch, entries ...runlog.Entry) {
	switch {
	case !j.queue(c, b, entries):
	case HeldFor == 0:
		j.Flush(c)
	case j.under == nil:
		j.held.Set(HeldFor)
	}
}

// queue puts a batch behind those that wait, and reports whether it has to be written.
func (j *Writer) queue(c *actors.Context, b Batch, entries []runlog.Entry) bool {
	now := store.Clock(time.Now())
	if j.run.Target().Store == nil {
		w := writings.Get().(*writing) // not next: what follows may write too
		w.add(b, entries, now)
		j.written(c, &w.batches[0])
		w.free()
		return false
	}
	if j.next == nil {
		j.next = writings.Get().(*writing)
	}
	j.next.add(b, entries, now)
	return true
}

// Flush begins an append of all that waits, unless one is under way.
func (j *Writer) Flush(c *actors.Context) {
	if j.under != nil || j.next == nil || j.left || j.err != nil && !j.final {
		return
	}
	w := j.next
	w.run, w.last = c.Self(), j.last
	w.flush()
	j.next, j.under = nil, w
	j.held.Clear()
	j.append(c)
}

// append has the first part under way written that is not durable.
func (j *Writer) append(c *actors.Context) {
	w := j.under
	j.asked = true
	j.startAppend(c, w, w.begin())
	j.known = w.begun()
}

// startAppend begins it. An error, and a panic of the store, are an answer.
func (j *Writer) startAppend(c *actors.Context, w *writing, answer func(int64, error)) {
	defer w.refused()
	t := j.run.Target()
	if err := w.encode(store.Append{Run: t.Run, Owner: t.Owner, Epoch: j.epoch}); err != nil {
		answer(0, err)
		return
	}
	w.parts[0].After = w.last
	a := w.parts[0].Append
	if to, ok := t.Store.(store.Starter); ok {
		to.StartAppend(a, answer)
		return
	}
	j.waitFor(c, w, t.Store, a)
}

// waitFor has a store make an append that keeps its goroutine for that.
func (j *Writer) waitFor(c *actors.Context, w *writing, to Store, a store.Append) {
	w.shared = true
	j.cancel = actors.Await(c, func(ctx context.Context) (int64, error) { return to.Append(ctx, a) },
		func(seq int64, err error) any { w.seq, w.err = seq, err; return appended{w} })
}

// Acknowledge goes on with an append that the store has answered at once, and reports whether there
// was one. The run calls it after each message until there is none: what follows from an append so begins
// when the step that wrote it has ended, as where the store answers later.
func (j *Writer) Acknowledge(c *actors.Context) bool {
	if !j.known {
		return false
	}
	j.acked(c, j.under)
	return true
}

// acked goes on after the store's answer to an append.
func (j *Writer) acked(c *actors.Context, w *writing) {
	if w != j.under {
		return // given up
	}
	j.cancel, j.asked, j.known = nil, false, false
	switch err := w.take(); {
	case err == nil && len(w.parts) > 0:
		j.append(c)
	case err == nil:
		j.sure(c, w)
	case w.encoded && j.err == nil && j.stall(c, err):
	default:
		j.Fail(c, err)
	}
}

// sure goes on with the steps that were waiting for an append, if the run is still this process's.
func (j *Writer) sure(c *actors.Context, w *writing) {
	if !j.final && j.lease.over(j.run.Target().Lease) {
		// The process stood still, and another one may have the run by now: what follows, such as a
		// call, is that one's then.
		j.unsure = true
		j.renew(c)
		return
	}
	j.under, j.last, j.unsure = nil, w.last, false
	j.unstall(c)
	for i := range w.batches {
		if b := &w.batches[i]; b.Settle != nil && b.Settle.beaten {
			b.Settle.Lost(c)
		} else {
			j.written(c, b)
		}
	}
	w.free()
	j.Flush(c)
	if !j.Busy() {
		j.run.Written(nil)
	}
}

// written passes on durable entries and goes on with the step that was waiting for them.
func (j *Writer) written(c *actors.Context, b *Batch) {
	if len(b.entries) > 0 {
		j.run.Written(b.entries)
	}
	if b.Then != nil {
		b.Then(c)
	}
}

// Fail gives up writing.
func (j *Writer) Fail(c *actors.Context, err error) {
	first := j.err == nil
	if first {
		j.err = err
	}
	j.Drop()
	j.run.Failed(c, err, first)
}

// Leave has nothing more go to the store, as another process has the run.
func (j *Writer) Leave() {
	j.left, j.final = true, true
	j.Drop()
}

// Drop gives up all entries that are not durable.
func (j *Writer) Drop() {
	var batches []Batch
	for _, w := range []*writing{j.under, j.next} {
		if w != nil {
			batches = append(batches, w.batches...)
		}
	}
	if j.cancel != nil {
		j.cancel(errDropped)
	}
	if j.stalled != nil {
		j.stalled.Clear()
	}
	j.next, j.under, j.cancel, j.asked, j.known, j.unsure = nil, nil, nil, false, false, false
	for _, b := range batches {
		if b.Settle != nil && b.Settle.Failed != nil {
			b.Settle.Failed(store.ErrFinished)
			b.Settle.Failed = nil
		}
	}
}

// Busy reports whether an append is under way or waits.
func (j *Writer) Busy() bool { return j.under != nil || j.next != nil }

var errDropped = errors.New("it did not answer in time")

// stall has the append under way made again later, and reports whether it will be.
func (j *Writer) stall(c *actors.Context, err error) bool {
	if !Passing(err) {
		return false
	}
	if j.stalled == nil {
		j.stalled = NewStall(c, appendAgain{})
		c.Log().Warn("a run waits for its store", "run", j.run.Target().Run, "error", err)
		j.run.Stalled(err)
	}
	j.stalled.Set(j.stalled.Next())
	return true
}

// unstall ends a stall: the store takes events again.
func (j *Writer) unstall(c *actors.Context) {
	s := j.stalled
	if s == nil {
		return
	}
	j.stalled = nil
	s.Clear()
	c.Log().Info("a run goes on: its store takes its events again", "run", j.run.Target().Run, "stalled", time.Since(s.Since))
	j.run.Resumed()
	if !j.run.Ending() {
		j.renew(c) // which may have failed, too
	}
}
