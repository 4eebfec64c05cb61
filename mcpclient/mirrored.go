package mcpclient

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
	"github.com/troupe-dev/troupe/mcpclient/internal/lists"
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
	headers, err := c.cache.HeadersFor(req.Name, req.Params)
	req.Headers = headers
	return err
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
			headers, err := c.cache.RenewHeaders(ctx, t.Name, params)
			if errors.Is(err, lists.ErrGone) {
				err = fmt.Errorf("%w: %s", ErrUnknownTool, t.Name)
			}
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
