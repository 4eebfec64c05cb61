// handlercall.go: the call of a handler that may ask.
//
// It begins with a request, and may outlive it: a question to a client of 2026-07-28 ends
// the request, and the answers come with the next. Package invocation has its states and its
// actor; this file connects requests and handlers with it.

package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/dialogue"
	"github.com/troupe-dev/troupe/mcpserver/internal/invocation"
	"github.com/troupe-dev/troupe/mcpserver/internal/offered"
	"github.com/troupe-dev/troupe/mcpserver/internal/questions"
	"github.com/troupe-dev/troupe/mcpserver/internal/ticket"
)

// handlerCall is a handler at work. Its context is its own: that of a request ends with
// the request.
type handlerCall struct {
	dialogue.Call
	request *request // whose arguments it has, and on whose goroutine it runs
	remarks atomic.Pointer[remark]
}

// remark is a text behind the result of a tool, from what the handler has used.
type remark struct {
	text   func() string
	before *remark
}

// Remark implements [asking.Handler].
func (n *handlerCall) Remark(text func() string) {
	for m := (&remark{text: text}); ; {
		if m.before = n.remarks.Load(); n.remarks.CompareAndSwap(m.before, m) {
			return
		}
	}
}

func (n *handlerCall) server() *Server { return n.request.session.server }

// newHandlerCall returns the call that r begins; id is that of an earlier call whose ticket
// r brings, or empty. Values of its context are those of base.
func (r *request) newHandlerCall(id string, base context.Context) *handlerCall {
	n := &handlerCall{request: r}
	if r.waits != nil {
		n.request, base = r.detached(), context.WithoutCancel(base)
		n.request.invocation.Store(n)
	}
	n.Owner = n
	r.session.server.dialogues.Begin(&n.Call, id, n.request, r, base)
	r.Join(&n.Call)
	return n
}

// detached returns a request with the fields of r that its handler needs, for a handler that
// outlives r while a middleware still works on the response to r.
func (r *request) detached() *request {
	return &request{
		session: r.session, port: r.port, work: r.job(), version: r.version, client: r.client, principal: r.principal, arguments: r.arguments,
		optional: &optional{token: r.token, responses: r.responses, state: r.state, meta: r.meta},
	}
}

// Join implements [dialogue.Request].
func (r *request) Join(c *dialogue.Call) {
	r.invocation.Store(c.Owner.(*handlerCall))
	if r.Err() != nil {
		c.Leave(r, context.Cause(&r.Call))
	}
}

// start carries out a call whose handler may ask.
func (r *request) start() error {
	n, err := r.enters(context.Background())
	if n == nil {
		return err
	}
	return n.carry()
}

// round is start inside of a middleware, which waits for the response: each round of a
// call passes through it.
func (r *request) round(ctx context.Context) (json.RawMessage, error) {
	r.own().waits = make(chan invocation.Outcome, 1)
	n, err := r.enters(ctx)
	switch {
	case n != nil:
		n.server().sys.Go(r.session.ref.Path(), func() { _ = n.carry() }) // its outcome comes below
	case err == nil:
		return offered.ResultIn(*r.out, r.ID()), nil
	case err != inbound.ErrParked:
		return nil, err
	}
	select {
	case out := <-r.waits:
		return out.Result, out.Err
	case <-ctx.Done(): // the middleware's own limit, or the call is over
		if n := r.invocation.Load(); n != nil {
			n.Leave(r, context.Cause(ctx))
		}
		return nil, context.Cause(ctx)
	}
}

// enters finds the call that a request belongs to. It returns the call if its handler must
// run on this goroutine; else the error is that of Handle.
func (r *request) enters(base context.Context) (*handlerCall, error) {
	if r.state != nil && r.version.Era() == mcp.EraModern && r.task == nil {
		c, result, err := r.session.server.dialogues.Again(r, base, func(id string) *dialogue.Call { return &r.newHandlerCall(id, base).Call })
		switch {
		case err != nil:
			return nil, answerTo(r, public(err))
		case c == nil:
			r.respondRaw(result)
			return nil, nil
		}
		return c.Owner.(*handlerCall), nil
	}
	return r.newHandlerCall("", base), nil
}

// carry runs the handler on the goroutine of its first request, and returns the error of
// that request's Handle.
func (n *handlerCall) carry() error {
	returned := false
	defer func() {
		if !returned { // the goroutine ends
			_ = n.finish(&actors.PanicError{Value: errors.New("the handler has ended its goroutine")})
		}
	}()
	_, err := actors.Guard(func() (struct{}, error) { return struct{}{}, n.handle() })
	returned = true
	return n.finish(err)
}

// maxRounds bounds how often a handler in retry style asks a legacy client (MRTR-15).
const maxRounds = 10

