package mcpclient

import (
	"context"
	"encoding/json"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
	"github.com/troupe-dev/troupe/mcpclient/internal/served"
)

// answerer is a client as the questions of its server see it.
type answerer Client

// Version implements [asks.Answerer], as the other methods do.
func (a *answerer) Version() mcp.Version { return a.info.Load().Version }

func (a *answerer) Declared() *mcp.ClientCapabilities { return a.questions.declared() }

func (a *answerer) Warn(what string, why error) { a.questions.warnDeclined(what, why) }

func (a *answerer) Observe(method string, params json.RawMessage) {
	(*Client)(a).incoming.observeRequest(method, params)
}

func (a *answerer) Parse(v mcp.Version, method string, params json.RawMessage) (asks.Question, error) {
	return a.questions.parse(v, method, params)
}

func (a *answerer) ParseURL(v mcp.Version, p *mcp.ElicitParams) (asks.URLQuestion, error) {
	view, err := asks.ParseURL(v, p)
	if err != nil {
		return nil, err
	}
	return &urlQuestion{&a.questions, p, (*URLView)(view)}, nil
}

func (a *answerer) Handle(ctx context.Context, s *conn.Session, m *mcp.Message, ask func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	c := (*Client)(a)
	switch m.Method {
	case mcp.MethodListRoots:
		return ask(ctx)
	case mcp.MethodCreateMessage, mcp.MethodElicit:
		if a.questions.declared().For(s.Version()).Tasks == nil {
			return ask(ctx)
		}
		if result, handled, err := served.Create(c.watching().Served, c.log, m, ask); handled {
			return result, err
		}
		return ask(ctx)
	}
	return served.Answer(ctx, c.watching().Served, c.log, m.Method, m.Params)
}

func (a *answerer) TaskOf(id string) (tag any, hold func() (release func()), ok bool) {
	return (*Client)(a).watching().TaskOf(id)
}

func (a *answerer) Follow(t *asks.Call, answer call.Answer) (call.Step, bool) {
	if step, ok := (*Client)(a).tools.authorizes(t, answer); ok {
		return step, true
	}
	return (*Client)(a).tools.headerMismatch(t, answer)
}

func (a *answerer) Invalid(method, reason string) error {
	return &InputError{Method: method, Reason: reason}
}

func (a *answerer) Failed(question string, err error) error { return inputError(question, err) }

func (a *answerer) Answered(err error) bool { return answered(err) }

func (a *answerer) PageDone(view *asks.PageView, ids []string, err error) {
	a.questions.pageDone(view, ids, err)
}

func (a *answerer) ShowPage(o *asks.Origin, p *asks.Page, message, note string) {
	a.questions.showPage(o, p, message, note)
}

// initQuestions is called once, before the connection is started.
func (c dialing) initQuestions() error {
	q := &c.questions
	q.server, q.opts, q.log, q.sys = c.server, c.opts, c.log, c.sys
	q.asks = asks.New(asks.Options{
		System: c.sys, Server: c.server.Name, Log: c.log, Conn: c.conn,
		Limits:   asks.NewLimits(asks.LimitOptions{Open: c.opts.AskLimit, Tokens: c.opts.SampleTokens}, c.pool),
		Answerer: (*answerer)(c.Client), PageExpiry: c.opts.ElicitationExpiry, GivenUp: ErrPageGivenUp,
	})
	if c.opts.Roots == nil {
		return nil
	}
	roots, err := asks.CheckRoots(c.opts.Roots)
	if err == nil {
		q.roots.Store(&roots)
	}
	return err
}

// parse checks a question: that we have declared it (CAP-03), and that it keeps its rules.
// The error is what a legacy server is told.
func (q *questions) parse(v mcp.Version, method string, params json.RawMessage) (asks.Question, error) {
	caps := q.declared().For(v)
	switch {
	case method == mcp.MethodListRoots && caps.Roots != nil: // ROOT-03
		return rootsQuestion{q}, nil
	case method == mcp.MethodCreateMessage && caps.Sampling != nil:
		s, err := asks.ParseSampling(v, caps, q.opts.SamplingContext || q.server.SamplingContext, params)
		if err != nil {
			return nil, err
		}
		return &sampleQuestion{s, q}, nil
	case method == mcp.MethodElicit && caps.Elicitation != nil:
		p, f, view, err := asks.ParseElicit(v, caps, params)
		switch {
		case err != nil:
			return nil, err
		case view != nil:
			return &urlQuestion{q, p, (*URLView)(view)}, nil
		}
		return &formQuestion{q, p, f}, nil
	}
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "%.100s is not supported by this client", method)
}
