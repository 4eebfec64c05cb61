// Package invocation keeps the logical calls of a server's handlers, each from its first
// request to its outcome, over all rounds in which the client is asked.
//
// An [Invocation] is a handler at work. While one request waits for it, the actor of that
// request stands for it, and the handler costs nothing more. With the first question that
// ends a round, with a task that takes over, or with a second request that waits for the
// same outcome, it becomes an actor of its own, and from then on every change is a message
// to that: see actor.go. [Calls] remembers which invocation has which call, what is parked
// for whom, and what the retries of each call came to.
//
// # What is promised
//
//   - Each request of an invocation is concluded once: by what its round came to, by the
//     handler's return, or by the failure of the actor.
//   - One set of answers is carried out by one handler at a time, however often it comes.
//   - A handler that waits for answers gets them, or the reason why they do not come.
package invocation

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// Request is one round of an invocation: a request that waits for what the round comes to.
// Its dynamic type is a pointer.
type Request interface {
	// Conclude ends the request. It may wait for the request's actor.
	Conclude(Outcome)
	// Release frees a request that has its outcome from elsewhere, and whose handler runs
	// on the goroutine of another one.
	Release()
	// Ended is called when the handler's context has ended. It does not block.
	Ended()
}

// Outcome is what a handler has ended with, or a round of it.
type Outcome struct {
	Result []byte // the result object; nil for an error, or when it was too large to keep
	Err    error
}

// Answers are those to the questions of a round, by their keys.
type Answers = map[string]json.RawMessage

// Invocation is a handler at work. The zero value becomes one by [Invocation.Begin]; it must
// not be copied. Its methods may be used from any goroutine.
type Invocation struct {
	Handler any // what its owner knows it by; set before Begin

	calls *Calls
	id    string  // of the call whose ticket began it; empty in the first round
	first Request // whose arguments the handler has
	ctx   context.Context
	stop  context.CancelCauseFunc

	returned actors.Reply[struct{}]
	link     atomic.Pointer[link]    // to the actor; nil while there is none, unreachable when there will be none
	newest   atomic.Pointer[Request] // nil while it is first
	taken    atomic.Bool             // first is concluded by another than the handler's return
}

// link is how an invocation reaches its actor, once it was started.
type link struct{ ref actors.Reply[actors.Ref] }

// unreachable is the link of an invocation that ended without an actor.
var unreachable = new(link)

// Begin makes the invocation one of calls: first waits for it. Id is that of the call whose
// ticket begins it, empty for a new call. Values of its context are those of base.
func (n *Invocation) Begin(calls *Calls, id string, first Request, base context.Context) {
	n.calls, n.id, n.first = calls, id, first
	n.ctx, n.stop = context.WithCancelCause(base)
}

// Context is the handler's. It ends with the last request that waits, and when the handler
// waits in vain.
func (n *Invocation) Context() context.Context { return n.ctx }

// End ends the handler's context.
func (n *Invocation) End(cause error) {
	n.stop(cause)
	n.first.Ended()
}

// Cause returns why the handler is to end, nil while it is not.
func (n *Invocation) Cause() error {
	if n.ctx.Err() == nil {
		return nil
	}
	return context.Cause(n.ctx)
}

// Current is the request that the handler works for now, or has worked for.
func (n *Invocation) Current() Request {
	if r := n.newest.Load(); r != nil {
		return *r
	}
	return n.first
}

// Returned says that the handler has returned.
func (n *Invocation) Returned() <-chan struct{} { return n.returned.Done() }

// Attach lets another request wait for the outcome, and reports false if there will be none:
// the handler has returned, or ends.
func (n *Invocation) Attach(r Request) bool {
	attached, err := ask(n, func(reply *actors.Reply[bool]) any { return &attach{r, reply} })
	return err == nil && attached
}

// Leave says that a request is over which the invocation has not concluded: it was
// cancelled, or took too long. The handler's context ends with the last that waits. Leave
// does not block.
func (n *Invocation) Leave(r Request, cause error) {
	if r == n.first && n.link.CompareAndSwap(nil, unreachable) { // it is the only one
		n.End(cause)
		return
	}
	l := n.link.Load()
	if l == nil || l == unreachable {
		return
	}
	send := func(ref actors.Ref, err error) {
		if err != nil {
			n.End(cause)
			return
		}
		ref.Send(&left{r, cause})
	}
	if l.ref.Completed() {
		send(l.ref.Result())
		return
	}
	n.calls.opts.Go(func() { send(n.actor()) })
}

// Round is the end of a round in which the handler asks.
type Round struct {
	Ticket    // what the client brings back
	Principal string
	Result    []byte // what the requests are answered with
	// Park keeps the handler for the answers. Questions is what a retry finds of them,
	// and Kept how many bytes the parked handler keeps.
	Park      bool
	Expiry    time.Time // it is parked no longer; zero is no bound of its own
	Questions any
	Kept      int64
}

// Ask ends a round: the requests that wait are concluded with its result. The reply is what
// the handler waits for, nil if it is not parked. The error is the cause of the handler's end:
// then no request waits for a result.
func (n *Invocation) Ask(round *Round) (*actors.Reply[Answers], error) {
	var answers *actors.Reply[Answers]
	if round.Park {
		answers = new(actors.Reply[Answers])
	}
	ended, err := ask(n, func(reply *actors.Reply[asked]) any { return &question{round, answers, reply} })
	if err == nil && len(ended.waiting) == 0 {
		err = n.gone()
	}
	if err != nil {
		return nil, err
	}
	for _, other := range ended.evicted {
		other.Abandon(n.calls.opts.Abandoned)
	}
	for _, r := range ended.waiting {
		r.Conclude(Outcome{Result: round.Result})
	}
	return answers, nil
}

