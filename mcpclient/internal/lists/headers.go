package lists

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/memo"
	"github.com/troupe-dev/troupe/internal/mirror"
	"github.com/troupe-dev/troupe/mcp"
)

// Headers remembers what the schemas of the tools that were listed last say about headers.
type Headers struct{ byTool memo.Map[string, Annotated] }

// Annotated is what one schema says.
type Annotated struct {
	Params []mirror.Param
	Err    error // why the tool must not be called (HDR-22)
	schema json.RawMessage
}

// Of returns what a tool's schema says. The schema is read once.
func (h *Headers) Of(t *mcp.Tool) Annotated {
	known, ok := h.byTool.Get(t.Name)
	if ok && len(known.schema) == len(t.InputSchema) && &known.schema[0] == &t.InputSchema[0] {
		return known
	}
	known = Annotated{schema: t.InputSchema}
	if known.Params, known.Err = mirror.Params(t.InputSchema); known.Err != nil {
		known.Err = fmt.Errorf("tool %q: %w", t.Name, known.Err)
	}
	h.byTool.Set(t.Name, known, 0)
	return known
}

// Refusal says why a tool that is not in the list was left out of it, if that is known.
func (h *Headers) Refusal(name string) error {
	known, _ := h.byTool.Get(name)
	return known.Err
}

// HeadersFor returns what a call of a tool has to repeat, as far as the list that was read
// last knows.
func (c *Cache) HeadersFor(name string, params json.RawMessage) ([]mcp.Header, error) {
	tool := c.Tools.Find(name)
	if tool == nil {
		return nil, c.Headers().Refusal(name)
	}
	a := c.Headers().Of(tool)
	if len(a.Params) == 0 || a.Err != nil {
		return nil, a.Err
	}
	var p struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := jsonx.Unmarshal(params, &p); err != nil {
		return nil, fmt.Errorf("reading the arguments: %w", err)
	}
	return mirror.Headers(a.Params, p.Arguments)
}

// AddHeaders adds to a tools/call what it has to repeat (HDR-23). The list is read for it if that
// was never done, and the server has tools.
func (c *Cache) AddHeaders(ctx context.Context, req *call.Request, has bool) error {
	if has && !c.Tools.WasRead() {
		if _, err := c.Tools.Get(ctx); ctx.Err() != nil {
			return context.Cause(ctx)
		} else if err != nil {
			c.Tools.source.Log().Debug("calling a tool without knowing which headers it wants", "tool", req.Name, "error", err)
		}
	}
	headers, err := c.HeadersFor(req.Name, req.Params)
	req.Headers = headers
	return err
}

// CorrectHeaders reads the list anew, and has the call sent once more with other headers. Read is
// called with them, and returns an outcome where the call ends instead.
func (c *Cache) CorrectHeaders(name string, params json.RawMessage, read func([]mcp.Header, error) *call.Outcome) call.Step {
	return call.Step{Clocks: true, Wait: func(resume func(call.Step)) func(error) {
		ctx, cancel := context.WithCancelCause(context.Background())
		c.Tools.source.Go("headers of a call", func() {
			defer cancel(nil)
			headers, err := c.renewHeaders(ctx, name, params)
			if out := read(headers, err); out != nil {
				resume(call.Step{Outcome: out})
				return
			}
			resume(call.Step{Retry: &call.Retry{Params: params, Headers: headers}})
		})
		return cancel
	}}
}

// ErrGone says that a tool is not in the list any more.
var ErrGone = errors.New("the tool is not in the list any more")

// renewHeaders is HeadersFor with a list that is read anew. The headers are not nil: none is
// another thing than those of before.
func (c *Cache) renewHeaders(ctx context.Context, name string, params json.RawMessage) ([]mcp.Header, error) {
	c.Tools.Invalidate()
	c.Tools.Notify()
	if _, err := c.Tools.Get(ctx); err != nil {
		return nil, err
	}
	if c.Tools.Find(name) == nil && c.Headers().Refusal(name) == nil {
		return nil, ErrGone
	}
	headers, err := c.HeadersFor(name, params)
	if headers == nil {
		headers = []mcp.Header{}
	}
	return headers, err
}
