package asks

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/memo"
	"github.com/troupe-dev/troupe/mcp"
)

// Options are what the questions of a server need of its client. All are needed.
type Options struct {
	System *actors.System
	Server string // its configured name
	Log    *slog.Logger
	Conn   *conn.Conn
	Limits *Limits

	Answerer
	PageExpiry time.Duration
	GivenUp    error // ends a page that a person gives up, and its calls
}

// Answerer parses and answers questions.
type Answerer interface {
	Version() mcp.Version // of the newest session
	Declared() *mcp.ClientCapabilities
	// Observe sees each question. Warn reports one that is declined unasked.
	Observe(method string, params json.RawMessage)
	Warn(what string, why error)
	// Parse checks a question, ParseURL a page that an error of the server names.
	Parse(v mcp.Version, method string, params json.RawMessage) (Question, error)
	ParseURL(v mcp.Version, p *mcp.ElicitParams) (URLQuestion, error)
	// Handle answers a request of a legacy server; ask answers it as a question.
	Handle(ctx context.Context, s *conn.Session, m *mcp.Message, ask func(context.Context) (json.RawMessage, error)) (json.RawMessage, error)
	// TaskOf returns the call that a task of the server belongs to, and what keeps its clocks
	// still.
	TaskOf(id string) (tag any, hold func() (release func()), ok bool)
	// Follow is asked about an answer that asks for nothing.
	Follow(t *Call, a call.Answer) (call.Step, bool)
	// Invalid makes the error for a call whose answer breaks the rules, Failed for one whose
	// question has no answer.
	Invalid(method, reason string) error
	Failed(question string, err error) error
	// Answered reports whether the server has ended a call that failed with err.
	Answered(err error) bool
	// PageDone is called at the end of a page, ShowPage where a page is to be shown.
	PageDone(view *PageView, asks []string, err error)
	ShowPage(o *Origin, p *Page, message, note string)
}

// Asks handles the questions of one server.
type Asks struct {
	Options
	abandoned atomic.Pointer[[]abandonedCall] // replaced whole; nil before the first
	pages     pages
	inbox     inbox

	under  atomic.Int32 // requests of the server under way
	memory memory       // what they, and the questions of calls, take of memory
	// Of beginning: accepted, not yet in the session's table; the *atomic.Bool says whether it was cancelled.
	begun atomic.Pointer[sync.Map] // nil before the first
}

// New returns the questions of a server that has asked none.
func New(o Options) *Asks {
	a := &Asks{Options: o}
	a.pages.asks = a
	a.inbox.conn = o.Conn
	return a
}

func (a *Asks) beginnings() *sync.Map {
	return memo.Lazily(&a.begun, func() *sync.Map { return new(sync.Map) })
}

// Completed ends the page with an id of the server's. An unknown id is ignored (URL-31).
func (a *Asks) Completed(id string) { a.pages.table().Complete(id) }

// UnderWay returns how many requests of the server are under way, and how many of them are
// about to be.
func (a *Asks) UnderWay() (all, beginning int) {
	a.beginnings().Range(func(any, any) bool { beginning++; return true })
	return int(a.under.Load()), beginning
}

// ErrTooMuchSampling is the answer to requests for sampling beyond the limits (SAMP-41).
var ErrTooMuchSampling = mcp.Errorf(mcp.CodeUserRejected, "sampling refused: too much of it")

// beginning is a request that is about to be an actor.
type beginning struct {
	session *conn.Session
	id      mcp.ID
}

// Question is something that a server asks. It has been checked.
type Question interface {
	// Answer returns the result. An error says that there is none: for a legacy server
	// it is the answer, and the call of a modern one fails.
	Answer(ctx context.Context, o *Origin) (json.RawMessage, error)
}

// answer answers one question. The origin says whose it is.
func (a *Asks) answer(ctx context.Context, o *Origin, method string, params json.RawMessage) (json.RawMessage, error) {
	q, err := a.Parse(o.Version, method, params)
	if err != nil {
		return nil, err
	}
	if o.Hold != nil {
		defer o.Hold()()
	}
	return q.Answer(ctx, o)
}

