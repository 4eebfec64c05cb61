package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/mirror"
	"github.com/troupe-dev/troupe/mcp"
)

// mirrors reports whether arguments of tools are repeated in headers: over Streamable
// HTTP of 2026-07-28 (HDR-20).
func (c *Client) mirrors() bool { return c.web.link.Load() != nil && c.era() == mcp.EraModern }

// annotations keeps what the schemas of the tools that were listed last say about
// headers.
type annotations struct {
	mu     sync.Mutex
	byTool map[string]annotated
}

// annotated is what one schema says.
type annotated struct {
	schema json.RawMessage
	params []mirror.Param
	err    error // the tool must not be called (HDR-22)
}

// of returns what a tool's schema says. It is read once.
func (a *annotations) of(t *mcp.Tool) annotated {
	a.mu.Lock()
	known, ok := a.byTool[t.Name]
	a.mu.Unlock()
	if ok && len(known.schema) == len(t.InputSchema) && &known.schema[0] == &t.InputSchema[0] {
		return known
	}
	known = annotated{schema: t.InputSchema}
	if known.params, known.err = mirror.Params(t.InputSchema); known.err != nil {
		known.err = fmt.Errorf("tool %q: %w", t.Name, known.err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byTool == nil || len(a.byTool) >= maxItems {
		a.byTool = make(map[string]annotated)
	}
	a.byTool[t.Name] = known
	return known
}

// refusal says why a tool that is not in the list was left out of it, if that is known.
func (a *annotations) refusal(name string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byTool[name].err
}

// checkTool refuses a tool that is not valid, or that this transport could not call as
// it has to (HDR-22).
func (c *Client) checkTool(t *mcp.Tool) error {
	if err := t.Validate(); err != nil || !c.mirrors() {
		return err
	}
	return c.annotations.of(t).err
}

// wasRead reports whether the list was read at all.
func (l *list[T]) wasRead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last != nil
}

// mirror adds to a tools/call the headers that repeat its arguments (HDR-23). The
// list of tools is read for it if that was never done.
func (c *Client) mirror(ctx context.Context, req *call.Request) error {
	if req.Method != mcp.MethodCallTool || !c.mirrors() {
		return nil
	}
	if !c.keeps.tools.wasRead() && c.info.Load().Capabilities.Tools != nil {
		if _, err := c.keeps.tools.get(ctx); ctx.Err() != nil {
			return context.Cause(ctx)
		} else if err != nil {
			c.log.Debug("calling a tool without knowing which headers it wants", "tool", req.Name, "error", err)
		}
	}
	headers, err := c.headers(req.Name, req.Params)
	req.Headers = headers
	return err
}

// headers returns what a call of a tool has to repeat, as far as the list that was read
// last knows.
func (c *Client) headers(name string, params json.RawMessage) ([]mcp.Header, error) {
	tool := c.keeps.tools.find(name)
	if tool == nil {
		return nil, c.annotations.refusal(name)
	}
	a := c.annotations.of(tool)
	if len(a.params) == 0 || a.err != nil {
		return nil, a.err
	}
	var p struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := jsonx.Unmarshal(params, &p); err != nil {
		return nil, fmt.Errorf("reading the arguments: %w", err)
	}
	return mirror.Headers(a.params, p.Arguments)
}

// mirrored is what a call knows of the headers of its attempts.
type mirrored struct {
	headers   []mcp.Header    // of all retries; nil: as in the request
	sent      json.RawMessage // the newest parameters; nil: those of the request
	corrected bool
}

// headerMismatch follows an error about headers, once: the tool may have been changed,
// so that the list is read anew for new headers (HDR-25).
func (t *callTag) headerMismatch(a call.Answer) (call.Step, bool) {
	e, ok := errors.AsType[*mcp.Error](a.Err)
	c := t.client
	if !ok || e.Code != mcp.CodeHeaderMismatch || t.method != mcp.MethodCallTool || t.corrected || !c.mirrors() {
		return call.Step{}, false
	}
	t.corrected = true
	params := t.sent
	if params == nil {
		params = t.params
	}
	return call.Step{Clocks: true, Wait: func(resume func(call.Step)) func(error) {
		ctx, cancel := context.WithCancelCause(context.Background())
		c.sys.Go("headers of a call to "+c.server.Name, func() {
			defer cancel(nil)
			headers, err := c.renewHeaders(ctx, t.name, params)
			if err != nil {
				resume(call.Step{Outcome: &call.Outcome{Err: errors.Join(a.Err, err)}})
				return
			}
			t.headers = headers
			resume(call.Step{Retry: &call.Retry{Params: params, Headers: headers}})
		})
		return func(cause error) { cancel(cause) }
	}}, true
}

// renewHeaders reads the list of tools anew. The headers are not nil: none is another
// thing than those of before.
func (c *Client) renewHeaders(ctx context.Context, name string, params json.RawMessage) ([]mcp.Header, error) {
	c.keeps.tools.invalidate()
	c.keeps.tools.tell()
	if _, err := c.keeps.tools.get(ctx); err != nil {
		return nil, err
	}
	if c.keeps.tools.find(name) == nil && c.annotations.refusal(name) == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnknownTool, name)
	}
	headers, err := c.headers(name, params)
	if headers == nil {
		headers = []mcp.Header{}
	}
	return headers, err
}
