package lists

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/mirror"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/memo"
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
		return nil, c.Headers.Refusal(name)
	}
	a := c.Headers.Of(tool)
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

// ErrGone says that a tool is not in the list any more.
var ErrGone = errors.New("the tool is not in the list any more")

// RenewHeaders is HeadersFor with a list that is read anew. The headers are not nil: none is
// another thing than those of before.
func (c *Cache) RenewHeaders(ctx context.Context, name string, params json.RawMessage) ([]mcp.Header, error) {
	c.Tools.Invalidate()
	c.Tools.Notify()
	if _, err := c.Tools.Get(ctx); err != nil {
		return nil, err
	}
	if c.Tools.Find(name) == nil && c.Headers.Refusal(name) == nil {
		return nil, ErrGone
	}
	headers, err := c.HeadersFor(name, params)
	if headers == nil {
		headers = []mcp.Header{}
	}
	return headers, err
}