// Asked handles a request of the server, on the transport's goroutine.
func (a *Asks) Asked(s *conn.Session, m *mcp.Message, related mcp.ID) {
	v := s.Version()
	if v.Era() == mcp.EraModern {
		a.Log.Warn("ignoring a request of a modern server", "method", m.Method) // MOD-07
		return
	}
	a.Observe(m.Method, m.Params)
	if m.Method == mcp.MethodPing { // PING-01: in every state
		a.respond(s, m.ID, m.Method, nil, nil)
		return
	}
	if !v.Method(m.Method, mcp.Server) || !a.answers(v, m.Method) { // BASE-14
		a.respond(s, m.ID, m.Method, nil, mcp.Errorf(mcp.CodeMethodNotFound, "%.100s is not supported by this client", m.Method))
		return
	}
	size := weight(m.Params)
	if !a.memory.take(size) {
		a.Warn(m.Method, ErrTooMany)
		result, err := refusal(m.Method)
		a.respond(s, m.ID, m.Method, result, err)
		return
	}
	if a.under.Add(1) > MaxAsked || m.Method == mcp.MethodElicit && a.Limits.Full() {
		a.under.Add(-1)
		a.memory.give(size)
		a.Warn(m.Method, cmp.Or(a.Limits.Refuses(), ErrTooMany))
		result, err := refusal(m.Method)
		a.respond(s, m.ID, m.Method, result, err)
		return
	}
	r := &askedRequest{
		asks: a, session: s, origin: a.Whose(s, m, related),
		message: mcp.Message{Kind: m.Kind, ID: m.ID, Method: m.Method, Params: append(json.RawMessage(nil), m.Params...)},
	}
	key := beginning{s, m.ID}
	a.beginnings().Store(key, new(atomic.Bool))
	a.System.Go("questions of "+a.Server, func() {
		defer a.under.Add(-1)
		defer a.memory.give(size)
		r.run(key)
	})
}

// answers reports whether a method of the server was declared in any form.
func (a *Asks) answers(v mcp.Version, method string) bool {
	caps := a.Declared().For(v)
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
		return nil, ErrTooMuchSampling
	}
	return nil, inbound.ErrBusy
}

// Cancelled handles notifications/cancelled: the server withdraws a question.
func (a *Asks) Cancelled(s *conn.Session, m *mcp.Message) {
	var p mcp.CancelledParams
	if s.Version().Era() != mcp.EraLegacy || m.DecodeParams(&p) != nil { // CANC-07
		return
	}
	if cancelled, ok := a.beginnings().Load(beginning{s, p.RequestID}); ok {
		cancelled.(*atomic.Bool).Store(true)
	}
	s.Inbound().Cancel(p.RequestID, p.Reason)
}

// askedRequest is a request of a legacy server under way.
type askedRequest struct {
	inbound.Call
	asks    *Asks
	session *conn.Session
	origin  *Origin
	message mcp.Message
	result  json.RawMessage // if Handle returns nil
}

func (r *askedRequest) run(key beginning) {
	a, table := r.asks, r.session.Inbound()
	err := table.Begin(&r.Call, r, inbound.Request{ID: r.message.ID, Method: r.message.Method})
	cancelled, _ := a.beginnings().LoadAndDelete(key)
	if err != nil {
		a.respond(r.session, r.message.ID, r.message.Method, nil, err)
		return
	}
	if cancelled != nil && cancelled.(*atomic.Bool).Load() { // before it could be found
		table.Cancel(r.message.ID, "")
	}
	r.Call.Run()
}

// Handle implements [inbound.Handler].
func (r *askedRequest) Handle(ctx context.Context) (err error) {
	m := &r.message
	r.result, err = r.asks.Handle(ctx, r.session, m, func(ctx context.Context) (json.RawMessage, error) {
		return r.asks.answer(ctx, r.origin, m.Method, m.Params)
	})
	return err
}

// Answer implements [inbound.Handler].
func (r *askedRequest) Answer(err error) {
	var result json.RawMessage
	if err == nil {
		result = r.result
	}
	r.asks.respond(r.session, r.message.ID, r.message.Method, result, err)
}

// respond answers a request of the server.
func (a *Asks) respond(s *conn.Session, id mcp.ID, method string, result json.RawMessage, err error) {
	if err == nil {
		err = s.Respond(id, result)
	} else {
		a.Log.Debug("refusing a request of the server", "method", method, "error", err)
		wire := *mcp.ErrorOf(err)
		wire.Message = Brief(wire.Message)
		err = s.Refuse(id, &wire)
	}
	if err != nil {
		a.Log.Debug("a request of the server could not be answered", "method", method, "error", err)
	}
}

// Brief cuts off an explanation that repeats what the server has sent, which may be
// long.
func Brief(text string) string { return clip.Text(text, 500) }
