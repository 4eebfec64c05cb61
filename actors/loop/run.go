// run.go: the actor that runs one agent once.
//
//	         created          listed            calls             decided
//	opening ─────────▶ listing ──────▶ thinking ───────▶ deciding ────────▶ acting
//	   │                  ▲               │                │ │                │
//	   │                  ├───────────────┼── poor answer ─┘ │ answer         │
//	   │                  └───────────────┼──────────────────┼── all returned ┘
//	   │   in preparing before thinking what is too long is cut and guards look,
//	   │   in stopping behind acting a condition may end the run
//	   ▼                                  ▼                  ▼
//	ending ◀── answer, limit, error, cancel: from any state;
//	   │       suspended while it waits for a human: releasing, from acting
//	   │ calls have returned or were given up, run.finished is durable
//	   ▼
//	(stopped)
//
// Between two states lies an append: what an arrow does begins once the events
// that say so are durable (journal.go).

package loop

import (
	"context"
	"errors"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/spend"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// Messages from outside, and to itself.
type (
	cancelRun struct{ cause error }
	graceOver struct{}
)

// turn is one question to the model and the calls it leads to. Its address is its
// identity.
type turn struct {
	n       int // from one
	cancel  context.CancelCauseFunc
	resp    *llm.Response
	calls   []*call
	busy    int           // calls on their way: dispatched or being dispatched
	left    int           // calls without a durable result
	acted   bool          // its results are on their way to the model
	spend   *spend.Turn   // nil once its calls are made
	answers bool          // it may not call: see [Config.LastAnswers]
	over    error         // a limit that its calls have reached
	spoilt  []string      // ids of calls whose arguments were no JSON object
	guards  guard.Outcome // of the model's answer
	text    *string       // a guard's, in place of the model's answer; nil for none
}

// parts are what a run consists of, and what each part may use. Like the run itself they
// are touched by its own goroutine only, so there is no lock.
type parts struct {
	run      owner
	cfg      *config // a hand-off gives the run another
	spend    *spend.Spending
	clock    wallClock
	journal  journal
	asks     asks
	talk     conversation
	calls    calls
	limits   limits
	shutdown shutdown
	turn     *turn    // nil before the first
	out      *Outcome // set once the run is ending

	suspending *actors.Reply[struct{}] // of the caller of Suspend; nil without one
}

// owner is the run, as its parts know it.
type owner interface {
	opened(c *actors.Context, err error)  // the run is recorded, or never will be
	list(c *actors.Context)               // the next turn begins
	hit(c *actors.Context, m limitHit)    // something does not fit a limit
	act()                                 // calls are being made
	acted(c *actors.Context)              // all calls of the turn have results
	failed(c *actors.Context, err error)  // the run ends
	limited(c *actors.Context, err error) // the run ends at a limit
	end(c *actors.Context, out Outcome)   // the run ends
}

// run is the actor: it holds the state machine, and its parts all else.
type run struct {
	parts
	h       *Run
	state   func(*run, *actors.Context, any) // takes what is the state's own
	check   answerCheck
	opening *opening // nil once the run is recorded

	wrapping   *LimitError // the last turn is under way because of it; nil before
	leaveQueue func()      // withdraws the run from the turns that wait for room; nil if it does not
}

func newRun(h *Run) *run {
	r := &run{h: h}
	r.parts = parts{run: r, cfg: &h.cfg, spend: h.spend, talk: newConversation(h.cfg.Origin.Input)}
	p := &r.parts
	p.journal.parts, p.asks.parts, p.calls.parts, p.limits.parts, r.check.parts = p, p, p, p, p
	p.shutdown = shutdown{parts: p, h: h}
	return r
}

// Receive handles what is the same in every state; the rest is the state's.
func (r *run) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		r.clock.start(c, r.cfg.Wall)
		r.state = (*run).beginning
		r.opening = &opening{parts: &r.parts, h: r.h}
		r.opening.start(c)
	case actors.Stopping, actors.ChildStopped: // Run.died does what is left to do
	case cancelRun:
		r.cancel(c, m.cause)
	case wallOver:
		r.limited(c, overLimit("wall time", r.cfg.Wall))
	case noteSpent:
		if r.journal.final {
			return // it is written with the end
		}
		if notes := r.spend.TakeNotes(); len(notes) > 0 {
			r.journal.write(c, nil, notes...)
		}
	case answer:
		r.asks.answer(c, m)
	case suspendRun:
		r.suspend(c, m)
	default:
		if !r.journal.receive(c, msg) && !r.calls.receive(c, msg) {
			r.state(r, c, msg)
		}
	}
	if r.suspending != nil && !r.journal.final {
		r.trySuspend(c)
	}
}

func (r *run) beginning(c *actors.Context, msg any) { r.opening.receive(c, msg) }

// opened begins the first turn of a run that is recorded, and ends one that cannot be.
func (r *run) opened(c *actors.Context, err error) {
	switch {
	case err != nil:
		if !errors.Is(err, store.ErrExists) {
			err = &JournalError{err}
		}
		r.h.opened.Complete(begun{}, err)
		r.h.ended.Complete(&Outcome{State: store.Failed, Stop: runlog.StopFailed, Err: err}, nil)
		c.Stop()
	case r.out != nil:
		r.opening = nil
		r.shutdown.finish(c)
	default:
		r.opening = nil
		r.list(c)
	}
}
