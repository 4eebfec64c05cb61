package loop

import (
	"errors"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/spend"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

var errGrace = errors.New("it did not answer in time")

func (r *run) failed(c *actors.Context, err error) {
	r.end(c, Outcome{State: store.Failed, Stop: runlog.StopFailed, Err: err})
}

// cancel ends the run. One that is waiting for its journal only waits for one more grace.
func (r *run) cancel(c *actors.Context, cause error) {
	if r.out != nil && !r.shutdown.cancelled && r.shutdown.graces > 1 {
		r.shutdown.startGrace(c)
	}
	r.shutdown.cancelled = true
	r.end(c, Outcome{State: store.Cancelled, Stop: runlog.StopCancelled, Err: &CancelledError{cause}})
}

// end is the only way out, and the first reason counts: everything under way is cancelled
// and given its grace.
func (r *run) end(c *actors.Context, out Outcome) {
	if r.out != nil {
		return
	}
	r.out = &out
	if o := r.opening; o != nil && o.err != nil {
		r.opened(c, errors.Join(out.Err, o.err))
		return
	}
	r.state = (*run).ending
	r.clock.stop()
	r.asks.timer.Clear()
	if r.leaveQueue != nil {
		r.leaveQueue()
	}
	if r.turn != nil {
		r.turn.end(out.Err)
	}
	r.asks.withdrawAll(c)
	r.shutdown.startGrace(c)
	r.shutdown.finish(c)
}

// end cancels the turn and its calls.
func (t *turn) end(cause error) {
	if t.cancel != nil {
		t.cancel(cause)
	}
	for _, cl := range t.calls {
		switch {
		case cl.phase == ready: // its intent without a dispatch says that it was not made
			cl.hold.Release()
			cl.phase = returned
		case cl.phase == sent && cl.cancel != nil:
			cl.cancel(cause)
		}
	}
}

func (r *run) ending(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case created:
		r.opening.receive(c, m)
	case *toolReturned:
		r.calls.returnedLate(c, m)
	case askSeen:
		r.asks.receive(c, m)
	case graceOver:
		r.shutdown.giveUp(c)
	}
}

// shutdown is the end of a run: what it waits for, and its last event.
type shutdown struct {
	*parts
	h         *Run
	grace     *actors.Timer
	graces    int
	billed    bool // the cost is known
	cancelled bool // by the run's user, before its end or after
}

// startGrace begins the time that calls have to end in.
func (d *shutdown) startGrace(c *actors.Context) {
	d.grace = timer(c, d.grace, graceOver{})
	d.grace.Set(d.cfg.Grace)
}

// finish writes the end, once nothing is under way any more.
func (d *shutdown) finish(c *actors.Context) {
	switch {
	case d.out == nil || d.journal.final:
		return
	case !d.journal.recorded: // the answer of Create comes
		return
	case d.journal.fenced():
		d.complete(c, nil)
		return
	case d.journal.err == nil && (d.turn != nil && d.turn.busy > 0 || d.asks.closing > 0):
		return
	}
	d.journal.final = true
	notes := d.bill()
	d.journal.writeBatch(c, &batch{entries: append(notes, finished(d.out)), state: d.out.State, summary: summary(d.out),
		then: func(c *actors.Context) { d.complete(c, nil) }})
}

// giveUp ends the wait, first for calls and then for the journal. A run that was not
// cancelled waits for its journal as long as that may still take the end.
func (d *shutdown) giveUp(c *actors.Context) {
	d.graces++
	switch {
	case d.graces > 1 && d.journal.recorded && !d.cancelled && d.journal.err == nil:
		return // cancel begins the next grace
	case d.graces > 1 || !d.journal.recorded:
		d.h.opened.Complete(begun{}, errGrace)
		d.complete(c, &JournalError{errGrace})
		return
	}
	d.startGrace(c)
	d.calls.abandonAll(c)
	d.asks.closing = 0
	d.finish(c)
}

// journalFailed ends a run that cannot be recorded any more. It tries to write that down,
// unless another owner has the run.
func (d *shutdown) journalFailed(c *actors.Context, first bool) {
	switch {
	case d.journal.final:
		d.complete(c, d.journal.err)
	case d.out != nil && first:
		d.out.Err = errors.Join(d.out.Err, d.journal.err)
		d.finish(c)
	case first:
		d.run.failed(c, d.journal.err)
	}
}

// bill charges what has not completed, gives back what is held, and says what it
// all has cost. It returns what is still to be written of that.
func (d *shutdown) bill() []runlog.Entry {
	if d.billed {
		return nil
	}
	d.billed = true
	d.spend.Close(d.out.Err)
	return d.out.take(d.spend.Bill())
}

// complete gives the outcome and stops.
func (d *shutdown) complete(c *actors.Context, err error) {
	d.journal.drop()
	d.bill()
	if err != nil && !errors.Is(d.out.Err, err) {
		d.out.Err = errors.Join(d.out.Err, err)
		if d.out.State == store.Finished {
			d.out.State, d.out.Stop = store.Failed, runlog.StopFailed
		}
	}
	d.asks.abandon()
	d.h.complete(*d.out)
	c.Stop()
}

// take adds a bill to the outcome, and returns what is still to be written of it.
func (o *Outcome) take(b spend.Bill) []runlog.Entry {
	o.Usage, o.Steps, o.ToolCalls, o.Spent = b.Usage, b.Steps, b.ToolCalls, b.Spent
	return b.Notes
}

// finished is the last event.
func finished(out *Outcome) runlog.Entry {
	return runlog.Entry{Time: store.Clock(time.Now()), Type: store.RunFinished, Body: out.Finished()}
}

// Finished returns what the run's last event holds.
func (o *Outcome) Finished() *runlog.RunFinished {
	body := &runlog.RunFinished{State: o.State, Stop: o.Stop, Text: o.Text, Structured: o.Structured,
		Usage: o.Usage, Steps: o.Steps, ToolCalls: o.ToolCalls, Spent: o.Spent}
	if o.Err != nil {
		body.Error = clip.Short(o.Err.Error())
	}
	return body
}

// summary is one line about how a run ended.
func summary(out *Outcome) string {
	if out.Err != nil {
		return line(out.Err.Error())
	}
	return line(out.Text)
}

// title is one line for lists of runs.
func title(input []llm.Message) string {
	if len(input) == 0 {
		return ""
	}
	return line(input[len(input)-1].Content.Text())
}

func line(s string) string {
	s = strings.Join(strings.Fields(clip.Text(s, 400)), " ")
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return -1
		}
		return c
	}, clip.Text(s, 200))
}
