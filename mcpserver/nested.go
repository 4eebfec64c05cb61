package mcpserver

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/web"
)

// Carry implements [dialogue.Request].
func (r *request) Carry(frame []byte) bool {
	return r.Emit(func() { r.port.Notify(frame) })
}

// ask is Carry for a question, on the goroutine that will wait for the answer.
func (r *request) ask(frame []byte) bool {
	if x, ok := r.port.(*web.Exchange); ok {
		return r.Emit(func() { x.Ask(frame) })
	}
	return r.Carry(frame)
}

// Await implements [dialogue.Request]: where the handler runs on the goroutine that reads, that reads on.
func (r *request) Await(ctx, handler context.Context, c *call.Call) {
	in := r.session.in
	if !r.hosted || !in.Reclaim() {
		return
	}
	if ctx != handler {
		defer actors.AfterDone(ctx, r.Ended)()
	}
	defer in.panicked()
	if !in.ReadOn(func() bool { return c.Completed() || ctx.Err() != nil || handler.Err() != nil }, in.response) {
		in.Offer()
	}
}

// Ended is for [call.Request].Tag and [invocation.Request]: who reads on looks whether to go on.
func (r *request) Ended() {
	if r.hosted {
		r.session.in.LookAgain()
	}
}

// Questions implements [dialogue.Request].
func (r *request) Questions(ctx context.Context) (*call.Table, error) {
	if p, ok := r.port.(*web.Exchange); ok && !p.Open() { // SHL-32
		return nil, errNoStream
	}
	table, err := r.session.questions(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking the client: %w", err)
	}
	return table, nil
}

// openQuestions is a message to a session: it is about to ask its client for the first
// time.
type openQuestions struct {
	reply *actors.Reply[*call.Table]
}

// questions returns the table of the calls to the client. Most sessions never ask, so the
// first question makes it.
func (s *session) questions(ctx context.Context) (*call.Table, error) {
	if t := s.nested.Load(); t != nil {
		return t, nil
	}
	return actors.Ask(ctx, s.ref, func(r *actors.Reply[*call.Table]) any { return &openQuestions{r} })
}

// openQuestions makes the table of the calls, in the session's Receive.
func (s *session) openQuestions(m *openQuestions) {
	t, h := s.nested.Load(), s.legacy.Load()
	switch {
	case h == nil:
		m.reply.Complete(nil, errors.New("the session is not initialized"))
		return
	case t == nil:
		t = call.NewTable(s.server.sys, &call.Options{Limit: s.server.opts.Limits.MaxInFlight})
		t.Bind(s.ref)
		t.Open(generation, backLink{s})
		t.Agree(generation, h.version, nil)
		t.Ready()
		s.nested.Store(t)
	}
	m.reply.Complete(t, nil)
}

// generation is the number of the link to the client: a session has only one.
const generation = 1

// ask sends a request to a legacy client and waits for the answer.
func (s *session) ask(ctx context.Context, req *call.Request) (call.Result, error) {
	t, err := s.questions(ctx)
	if err != nil {
		return call.Result{}, err
	}
	return t.Do(ctx, req)
}

// response handles a response of the client. The server ignores one without a request
// (BASE-15).
func (s *session) response(m *mcp.Message) {
	t := s.nested.Load()
	if t == nil {
		s.server.log.Debug("a response without a request", "session", s.ref.Path(), "id", m.ID.String())
		return
	}
	t.Deliver(generation, m)
}

// backLink carries questions to the client: with the request they belong to, or as a
// message of the session.
type backLink struct{ session *session }

var (
	errOver     = errors.New("the request that the question belongs to is over")
	errNoStream = errors.New("the client has closed the connection, and cannot be asked any more")
)

// Send implements [mcp.Link].
func (l backLink) Send(m mcp.Outgoing) error {
	by, belongs := m.Tag.(*request)
	switch {
	case belongs && m.Kind == mcp.KindRequest:
		if !by.ask(m.Frame) {
			return errOver
		}
		return nil
	case belongs && by.Carry(m.Frame):
		return nil
	}
	l.session.Notify(m.Frame) // also the cancellation of a question whose request is over
	return nil
}

// Close implements [mcp.Link].
func (l backLink) Close() error { return nil }