// handle runs the handler: once, or in retry style.
func (n *handlerCall) handle() error {
	for round := 0; ; round++ {
		err := n.request.job().run(n.request)
		wants, ok := errors.AsType[*InputRequired](err)
		if !ok {
			return err
		}
		if round == maxRounds {
			return mcp.Errorf(mcp.CodeInternal, "the handler asks more than %d times", maxRounds)
		}
		n.request.enter() // a handler in retry style has returned, and waits all the same
		suspended, err := n.Want(wants.Requests, wants.State)
		if n.request.leave(); err != nil || suspended {
			return n.failed(err)
		}
	}
}

// failed returns how the work ends with an error, as if the handler had returned it.
func (n *handlerCall) failed(err error) error {
	err = public(err)
	if t, ok := n.request.job().(*tool); ok && err != nil {
		return t.failed(n.request, err)
	}
	return err
}

// finish answers the requests that wait with err, or with the result in request.out. It
// returns the error of the first one's Handle.
func (n *handlerCall) finish(err error) error {
	if e, ok := errors.AsType[*CapabilityError](err); ok {
		err = e.wire(n.request.version)
	}
	ending := n.Return(n.request)
	out := invocation.Outcome{Err: err}
	if err == nil && (len(ending.Others) > 0 || ending.Own && n.request.state != nil) { // else no request needs it, and it may be sent already
		out.Result = slices.Clone(offered.ResultIn(*n.request.out, n.request.ID()))
	}
	n.Finish(ending, out)
	if ending.Own {
		return err
	}
	if p, ok := err.(*actors.PanicError); ok { // only here is its stack known
		n.server().log.Error("a handler panicked", "name", n.request.work.name(), "error", p, "stack", string(p.Stack))
	}
	return inbound.ErrParked
}

// Conclude implements [invocation.Request].
func (r *request) Conclude(out invocation.Outcome) {
	if r.waits != nil {
		r.waits <- out
		return
	}
	if out.Err == nil {
		frame := mcp.AppendResult(nil, r.ID(), out.Result)
		r.settled = &frame
	}
	r.Finish(out.Err)
}

// Release implements [invocation.Request].
func (r *request) Release() {
	if r.waits == nil { // else its Handle has not returned
		r.Finish(nil)
	}
}

// current is the request that the handler works for now, or has worked for.
func (n *handlerCall) current() *request { return n.Current().(*request) }

// handOver answers the requests that wait with result, an object. The request of a task,
// which was begun and does not run, takes their place.
func (n *handlerCall) handOver(result []byte, to *request) error {
	if err := n.Detach(invocation.Outcome{Result: result}, to); err != nil {
		return err
	}
	to.Join(&n.Call)
	return nil
}

// capabilities are those that the client has declared for the request (CAP-05).
func (r *request) capabilities() *mcp.ClientCapabilities {
	sender := r.Sender()
	return sender.Can()
}

// Sender implements [dialogue.Request].
func (r *request) Sender() dialogue.Sender {
	return dialogue.Sender{Version: r.version, Declared: r.client.Capabilities, Principal: r.principal.id(), Expiry: r.principal.expiry(), Session: r.session, Task: r.task}
}

// Binding implements [dialogue.Request].
func (r *request) Binding() ticket.Binding {
	return ticket.NewBinding(r.principal.id(), r.Method(), r.work.name(), r.arguments)
}

// Size and Brought implement [dialogue.Request]. The arguments are kept twice, as JSON and decoded.
func (r *request) Size() int64                                 { return int64(2*len(r.arguments) + r.meta.Size()) }
func (r *request) Brought() (responses, state json.RawMessage) { return r.responses, r.state }

// newDialogues needs the server's pages and records.
func (s *Server) newDialogues(sealer *ticket.Sealer) *dialogue.Host {
	return &dialogue.Host{
		Calls: s.newCalls(), Forms: questions.Forms{Log: s.log}, Pages: s.pages, Sealer: sealer, Records: s.records,
		TicketTTL: s.opts.Rounds.TicketTTL, PageWait: s.opts.Rounds.PageWait, NoParking: s.opts.Rounds.NoParking, Suspended: ErrSuspended, Public: public,
		Encode: func(result any, v mcp.Version) ([]byte, error) {
			raw, err := mcp.MarshalResult(result, v)
			if err != nil {
				return nil, err
			}
			return s.identity.Finish(raw, v), nil
		},
	}
}

func (s *Server) newCalls() *invocation.Calls {
	return invocation.NewCalls(invocation.Options{
		Spawn: s.spawnChild, Go: func(f func()) { s.sys.Go(s.ref.Path(), f) },
		MaxParked: s.opts.Rounds.MaxParked, ParkFor: s.opts.Rounds.ParkFor, Abandoned: ErrAbandoned, Finished: inbound.ErrFinished,
	})
}