// Await waits for the answers of a parked handler. When ctx ends before, so does the
// handler: no request waits for what it makes of that.
func (n *Invocation) Await(ctx context.Context, answers *actors.Reply[Answers]) (Answers, error) {
	select {
	case <-answers.Done():
	case <-ctx.Done():
		n.Abandon(context.Cause(ctx))
		<-answers.Done() // with the answers, if they came at this moment
	case <-n.ctx.Done():
		n.Abandon(context.Cause(n.ctx))
		<-answers.Done()
	}
	return answers.Result()
}

// Abandon ends the handler if it is parked.
func (n *Invocation) Abandon(cause error) {
	if l := n.link.Load(); l != nil && l != unreachable {
		if ref, err := l.ref.Result(); err == nil { // one that is not started yet is not parked
			ref.Send(&abandon{cause})
		}
	}
}

// Resume lets a parked handler go on for the retry r, with its answers. False means that the
// handler is not parked in that round any more: look the call up again.
func (n *Invocation) Resume(r Request, retry *Retry, answers Answers) bool {
	resumed, err := ask(n, func(reply *actors.Reply[bool]) any { return &retried{r, retry, answers, reply} })
	return err == nil && resumed
}

// Detach concludes the requests that wait with an outcome, and lets to take their place: the
// handler goes on without them.
func (n *Invocation) Detach(out Outcome, to Request) error {
	return n.answer(out, to)
}

// Refuse concludes the requests that wait with an error, before the handler has returned.
// Those that are over already are left out.
func (n *Invocation) Refuse(err error) { _ = n.answer(Outcome{Err: err}, nil) }

func (n *Invocation) answer(out Outcome, to Request) error {
	waiting, err := ask(n, func(reply *actors.Reply[[]Request]) any { return &detach{out, to, reply} })
	if err == nil && len(waiting) == 0 {
		err = n.gone()
	}
	if err != nil {
		return err
	}
	for _, r := range waiting {
		r.Conclude(out)
	}
	return nil
}

// Unuse lets the ticket that began the round be used again: what came with it was no answer.
func (n *Invocation) Unuse(call string) { n.calls.unuse(call, n) }

// Ending is the work that remains when a handler has returned.
type Ending struct {
	// Others are the requests to be concluded beside the one on whose goroutine the
	// handler has run; Own says that this one ends with the handler's return.
	Others []Request
	Own    bool

	call      string
	cancelled bool
}

// Return says that the handler has returned, on the goroutine of carrier, which may be none
// of the requests that wait. [Invocation.Finish] must follow.
func (n *Invocation) Return(carrier Request) Ending {
	e := Ending{call: n.id, cancelled: n.ctx.Err() != nil}
	switch {
	case n.link.CompareAndSwap(nil, unreachable):
		if n.first != carrier {
			e.Others = []Request{n.first}
		}
	case n.link.Load() == unreachable: // its only request has left
		e.cancelled = true
	default:
		out, err := ask(n, func(reply *actors.Reply[Ending]) any { return &returned{reply} })
		if err == nil {
			e = out
		} else {
			e.cancelled = true // by the end of the actor, or of the server
		}
		e.Others = slices.DeleteFunc(e.Others, func(r Request) bool { return r == carrier })
	}
	e.Own = carrier == n.first && !n.taken.Load()
	return e
}

// Finish concludes the requests of an ending with the outcome, which is remembered for the
// same retry.
func (n *Invocation) Finish(e Ending, out Outcome) {
	n.End(n.calls.opts.Finished)
	if e.call != "" {
		n.calls.finished(e.call, n, out, e.cancelled)
	}
	n.returned.Complete(struct{}{}, nil)
	for _, r := range e.Others {
		r.Conclude(out)
	}
}

// gone says why no request waits.
func (n *Invocation) gone() error {
	if err := n.Cause(); err != nil {
		return err
	}
	return n.calls.opts.Finished
}

// actor returns the invocation's actor, which the first who needs it starts.
func (n *Invocation) actor() (actors.Ref, error) {
	l := n.link.Load()
	if l == nil {
		l = new(link)
		if n.link.CompareAndSwap(nil, l) {
			n.start(l)
		} else {
			l = n.link.Load()
		}
	}
	if l == unreachable {
		return actors.Ref{}, n.gone()
	}
	<-l.ref.Done()
	return l.ref.Result()
}

func (n *Invocation) start(l *link) {
	a := &actor{invocation: n, waiting: []Request{n.first}, call: n.id}
	n.calls.opts.Spawn(
		actors.Spec{Kind: actors.KindInvocation, Inline: true, New: func() actors.Actor { return a }, OnStop: a.stopped},
		func(ref actors.Ref, err error) { l.ref.Complete(ref, err) })
}

// ask sends a message to the actor and waits for its reply, which comes at once, or for the
// actor's end.
func ask[T any](n *Invocation, msg func(*actors.Reply[T]) any) (T, error) {
	ref, err := n.actor()
	if err != nil {
		var none T
		return none, err
	}
	return actors.Ask(context.Background(), ref, msg)
}
