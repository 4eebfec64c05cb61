package mcpserver

import (
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/questions"
)

// InputRequired is what a handler in retry style returns as its error: the questions
// that have to be answered before it can go on, and whatever it wants to find again
// then. It runs again, from the top, with the answers in [Request.Responses] and its
// State in [Request.State]. The state is sealed: what comes back is what was given, to
// the same principal and for the same arguments.
//
// Clients of 2026-07-28 are answered with input_required; older ones are asked, and the
// handler runs again at once.
type InputRequired struct {
	Requests mcp.InputRequests
	State    string
}

func (e *InputRequired) Error() string { return "the call needs more input" }

// maxRounds bounds how often a handler in retry style asks a legacy client (MRTR-15).
const maxRounds = 10

// retryStyle is what a handler in retry style is given.
type retryStyle struct {
	responses mcp.InputResponses
	state     string
}

// Responses returns the answers to what the handler has asked by [InputRequired], by
// their keys; nil in the first round. There may be fewer than questions. Those
// that are there are of the right form.
func (q *Request) Responses() mcp.InputResponses {
	if n := q.r.invocation.Load(); n != nil && n.retry != nil {
		return n.retry.responses
	}
	return nil
}

// State returns the State of the [InputRequired] before; "" in the first round.
func (q *Request) State() string {
	if n := q.r.invocation.Load(); n != nil && n.retry != nil {
		return n.retry.state
	}
	return ""
}

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
		if suspended, err := n.retryStyle(wants); err != nil || suspended {
			return n.failed(err)
		}
	}
}

// retryStyle lets a client be asked for a handler in retry style. Suspended means that
// the answers come with another request; else the handler is to run again.
func (n *handlerCall) retryStyle(wants *InputRequired) (suspended bool, err error) {
	qs, err := n.wanted(wants)
	if err != nil {
		return false, err
	}
	live := n.current()
	if live.version.Era() == mcp.EraModern && live.task == nil {
		return true, n.suspend(wants, qs)
	}
	n.retry, err = n.askFor(wants, qs)
	return false, err
}

// failed tells an error in the way of the work, as if the handler had returned it.
func (n *handlerCall) failed(err error) error {
	err = public(err)
	if t, ok := n.request.job().(*tool); ok && err != nil {
		return t.failed(n.request, err)
	}
	return err
}

// wanted makes questions of what a handler asks for.
func (n *handlerCall) wanted(wants *InputRequired) ([]*questions.Question, error) {
	if len(wants.Requests) > maxQuestions {
		return nil, fmt.Errorf("the handler asks %d questions at once", len(wants.Requests))
	}
	live := n.current()
	var qs []*questions.Question
	for key, input := range wants.Requests {
		params, err := input.Decode()
		if err != nil {
			return nil, fmt.Errorf("the handler asks %q: %w", key, errors.New(err.Error()))
		}
		q := &questions.Question{Key: key, Method: input.Method}
		switch p := params.(type) {
		case *mcp.ElicitParams:
			if q.Form = p; p.IsURL() {
				q.Form, q.Page = nil, &questions.Page{Message: p.Message, URL: p.URL}
			}
		case *mcp.CreateMessageParams:
			q.Sample = p
		}
		if err := q.Prepare(&live.session.server.forms, live.version); err != nil {
			return nil, fmt.Errorf("the handler asks %q: %w", key, err)
		}
		qs = append(qs, q)
	}
	return qs, questions.Missing(live.capabilities(), qs)
}

// suspend answers the request with what the handler asks for. It is not kept: in retry
// style it has ended.
func (n *handlerCall) suspend(wants *InputRequired, qs []*questions.Question) error {
	d := n.dialogue()
	d.asked, d.got = nil, nil
	for _, q := range qs {
		if q.Page != nil {
			if err := n.openPage(q); err != nil {
				return err
			}
		}
		e := q.Entry()
		if q.Form != nil {
			e.Schema = q.Form.RequestedSchema
		}
		d.asked = append(d.asked, e)
	}
	_, err := n.publish(qs, &wants.State, nil)
	n.End(ErrSuspended)
	return err
}

// askFor puts the questions of a handler in retry style, and returns what it is to be
// given.
func (n *handlerCall) askFor(wants *InputRequired, qs []*questions.Question) (*retryStyle, error) {
	next := &retryStyle{state: wants.State, responses: make(mcp.InputResponses, len(qs))}
	if len(qs) == 0 {
		return next, nil
	}
	if err := n.ask(n.Context(), qs); err != nil {
		return next, err
	}
	for _, q := range qs {
		if q.Raw == nil {
			return next, q.Err
		}
		next.responses[q.Key] = q.Raw
	}
	return next, nil
}
