package loop

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

func (r *run) failed(c *actors.Context, err error) {
	r.end(c, Outcome{State: store.Failed, Stop: runlog.StopFailed, Err: err})
}

// end is the only way out, and the first reason counts: whatever is under way is
// cancelled and given its grace.
func (r *run) end(c *actors.Context, out Outcome) {
	if r.out != nil {
		return
	}
	r.out = &out
	if r.notOpened != nil {
		r.refused(c, errors.Join(out.Err, r.notOpened))
		return
	}
	r.state = (*run).ending
	r.wall.Clear()
	r.askTimer.Clear()
	if r.leaveQueue != nil {
		r.leaveQueue()
	}
	if t := r.turn; t != nil {
		if t.cancel != nil {
			t.cancel(out.Err)
		}
		for _, cl := range t.calls {
			switch {
			case cl.phase == ready: // its intent without a dispatch says that it was not made
				cl.hold.Release()
				cl.phase = returned
			case cl.phase == sent && cl.cancel != nil:
				cl.cancel(out.Err)
			}
		}
	}
	for _, a := range r.asks {
		r.closing++ // until it is settled; one that is not durable yet is withdrawn once it is
		if a.stored {
			r.withdraw(c, a)
		}
	}
	r.startGrace(c)
	r.finish(c)
}

func (r *run) ending(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case created:
		if m.err != nil {
			r.refused(c, m.err)
			return
		}
		r.isOpened(c, m)
		r.finish(c)
	case *toolReturned:
		if m.call.turn != r.turn || m.call.phase != sent || r.last {
			return // given up already
		}
		r.turn.busy--
		r.write(c, nil, r.outcomes(c, m)...)
		r.finish(c)
	case askSeen:
		r.withdrawn(c, m)
	case graceOver:
		r.giveUp(c)
	}
}

// unmade records that calls were not made after all: the run has ended between
// their dispatch and themselves.
func (r *run) unmade(c *actors.Context, t *turn, calls []*call) {
	for _, cl := range calls {
		t.busy--
		cl.hold.Release()
		r.write(c, nil, r.settle(cl, mcp.ErrorResult("not called: the run has ended"), false))
	}
	r.finish(c)
}

// withdraw takes a question back, unless it has been answered.
func (r *run) withdraw(c *actors.Context, open *openAsk) {
	r.settleHere(c, open, answer{ask: open.row.ID, decision: store.Decision{Status: store.AskCancelled, By: "runtime"},
		reply: new(actors.Reply[store.Ask])})
}

// withdrawn goes on with a question that was answered before it could be withdrawn.
func (r *run) withdrawn(c *actors.Context, m askSeen) {
	if m.open.settled || m.open.writing > 0 {
		return
	}
	if m.err != nil {
		c.Log().Warn("a question could not be withdrawn", "run", r.cfg.ID, "error", m.err)
		m.ask.Decision = store.Decision{Status: store.AskCancelled, By: "runtime"}
	}
	if m.ask.Status != store.AskPending {
		r.askSettled(c, m.open, m.ask.Decision)
	}
}

// unasked records how a question of a run that ends was settled; a call that waits
// to be allowed is not made in any case.
func (r *run) unasked(c *actors.Context, a *openAsk, d store.Decision, entries []runlog.Entry) {
	if r.last {
		return
	}
	failAnswers(a, store.ErrFinished)
	switch {
	case a.raised != nil:
		a.raised.reply.Complete(d, nil)
	case a.call != nil:
		a.call.hold.Release()
		a.call.phase = returned
	}
	r.closeAsk(a)
	r.closing--
	if len(entries) > 0 {
		r.write(c, nil, entries...)
	}
	r.finish(c)
}

