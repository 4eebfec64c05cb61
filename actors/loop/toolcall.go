package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/spend"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// Call is one call of a tool, or of [Config].Summarise, which has a Budget only.
type Call struct {
	Run       string // the run's ID
	Key       string // its idempotency key
	Arguments json.RawMessage

	cfg   *config // nil outside of a run
	run   actors.Ref
	call  *call           // nil outside of a run, and for a hook
	spend *spend.Spending // nil outside of a run
	left  time.Duration
	in    callContext
}

// callContext is the context of a call for code that is only given that.
type callContext struct {
	context.Context
	key  any
	call *Call
}

// Value implements context.Context.
func (c *callContext) Value(key any) any {
	if key == c.key {
		return c.call
	}
	return c.Context.Value(key)
}

// Within returns ctx with the call as the value of key, which is of a comparable type of the
// caller's. It is for a [Tool.Do], which may use it once.
func (c *Call) Within(ctx context.Context, key any) context.Context {
	c.in = callContext{ctx, key, c}
	return &c.in
}

// ID returns the model's ID of the call.
func (c *Call) ID() string { return c.call.id }

// Tool returns the tool that is called.
func (c *Call) Tool() *Tool { return c.call.tool }

// Progress tells the readers of the run how far the call is, in units of its own; total is zero where
// it is unknown.
func (c *Call) Progress(done, total float64, message string) {
	if c.cfg != nil {
		c.cfg.Sink.Progress(c.Key, done, total, message)
	}
}

// Budget returns the account of the run that makes the call: for what the call spends
// itself, such as the answers that its server samples, and as the parent of a
// sub-agent's account. It is nil outside of a run.
func (c *Call) Budget() *budget.Account {
	if c.spend == nil {
		return nil
	}
	return c.spend.Account()
}

// Charge settles a hold of [Call.Budget] with what was spent during the call, and has it
// written into the run's journal under the call's key. It may be called from any
// goroutine. What comes after the run's end is charged only.
func (c *Call) Charge(hold *budget.Hold, s runlog.Spent) {
	if c.spend == nil {
		hold.Settle(spend.Amount(&s))
		return
	}
	c.spend.Note(hold, c.Key, s)
	c.run.Send(noteSpent{})
}

// Left returns how much of its wall time the run had left when the call was made; zero
// outside of a run. A run that the call starts has no longer than that.
func (c *Call) Left() time.Duration { return c.left }

// noteSpent is a message: the run was charged, and there is something to write.
type noteSpent struct{}

// Question is a question of a call under way to a human, as a rule because its
// server does.
type Question struct {
	Kind    string          // not [AskKind]
	Payload json.RawMessage // the contents, as they are to be shown
	Default json.RawMessage // the answer offered first; never taken without a human
	Hash    string          // of what is shown
	// Expires is when it is declined by itself. Zero means the run's AskExpiry.
	Expires time.Time
}

// maxRaised bounds the questions of one call, one after the other or at once: a
// server must not fill the journal with them (ROB-9).
const maxRaised = 64

// Messages from the goroutines of calls.
type (
	unraise struct{ raised *raise }

	// declinedUnasked is a question that was declined without being put to the run.
	declinedUnasked struct {
		call         *call
		kind, reason string
	}
)

// Ask puts a question to the person who answers for the run, and waits for the decision,
// which is durable by then. The clock of the run's wall time stands still meanwhile.
// When ctx ends the question is withdrawn. It is for the goroutine that [Tool.Do] runs
// on, or others of the call.
func (c *Call) Ask(ctx context.Context, q Question) (store.Decision, error) {
	if c.call == nil {
		return store.Decision{}, fmt.Errorf("%w: it has no run", ErrNotAsked)
	}
	m := &raise{call: c.call, q: q, reply: new(actors.Reply[store.Decision])}
	c.run.Send(m)
	select {
	case <-m.reply.Done():
	case <-c.run.Stopped():
		m.reply.Complete(store.Decision{}, fmt.Errorf("%w: the run has ended", ErrNotAsked))
	case <-ctx.Done():
		m.reply.Complete(store.Decision{}, context.Cause(ctx))
		c.run.Send(unraise{m})
	}
	return m.reply.Result()
}

// DeclinedUnasked writes into the run's journal that a question of the call's server was
// declined without being asked, and why. It does not wait. A run that has ended ignores it,
// and a call's notes beyond a bound.
func (c *Call) DeclinedUnasked(kind, reason string) {
	if c.call != nil {
		c.run.Send(declinedUnasked{c.call, kind, reason})
	}
}

// maxUnasked bounds the notes of one call in the journal.
const maxUnasked = 16

// Messages from the goroutines of calls.
type (
	dispatchWanted struct {
		call    *call
		proceed func(error)
	}
	waitsFor struct {
		call *call
		what string
	}
)

// Dispatch is for a tool that says so, see [Tool].Dispatches: the call is about to be sent,
// or its next round is. It may be once proceed was called with nil, on the run's goroutine: tool.dispatched is
// durable then. With an error it must not be. Proceed must not block; it is not called if
// the context of the call ends before.
func (c *Call) Dispatch(proceed func(error)) {
	if c.call == nil {
		proceed(nil)
		return
	}
	c.run.Send(dispatchWanted{c.call, proceed})
}

// WaitsFor reports why the call waits before it can be sent, and with "" that it does not
// any more. The run's wall time stands still meanwhile: as a rule it
// waits for the question of another run.
func (c *Call) WaitsFor(what string) {
	if c.call != nil {
		c.run.Send(waitsFor{c.call, what})
	}
}

// taskMade is a message from a call: its server has made a task of it.
type taskMade struct {
	call *call
	task string
}

// TaskMade writes into the run's journal that the server has made a task of the call: if this
// process ends, [Tool.TakeUp] gets its ID. It does not wait.
func (c *Call) TaskMade(task string) {
	if c.call != nil {
		c.run.Send(taskMade{c.call, task})
	}
}

// roundMade is a message from a call: its server wants input before it carries it out.
type roundMade struct {
	call     *call
	requests mcp.InputRequests
	state    *string
	size     int
}

// RoundMade writes into the run's journal that the server wants input before it carries out the
// call: if this process ends before the next round is sent, [Tool.TakeUp] gets it. [Call.Dispatch]
// is to be called again before that. It does not wait. Size is that of the server's answer, in
// bytes.
func (c *Call) RoundMade(requests mcp.InputRequests, state *string, size int) {
	if c.call != nil {
		c.run.Send(roundMade{c.call, requests, state, size})
	}
}

// hold is a message from a call: a run that it has started waits for a human, or does
// not any more.
type hold struct {
	call *call
	n    int // 1 or -1
}

// Hold stops the clock of the run's wall time while the run that this call has
// started waits for a human, until the function that it returns is called, once or
// more often, or the call returns.
func (c *Call) Hold() (release func()) {
	if c.call == nil {
		return func() {}
	}
	c.run.Send(hold{c.call, 1})
	var once sync.Once
	return func() { once.Do(func() { c.run.Send(hold{c.call, -1}) }) }
}
