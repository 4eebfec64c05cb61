package dialogue

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/questions"
)

// askNested puts questions to a legacy client, side by side, as requests on the stream
// of the one they belong to (MRTR-30).
func (c *Call) askNested(ctx context.Context, live Request, sender Sender, qs []*questions.Question) error {
	if err := questions.Missing(sender.Declared.For(sender.Version), qs); err != nil {
		return err
	}
	table, err := live.Questions(ctx)
	if err != nil {
		return err
	}
	defer live.Hold()()
	if sender.Task != nil {
		defer sender.Task.Asking()()
	}
	calls := make([]nestedCall, len(qs))
	for i, q := range qs {
		var params json.RawMessage
		if params, q.Err = c.nestedParams(sender, q); q.Err == nil {
			calls[i].start(table, live, q.Method, params, c.host.TicketTTL)
		}
	}
	for i, q := range qs {
		if calls[i].call != nil {
			live.Await(ctx, c.Context(), calls[i].call)
			q.Err = calls[i].end(ctx, c.Context(), q)
		}
	}
	if err := c.causeIn(ctx); err != nil {
		return err
	}
	for _, q := range qs {
		if q.Visited() {
			q.Err = c.waitForPage(ctx, q, nil)
		}
	}
	return c.causeIn(ctx)
}

// causeIn returns why the handler, or what it does in ctx, is to end; nil while it is not.
func (c *Call) causeIn(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return c.Cause()
}

// nestedCall is one question on its way.
type nestedCall struct {
	call    *call.Call
	request call.Request
}

// nestedParams are the params of a question.
func (c *Call) nestedParams(sender Sender, q *questions.Question) (json.RawMessage, error) {
	params := q.Params
	if q.Page != nil {
		if err := c.openPage(q); err != nil {
			return nil, err
		}
		id := ""
		if sender.Version.Has(mcp.FeatureElicitationIDs) {
			id = q.Page.ID
		}
		params = q.Page.Params(id)
	}
	if sender.Task != nil {
		params = sender.Task.Mark(params)
	}
	return params, nil
}

func (n *nestedCall) start(table *call.Table, live Request, method string, params json.RawMessage, most time.Duration) {
	n.request = call.Request{Method: method, Params: params, Tag: live}
	if method != mcp.MethodListRoots { // a person is asked (TIME-04)
		n.request.Idle, n.request.Max = -1, most
	}
	n.call = table.Start(&n.request, nil)
}

// end waits for the answer; when ctx or the handler's context ends the question is withdrawn
// (CANC-13).
func (n *nestedCall) end(ctx, handler context.Context, q *questions.Question) error {
	res, err := n.call.WaitWithin(ctx, handler)
	if err == nil {
		if err := q.Settle(res.Raw); err != nil {
			return err
		}
		return q.Err
	}
	if wire, ok := errors.AsType[*mcp.Error](err); ok {
		if wire.Code == mcp.CodeUserRejected { // SAMP-41
			return questions.DeclinedBecause(wire.Message)
		}
		return &questions.ClientError{Method: q.Method, Wire: wire}
	}
	return err
}