// finish writes the end, once nothing is under way any more.
func (r *run) finish(c *actors.Context) {
	switch {
	case r.out == nil || r.last:
		return
	case !r.recorded: // not in the journal yet; the answer of Create comes
		return
	case r.journal.fenced():
		r.complete(c, nil)
		return
	case r.journal.err == nil && (r.turn != nil && r.turn.busy > 0 || r.closing > 0):
		return
	}
	r.last = true
	notes := r.account()
	r.writeBatch(c, &batch{entries: append(notes, finished(r.out)), state: r.out.State, summary: summary(r.out),
		then: func(c *actors.Context) { r.complete(c, nil) }})
}

// giveUp ends the wait, first for calls and then for the journal. A run that was not
// cancelled waits for its journal as long as that may still take the end.
func (r *run) giveUp(c *actors.Context) {
	r.graces++
	switch {
	case r.graces > 1 && r.recorded && !r.cancelled && r.journal.err == nil:
		return // hurry begins the next grace
	case r.graces > 1 || !r.recorded:
		r.h.opened.Complete(begun{}, errGrace)
		r.complete(c, &JournalError{errGrace})
		return
	}
	r.startGrace(c)
	if t := r.turn; t != nil {
		for _, cl := range t.calls {
			if cl.phase == sent {
				r.write(c, nil, r.abandon(cl, "the run ended before the call returned"))
			}
		}
		t.busy = 0
	}
	r.closing = 0
	r.finish(c)
}

// hurry notes that a run was cancelled. One that is waiting for its journal only waits
// for one more grace.
func (r *run) hurry(c *actors.Context) {
	if r.out != nil && !r.cancelled && r.graces > 1 {
		r.startGrace(c)
	}
	r.cancelled = true
}

// account charges what has not completed, gives back what is held, and says what it
// all has cost. It returns what is still to be written of that.
func (r *run) account() []runlog.Entry {
	if r.billed {
		return nil
	}
	r.billed = true
	r.spend.close(r.out.Err)
	return r.spend.bill(r.out)
}

var errGrace = errors.New("it did not answer in time")

// complete gives the outcome and stops.
func (r *run) complete(c *actors.Context, err error) {
	r.dropWrites()
	r.account()
	if err != nil && !errors.Is(r.out.Err, err) {
		r.out.Err = errors.Join(r.out.Err, err)
		if r.out.State == store.Finished {
			r.out.State, r.out.Stop = store.Failed, runlog.StopFailed
		}
	}
	for _, a := range r.asks {
		failAnswers(a, store.ErrFinished)
		if a.raised != nil {
			a.raised.reply.Complete(store.Decision{Status: store.AskCancelled, By: "runtime"}, nil)
		}
	}
	r.h.complete(*r.out)
	c.Stop()
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

func started(c *config) *runlog.RunStarted {
	return &runlog.RunStarted{
		Agent: c.Agent, Parent: c.Origin.Parent, Path: c.Path, Hash: c.Hash, Model: c.Model.Name(), System: c.System, Input: c.Origin.Input, Schema: c.Schema,
		Nonce: c.Nonce, Steps: c.Limits.Steps, Tokens: c.Limits.Tokens, ToolCalls: c.Limits.ToolCalls,
		Cost: c.Limits.Cost, ModelCalls: c.Limits.ModelCalls, Depth: c.Limits.Depth, OnLimit: c.Limits.OnLimit,
		WallMS: c.Wall.Milliseconds(), MaxResult: c.MaxResult}
}

// absentNote tells the model what it has to do without.
func absentNote(absent []runlog.Absent) string {
	var b strings.Builder
	b.WriteString("\n\nThese tool servers are not available at the moment:")
	for _, a := range absent {
		fmt.Fprintf(&b, " %s;", clip.Text(a.Server, 100))
	}
	b.WriteString(" do without their tools, and say so where it matters.")
	return b.String()
}

func sameTools(l, o *runlog.ToolsListed) bool {
	return l.Tools != nil && o.Tools != nil && slices.Equal(l.Tools, o.Tools) && slices.Equal(l.Absent, o.Absent) && slices.Equal(l.Texts, o.Texts)
}
