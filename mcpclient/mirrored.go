package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/mcpclient/internal/asks"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/mirror"
	"github.com/troupe-dev/troupe/mcp"
)

// mirrors reports whether arguments of tools are repeated in headers: over Streamable
// HTTP of 2026-07-28 (HDR-20).
func (c toolCalls) mirrors() bool { return c.web.Streamable() != nil && c.era() == mcp.EraModern }

// checkTool refuses a tool that is not valid, or that this transport could not call as
// it has to (HDR-22).
func (c toolCalls) checkTool(t *mcp.Tool) error {
	if err := t.Validate(); err != nil || !c.tools.mirrors() {
		return err
	}
	return c.cache.Headers.Of(t).Err
}

// mirror adds to a tools/call the headers that repeat its arguments (HDR-23). The
// list of tools is read for it if that was never done.
func (c toolCalls) mirror(ctx context.Context, req *call.Request) error {
	if req.Method != mcp.MethodCallTool || !c.tools.mirrors() {
		return nil
	}
	if !c.cache.Tools.WasRead() && c.info.Load().Capabilities.Tools != nil {
		if _, err := c.cache.Tools.Get(ctx); ctx.Err() != nil {
			return context.Cause(ctx)
		} else if err != nil {
			c.log.Debug("calling a tool without knowing which headers it wants", "tool", req.Name, "error", err)
		}
	}
	headers, err := c.tools.headersOf(req.Name, req.Params)
	req.Headers = headers
	return err
}

// headersOf returns what a call of a tool has to repeat, as far as the list that was read
// last knows.
func (c toolCalls) headersOf(name string, params json.RawMessage) ([]mcp.Header, error) {
	tool := c.cache.Tools.Find(name)
	if tool == nil {
		return nil, c.cache.Headers.Refusal(name)
	}
	a := c.cache.Headers.Of(tool)
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

// headerMismatch follows an error about headers, once: the tool may have been changed,
// so that the list is read anew for new headers (HDR-25).
func (c toolCalls) headerMismatch(t *asks.Call, a call.Answer) (call.Step, bool) {
	e, ok := errors.AsType[*mcp.Error](a.Err)
	if !ok || e.Code != mcp.CodeHeaderMismatch || t.Method != mcp.MethodCallTool || !c.tools.mirrors() || !t.Correct() {
		return call.Step{}, false
	}
	params := t.Params()
	return call.Step{Clocks: true, Wait: func(resume func(call.Step)) func(error) {
		ctx, cancel := context.WithCancelCause(context.Background())
		c.sys.Go("headers of a call to "+c.server.Name, func() {
			defer cancel(nil)
			headers, err := c.tools.renewHeaders(ctx, t.Name, params)
			if err != nil {
				resume(call.Step{Outcome: &call.Outcome{Err: errors.Join(a.Err, err)}})
				return
			}
			t.Headers = headers
			resume(call.Step{Retry: &call.Retry{Params: params, Headers: headers}})
		})
		return func(cause error) { cancel(cause) }
	}}, true
}

// renewHeaders reads the list of tools anew. The headers are not nil: none is another
// thing than those of before.
func (c toolCalls) renewHeaders(ctx context.Context, name string, params json.RawMessage) ([]mcp.Header, error) {
	c.cache.Tools.Invalidate()
	c.cache.Tools.Notify()
	if _, err := c.cache.Tools.Get(ctx); err != nil {
		return nil, err
	}
	if c.cache.Tools.Find(name) == nil && c.cache.Headers.Refusal(name) == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnknownTool, name)
	}
	headers, err := c.tools.headersOf(name, params)
	if headers == nil {
		headers = []mcp.Header{}
	}
	return headers, err
}
