package dialogue

import (
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/questions"
)

// Given returns what a handler in retry style gets in this round; zero in the first.
func (c *Call) Given() (responses mcp.InputResponses, state string) {
	if c.given == nil {
		return nil, ""
	}
	return c.given.responses, c.given.state
}

// Want asks for a handler in retry style, which has returned. Suspended means that the
// answers come with another request; else the handler is to run again.
func (c *Call) Want(requests mcp.InputRequests, state string) (suspended bool, err error) {
	sender := c.live().Sender()
	qs, err := c.wanted(sender, requests)
	if err != nil {
		return false, err
	}
	if sender.InRounds() {
		return true, c.suspend(qs, &state)
	}
	c.given, err = c.askFor(qs, state)
	return false, err
}

// wanted makes questions of what a handler asks for.
func (c *Call) wanted(sender Sender, requests mcp.InputRequests) ([]*questions.Question, error) {
	if len(requests) > questions.Most {
		return nil, fmt.Errorf("the handler asks %d questions at once", len(requests))
	}
	var qs []*questions.Question
	for key, input := range requests {
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
		if err := q.Prepare(&c.host.Forms, sender.Version); err != nil {
			return nil, fmt.Errorf("the handler asks %q: %w", key, err)
		}
		qs = append(qs, q)
	}
	return qs, questions.Missing(sender.Can(), qs)
}

// suspend answers the request with what the handler asks for. The handler is not kept: in
// retry style it has ended.
func (c *Call) suspend(qs []*questions.Question, state *string) error {
	t := c.talking()
	t.asked, t.got = nil, nil
	for _, q := range qs {
		if err := c.openPage(q); err != nil {
			return err
		}
		e := q.Entry()
		if q.Form != nil {
			e.Schema = q.Form.RequestedSchema
		}
		t.asked = append(t.asked, e)
	}
	_, err := c.publish(qs, state, nil)
	c.End(c.host.Suspended)
	return err
}

// askFor puts the questions of a handler in retry style, and returns what the handler gets.
func (c *Call) askFor(qs []*questions.Question, state string) (*given, error) {
	next := &given{state: state, responses: make(mcp.InputResponses, len(qs))}
	if len(qs) == 0 {
		return next, nil
	}
	if err := c.Ask(c.Context(), qs); err != nil {
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
