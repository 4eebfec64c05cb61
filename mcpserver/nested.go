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

// Questions implements [dialogue.Request].
func (r *request) Questions(ctx context.Context) (*call.Table, error) {
	if p, ok := r.port.(*web.Exchange); ok && !p.Open() { // SHL-32
		return nil, errUnheard
	}
	table, err := r.session.questions(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking the client: %w", err)
	}
	return table, nil
}

// openQuestions is sent to a session that is to ask its client something for the
// first time.
type openQuestions struct {
	reply *actors.Reply[*call.Table]
}

// questions returns the calls to the client. Most sessions never have any, so they are
// made when they are first needed.
func (s *session) questions(ctx context.Context) (*call.Table, error) {
	if t := s.nested.Load(); t != nil {
		return t, nil
	}
	return actors.Ask(ctx, s.ref, func(r *actors.Reply[*call.Table]) any { return &openQuestions{r} })
}

// openQuestions makes the calls' table, in the session's Receive.
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

// generation is that of the link to the client: a session has but one.
const generation = 1

// ask sends a request to a legacy client and waits for the answer.
func (s *session) ask(ctx context.Context, req *call.Request) (call.Result, error) {
	t, err := s.questions(ctx)
	if err != nil {
		return call.Result{}, err
	}
	return t.Do(ctx, req)
}

// response handles what the client answers. An answer without a question is ignored
// (BASE-15).
func (s *session) response(m *mcp.Message) {
	t := s.nested.Load()
	if t == nil {
		s.server.log.Debug("an answer without a request", "session", s.ref.Path(), "id", m.ID.String())
		return
	}
	t.Deliver(generation, m)
}

// backLink carries questions to the client: with the request they belong to, or else
// as a message of the session.
type backLink struct{ session *session }

var (
	errOver    = errors.New("the request it belongs to is over")
	errUnheard = errors.New("the client has closed the connection, and cannot be asked any more")
)

// Send implements [mcp.Link].
func (l backLink) Send(m mcp.Outgoing) error {
	by, belongs := m.Tag.(*request)
	switch {
	case belongs && by.Carry(m.Frame):
		return nil
	case belongs && m.Kind == mcp.KindRequest:
		return errOver
	}
	l.session.Notify(m.Frame) // also what withdraws the question of a request that is over
	return nil
}

// Close implements [mcp.Link].
func (l backLink) Close() error { return nil }
