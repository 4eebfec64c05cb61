package loop

import (
	"errors"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/journal"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// shutdown is the end of a run: its waits, and its last event.
type shutdown struct {
	*parts
	grace     *actors.Timer
	graces    int
	billed    bool           // the cost is known
	cancelled bool           // by the run's user, before its end or after
	broken    error          // why nothing is recorded any more; nil while it is
	why       []runlog.Entry // that the end follows from, to be written with it
}

// waits reports whether the end has to wait for calls under way, or for the withdrawal of questions.
func (d *shutdown) waits() bool {
	return d.journal.Recorded() && d.journal.Err() == nil && (d.turn != nil && d.turn.busy > 0 || len(d.asks.open) > 0)
}

// startGrace begins the time that calls have to end in.
func (d *shutdown) startGrace(c *actors.Context) {
	d.grace = timer(c, d.grace, graceOver{})
	d.grace.Set(d.cfg.Grace)
}

// finish writes the end, once nothing is under way any more.
func (d *shutdown) finish(c *actors.Context) {
	switch {
	case d.out == nil || d.journal.Final():
		return
	case d.parking.on:
		d.parking.finish(c)
		return
	case !d.journal.Recorded(): // the answer of Create comes
		return
	case d.journal.Err() == nil && (d.turn != nil && d.turn.busy > 0 || d.asks.closing > 0):
		return
	}
	notes := d.bill()
	b := journal.Batch{State: d.out.State, Summary: summary(d.out), Then: func(c *actors.Context) { d.complete(c, nil) }}
	if ends := d.cfg.EndsJob; ends != nil {
		b.Job = func() *store.JobUpdate { return ends(d.out) }
	}
	var room [1]runlog.Entry // of most runs, on the stack
	d.journal.WriteLast(c, b, append(append(append(room[:0], d.why...), notes...), finished(d.out))...)
}

// giveUp ends the wait, first for calls and then for the journal. A run that was not
// cancelled waits for its journal as long as that may still take the end.
func (d *shutdown) giveUp(c *actors.Context) {
	d.graces++
	switch {
	case d.graces > 1 && d.journal.Recorded() && !d.cancelled && d.journal.Err() == nil:
		return // cancel begins the next grace
	case d.graces > 1 || !d.journal.Recorded():
		d.h.open(begun{}, errGrace)
		d.complete(c, &JournalError{errGrace})
		return
	}
	d.startGrace(c)
	d.calls.abandonAll(c)
	d.asks.closing = 0
	d.finish(c)
}

// journalFailed ends a run that cannot be recorded any more. It tries to write that down. One that another
// process has is left.
func (d *shutdown) journalFailed(c *actors.Context, err error, first bool) {
	if first {
		d.broken = &JournalError{err}
	}
	switch {
	case journal.Lost(err):
		d.run.drop(c, &JournalError{err})
	case d.journal.Final():
		d.complete(c, d.broken)
	case d.out != nil && first:
		d.out.Err = errors.Join(d.out.Err, d.broken)
		d.finish(c)
	case first:
		d.run.failed(c, d.broken)
	}
}

// bill charges calls that have not completed, gives back all holds, and adds the costs to
// the outcome. It returns the entries of it that are still to be written.
func (d *shutdown) bill() []runlog.Entry {
	if d.billed {
		return nil
	}
	d.billed = true
	if !d.journal.Recorded() {
		d.withdrawFirst()
	}
	d.h.spend.Close(d.out.Err)
	return d.out.take(d.h.spend.Bill())
}

// complete gives the outcome and stops.
func (d *shutdown) complete(c *actors.Context, err error) {
	d.journal.Drop()
	d.bill()
	if err != nil && !errors.Is(d.out.Err, err) {
		d.out.Err = errors.Join(d.out.Err, err)
		if d.out.State == store.Finished {
			d.out.State, d.out.Stop = store.Failed, runlog.StopFailed
		}
	}
	d.asks.abandon()
	d.h.complete(d.out)
	d.parking.answer(err)
	c.Stop()
}

// graceOver is a message to itself.
type graceOver struct{}
