package mcpclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
)

// asks is what a client knows of the server's questions.
type asks struct {
	limits    *askLimits
	abandoned abandonedCalls
	roots     atomic.Pointer[[]mcp.Root] // nil: not declared
	pages     pages
	inbox     inbox
	warned    rate.Sometimes // bounds the warnings of declined questions

	under atomic.Int32 // requests of the server under way
	held  held         // what they, and the questions of calls, take of memory
	mu    sync.Mutex
	begun map[beginning]bool // accepted, not yet in the session's table: whether it was cancelled
}

// beginning is a request that is about to be an actor.
type beginning struct {
	session *conn.Session
	id      mcp.ID
}

// initAsks is called once, before the connection is started.
func (c *Client) initAsks() error {
	a := &c.asks
	c.opts.Serial = c.opts.Serial || c.server.Serial
	a.limits = newAskLimits(&c.opts.AskOptions, c.opts.pool)
	a.abandoned.gen = func() uint64 { return c.conn.Status().Generation }
	a.pages.client = c
	a.inbox.conn = c.conn
	a.warned = rate.Sometimes{First: declineWarnings, Interval: declineWarningsEvery}
	if c.opts.Roots == nil {
		return nil
	}
	roots, err := checkRoots(c.opts.Roots)
	if err == nil {
		a.roots.Store(&roots)
	}
	return err
}

// question is something that a server asks. It has been checked.
type question interface {
	// answer returns the result. An error says that there is none: for a legacy server
	// it is the answer, and the call of a modern one fails.
	answer(ctx context.Context, c *Client, o *origin) (json.RawMessage, error)
}

// parseQuestion checks a question: that we have declared it (CAP-03), and that it
// keeps its rules. The error is what a legacy server is told.
func (c *Client) parseQuestion(v mcp.Version, method string, params json.RawMessage) (question, error) {
	caps := c.declared().For(v)
	switch {
	case method == mcp.MethodListRoots && caps.Roots != nil: // ROOT-03
		return rootsQuestion{}, nil
	case method == mcp.MethodCreateMessage && caps.Sampling != nil:
		return parseSampling(v, caps, c.opts.SamplingContext || c.server.SamplingContext, params)
	case method == mcp.MethodElicit && caps.Elicitation != nil:
		return parseElicit(v, caps, params)
	}
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "%.100s is not supported by this client", method)
}

// runAsk answers one question. The origin says whose it is.
func (c *Client) runAsk(ctx context.Context, o *origin, method string, params json.RawMessage) (json.RawMessage, error) {
	q, err := c.parseQuestion(o.version, method, params)
	if err != nil {
		return nil, err
	}
	if o.hold != nil {
		defer o.hold()()
	}
	return q.answer(ctx, c, o)
}

// asked handles a request of the server, on the transport's goroutine.
func (c *Client) asked(s *conn.Session, m *mcp.Message, related mcp.ID) {
	v := s.Version()
	if v.Era() == mcp.EraModern {
		c.log.Warn("ignoring a request of a modern server", "method", m.Method) // MOD-07
		return
	}
	c.observeRequest(m.Method, m.Params)
	if m.Method == mcp.MethodPing { // PING-01: in every state
		c.respond(s, m.ID, m.Method, nil, nil)
		return
	}
	if !v.Method(m.Method, mcp.Server) || !c.answers(v, m.Method) { // BASE-14
		c.respond(s, m.ID, m.Method, nil, mcp.Errorf(mcp.CodeMethodNotFound, "%.100s is not supported by this client", m.Method))
		return
	}
	size := weight(m.Params)
	if !c.asks.held.take(size) {
		c.warnDeclined(m.Method, errTooMany)
		result, err := refusal(m.Method)
		c.respond(s, m.ID, m.Method, result, err)
		return
	}
	if c.asks.under.Add(1) > maxAsked || m.Method == mcp.MethodElicit && c.asks.limits.full() {
		c.asks.under.Add(-1)
		c.asks.held.give(size)
		c.warnDeclined(m.Method, cmp.Or(c.asks.limits.refuses(), errTooMany))
		result, err := refusal(m.Method)
		c.respond(s, m.ID, m.Method, result, err)
		return
	}
	a := &askedRequest{
		client: c, session: s, origin: c.whose(s, m, related),
		message: mcp.Message{Kind: m.Kind, ID: m.ID, Method: m.Method, Params: append(json.RawMessage(nil), m.Params...)},
	}
	key := beginning{s, m.ID}
	c.asks.mu.Lock()
	if c.asks.begun == nil {
		c.asks.begun = make(map[beginning]bool)
	}
	c.asks.begun[key] = false
	c.asks.mu.Unlock()
	c.sys.Go("questions of "+c.server.Name, func() {
		defer c.asks.under.Add(-1)
		defer c.asks.held.give(size)
		a.run(key)
	})
}

// answers reports whether a method of the server was declared in any form.
func (c *Client) answers(v mcp.Version, method string) bool {
	caps := c.declared().For(v)
	switch method {
	case mcp.MethodListRoots:
		return caps.Roots != nil
	case mcp.MethodCreateMessage:
		return caps.Sampling != nil
	case mcp.MethodElicit:
		return caps.Elicitation != nil
	}
	return caps.Tasks != nil // tasks/*
}

// refusal is the answer to a request beyond the limits.
func refusal(method string) (json.RawMessage, error) {
	switch method {
	case mcp.MethodElicit:
		return mcp.Marshal(&mcp.ElicitResult{Action: mcp.ActionDecline})
	case mcp.MethodCreateMessage:
		return nil, errTooMuchSampling
	}
	return nil, inbound.ErrBusy
}

