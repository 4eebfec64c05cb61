package mcpclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
)

// newTag makes the tag of a call. The options may be nil.
func (c *Client) newTag(method, name string, o *CallOptions) *asks.Call {
	t := &asks.Call{Method: method, Name: name, Human: c.opts.Human, Sampler: c.opts.Sampler}
	t.SetClient(c.questions.asks, c)
	if o != nil {
		if o.Sampler != nil {
			t.Sampler = o.Sampler
		}
		if o.Human != nil {
			t.Human = o.Human
		}
		if o.NoAsk {
			t.Human = nil
		}
		t.Path, t.OnWait, t.Roots = o.Path, o.OnWait, o.Roots
	}
	return t
}

// complete makes the request that of the tag, which has its instance.
func (c *Client) complete(ctx context.Context, t *asks.Call, req *call.Request, o *CallOptions) error {
	req.Idle = cmp.Or(req.Idle, c.server.IdleTimeout)
	req.Max = cmp.Or(req.Max, c.server.CallTimeout)
	req.Meta = c.leveled(c.traced(ctx, req.Meta))
	if err := c.mirror(ctx, req); err != nil {
		return c.failed(req.Method, &notSentError{err})
	}
	req.Tag, req.Follow, req.Before = t, t.Begin(req.Params, req.Follow), o.before()
	return nil
}

// outcome is what the request of the tag has come to.
func (c *Client) outcome(t *asks.Call, res call.Result, err error) (json.RawMessage, error) {
	t.ClosePages(err)
	if err != nil {
		if !answered(err) {
			t.End()
			c.questions.asks.Abandon(t)
		}
		return nil, c.failed(t.Method, err)
	}
	return res.Raw, nil
}

// answered reports whether the server has ended a call that failed with err.
func answered(err error) bool {
	_, wire := errors.AsType[*mcp.Error](err)
	return wire || errors.Is(err, ErrInput) || errors.Is(err, call.ErrInvalidResponse)
}

// originOf is the origin of a question about one call.
func (c *Client) originOf(o *CallOptions, method, name string) *asks.Origin {
	return &asks.Origin{Calls: []*asks.Call{c.newTag(method, name, o)}}
}
