package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/questions"
	"github.com/troupe-dev/troupe/mcpserver/internal/web"
)

// carrier is what a question to a legacy client goes out on: the request it is asked
// for.
type carrier interface {
	// carry sends a frame, unless the request is over.
	carry(frame []byte) bool
}

func (r *request) carry(frame []byte) bool {
	return r.Emit(func() { r.port.Notify(frame) })
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
		t = call.NewTable(s.server.sys, &call.Options{Limit: s.server.opts.MaxInFlight})
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
	by, belongs := m.Tag.(carrier)
	switch {
	case belongs && by.carry(m.Frame):
		return nil
	case belongs && m.Kind == mcp.KindRequest:
		return errOver
	}
	l.session.push(m.Frame) // also what withdraws the question of a request that is over
	return nil
}

// Close implements [mcp.Link].
func (l backLink) Close() error { return nil }

// askNested puts questions to a legacy client, side by side, as requests on the stream
// of the one they belong to (MRTR-30).
func (n *handlerCall) askNested(ctx context.Context, live *request, qs []*questions.Question) error {
	if err := questions.Missing(live.capabilities(), qs); err != nil {
		return err
	}
	if p, ok := live.port.(*web.Exchange); ok && !p.Open() { // SHL-32
		return errUnheard
	}
	table, err := live.session.questions(ctx)
	if err != nil {
		return fmt.Errorf("asking the client: %w", err)
	}
	defer live.Hold()()
	if live.task != nil {
		defer live.task.asking(ctx)()
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(n.Context(), func() { stop(n.Cause()) })() // CANC-13

	calls := make([]nestedCall, len(qs))
	for i, q := range qs {
		if err := n.beginNested(table, live, q, &calls[i]); err != nil {
			q.Err = err
		}
	}
	for i, q := range qs {
		if calls[i].call != nil {
			q.Err = calls[i].end(ctx, q)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, q := range qs {
		if q.Visited() {
			q.Err = n.waitForPage(ctx, q, nil)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// nestedCall is one question on its way.
type nestedCall struct {
	call    *call.Call
	request call.Request
}

func (n *handlerCall) beginNested(table *call.Table, live *request, q *questions.Question, c *nestedCall) error {
	params := q.Params
	if q.Page != nil {
		if err := n.openPage(q); err != nil {
			return err
		}
		id := ""
		if live.version.Has(mcp.FeatureElicitationIDs) {
			id = q.Page.ID
		}
		params = q.Page.Params(id)
	}
	if live.task != nil {
		params = live.task.mark(params)
	}
	c.request = call.Request{Method: q.Method, Params: params, Tag: carrier(live)}
	if q.Method != mcp.MethodListRoots { // a person is asked (TIME-04)
		c.request.Idle, c.request.Max = -1, n.server.opts.TicketTTL
	}
	c.call = table.Start(&c.request, nil)
	return nil
}

// end waits for the answer; when ctx ends the question is withdrawn.
func (c *nestedCall) end(ctx context.Context, q *questions.Question) error {
	res, err := c.call.Wait(ctx)
	if err == nil {
		if err := q.Settle(res.Raw); err != nil {
			return err
		}
		return q.Err
	}
	if wire, ok := errors.AsType[*mcp.Error](err); ok {
		if wire.Code == mcp.CodeUserRejected { // SAMP-41
			return declinedBecause(wire.Message)
		}
		return &questions.ClientError{Method: q.Method, Wire: wire}
	}
	return err
}

// declinedBecause is [ErrDeclined] with the reason that a client gives, if it gives one
// beside the words of the protocol: that it is out of budget, say.
func declinedBecause(reason string) error {
	if reason == "" || strings.EqualFold(reason, mcp.ErrUserRejected.Message) {
		return ErrDeclined
	}
	const most = 500
	if len(reason) > most {
		reason = strings.ToValidUTF8(reason[:most], "") + "…"
	}
	return fmt.Errorf("%w: %s", ErrDeclined, reason)
}