// cancelled handles notifications/cancelled: the server withdraws a question.
func (c *Client) cancelled(s *conn.Session, m *mcp.Message) {
	var p mcp.CancelledParams
	if s.Version().Era() != mcp.EraLegacy || m.DecodeParams(&p) != nil { // CANC-07
		return
	}
	key := beginning{s, p.RequestID}
	c.asks.mu.Lock()
	if _, ok := c.asks.begun[key]; ok {
		c.asks.begun[key] = true
	}
	c.asks.mu.Unlock()
	s.Inbound().Cancel(p.RequestID, p.Reason)
}

// completed handles notifications/elicitation/complete. Only 2025-11-25 has it: an
// unknown id, or one that is completed, is ignored (URL-31, URL-43).
func (c *Client) completed(s *conn.Session, m *mcp.Message) {
	var p mcp.ElicitationCompleteParams
	if !s.Version().Has(mcp.FeatureElicitationIDs) || m.DecodeParams(&p) != nil {
		return
	}
	c.asks.pages.table().Complete(p.ElicitationID)
}

// askedRequest is a request of a legacy server under way.
type askedRequest struct {
	inbound.Call
	client  *Client
	session *conn.Session
	origin  *origin
	message mcp.Message
	result  json.RawMessage // if Handle returns nil
}

func (a *askedRequest) run(key beginning) {
	c, table := a.client, a.session.Inbound()
	err := table.Begin(&a.Call, a, inbound.Request{ID: a.message.ID, Method: a.message.Method})
	c.asks.mu.Lock()
	cancelled := c.asks.begun[key]
	delete(c.asks.begun, key)
	c.asks.mu.Unlock()
	if err != nil {
		c.respond(a.session, a.message.ID, a.message.Method, nil, err)
		return
	}
	if cancelled { // before it could be found
		table.Cancel(a.message.ID, "")
	}
	a.Call.Run()
}

// Handle implements [inbound.Handler].
func (a *askedRequest) Handle(ctx context.Context) (err error) {
	a.result, err = a.handle(ctx)
	return err
}

func (a *askedRequest) handle(ctx context.Context) (json.RawMessage, error) {
	c, m := a.client, &a.message
	ask := func(ctx context.Context) (json.RawMessage, error) { return c.runAsk(ctx, a.origin, m.Method, m.Params) }
	switch m.Method {
	case mcp.MethodListRoots:
		return ask(ctx)
	case mcp.MethodCreateMessage, mcp.MethodElicit:
		if result, handled, err := c.askedTask(a.session, m, ask); handled {
			return result, err
		}
		return ask(ctx)
	}
	return c.askedAboutTask(ctx, m.Method, m.Params)
}

// Answer implements [inbound.Handler].
func (a *askedRequest) Answer(err error) {
	var result json.RawMessage
	if err == nil {
		result = a.result
	}
	a.client.respond(a.session, a.message.ID, a.message.Method, result, err)
}

// respond answers a request of the server.
func (c *Client) respond(s *conn.Session, id mcp.ID, method string, result json.RawMessage, err error) {
	if err == nil {
		err = s.Respond(id, result)
	} else {
		c.log.Debug("refusing a request of the server", "method", method, "error", err)
		wire := *mcp.ErrorOf(err)
		wire.Message = brief(wire.Message)
		err = s.Refuse(id, &wire)
	}
	if err != nil {
		c.log.Debug("a request of the server could not be answered", "method", method, "error", err)
	}
}

// brief cuts off an explanation that repeats what the server has sent, which may be
// long.
func brief(text string) string {
	const most = 500
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// inbox runs the questions of calls, which outlive a generation of the connection:
// its actor is started when the first comes.
type inbox struct {
	conn *conn.Conn

	mu    sync.Mutex
	actor *inboxActor // nil before, and when it has to be made anew
	ref   actors.Ref
	last  atomic.Int64 // id
}

// maxInbox bounds the questions of all calls of a client that are under way.
const maxInbox = 256

// table returns that of the actor. It must not be called from a Receive.
func (b *inbox) table() (*inbound.Table, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.actor != nil {
		select {
		case <-b.actor.stopping: // the connection's actor was restarted
		case <-b.ref.Stopped(): // before it was told
		default:
			return b.actor.calls, nil
		}
	}
	a := &inboxActor{calls: inbound.NewTable(&inbound.Options{Limit: maxInbox}), started: make(chan struct{}), stopping: make(chan struct{})}
	ref, err := b.conn.Spawn(actors.Spec{Kind: actors.KindInbox, New: func() actors.Actor { return a }})
	if err != nil {
		return nil, err
	}
	select {
	case <-a.started:
	case <-ref.Stopped():
		return nil, errors.New("the connection is closed")
	}
	b.actor, b.ref = a, ref
	return a.calls, nil
}

// inboxActor is the parent of the questions of calls, each of them an actor.
type inboxActor struct {
	calls             *inbound.Table
	started, stopping chan struct{} // closed when it has started, and before its table closes
	closed            bool          // the table is
}

// Receive implements [actors.Actor].
func (a *inboxActor) Receive(c *actors.Context, msg any) {
	switch msg.(type) {
	case actors.Started:
		if a.closed { // restarted: the next question makes another
			c.Stop()
			return
		}
		a.calls.Bind(c.Self())
		close(a.started)
	case actors.Stopping:
		if a.closed {
			return
		}
		a.closed = true
		close(a.stopping)
		a.calls.Close(actors.ErrStopped)
	}
}
