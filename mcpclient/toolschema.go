package mcpclient

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/sanitize"
	"github.com/troupe-dev/troupe/internal/schema"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
	"github.com/troupe-dev/troupe/mcpclient/internal/catalogue"
	"github.com/troupe-dev/troupe/mcpclient/internal/lists"
)

// ErrOutput is what an [OutputError] is.
var ErrOutput = errors.New("mcpclient: the tool's result cannot be trusted to be what it says")

// OutputError says that a tool's result does not follow the tool's output schema, or
// that nothing can be checked by that schema: then the tool is not called at all, for
// it may have effects. [CallOptions.AnyOutput] calls it all the same and takes what
// comes. A keyword that cannot be checked, such as a pattern with look-around, is not
// such an error: the rest is checked, and the log says so once.
type OutputError struct {
	Tool   string
	Result *mcp.CallToolResult // as it came; nil if the tool was not called
	Err    error
}

func (e *OutputError) Error() string {
	if e.Result == nil {
		return fmt.Sprintf("tool %q was not called: its output schema cannot be used to check the result: %v", e.Tool, e.Err)
	}
	return fmt.Sprintf("the result of tool %q does not follow its output schema: %v", e.Tool, e.Err)
}

// Is reports that the error is [ErrOutput].
func (e *OutputError) Is(target error) bool { return target == ErrOutput }

// Unwrap returns what is wrong.
func (e *OutputError) Unwrap() error { return e.Err }

// errNoStructure is a result without what the output schema describes.
var errNoStructure = errors.New("structuredContent is missing")

// outputOf returns the schema that the result of a tool is checked by, nil for none:
// the tool is not known, says nothing of its output, or the revision has none.
func (c toolCalls) outputOf(name string, o *CallOptions) (*schema.Schema, error) {
	tool := c.cache.Tools.Find(name)
	if tool == nil || len(tool.OutputSchema) == 0 || o.AnyOutput {
		return nil, nil
	}
	if info := c.info.Load(); info == nil || !info.Version.Has(mcp.FeatureStructuredContent) {
		return nil, nil
	}
	s, err := c.cache.Outputs().Compile(tool.OutputSchema)
	if err != nil {
		return nil, &OutputError{Tool: name, Err: err}
	}
	if skipped := s.Skipped(); len(skipped) > 0 && c.cache.Outputs().Warns(name) {
		c.log.Warn("a part of a tool's output schema cannot be checked and is left out; the rest is checked",
			"tool", sanitize.Line(name, catalogue.MaxName), "first", skipped[0], "parts", len(skipped))
	}
	return s, nil
}

// checkOutput holds a result to the schema, which may be nil. A result that tells of
// a failure needs no structured content, and is not held to anything (TOOL-11).
func checkOutput(name string, output *schema.Schema, res *mcp.CallToolResult) error {
	if output == nil || res.IsError {
		return nil
	}
	err := errNoStructure
	if res.StructuredContent != nil {
		err = output.Validate(res.StructuredContent)
	}
	if err != nil {
		return &OutputError{Tool: name, Result: res, Err: err}
	}
	return nil
}

// CheckOutput holds a result that came by another way than [Client.CallTool], such
// as a task, to the output schema of its tool, as far as that is known. The error is
// an [*OutputError].
func (c *Client) CheckOutput(_ context.Context, tool string, res *mcp.CallToolResult) error {
	output, err := c.tools.outputOf(tool, new(CallOptions))
	if e, ok := errors.AsType[*OutputError](err); ok {
		e.Result = res
		return e
	}
	return checkOutput(tool, output, res)
}

// mirrors reports whether arguments of tools are repeated in headers: over Streamable
// HTTP of 2026-07-28 (HDR-20).
func (c toolCalls) mirrors() bool { return c.web.Streamable() != nil && c.era() == mcp.EraModern }

// checkTool refuses a tool that is not valid, or that this transport could not call as
// it has to (HDR-22).
func (c toolCalls) checkTool(t *mcp.Tool) error {
	if err := t.Validate(); err != nil || !c.tools.mirrors() {
		return err
	}
	return c.cache.Headers().Of(t).Err
}

// mirror adds to a tools/call the headers that repeat its arguments (HDR-23). The
// list of tools is read for it if that was never done.
func (c toolCalls) mirror(ctx context.Context, req *call.Request) error {
	if req.Method != mcp.MethodCallTool || !c.tools.mirrors() {
		return nil
	}
	return c.cache.AddHeaders(ctx, req, c.info.Load().Capabilities.Tools != nil)
}

// headerMismatch follows an error about headers, once: the tool may have been changed,
// so that the list is read anew for new headers (HDR-25).
func (c toolCalls) headerMismatch(t *asks.Call, a call.Answer) (call.Step, bool) {
	e, ok := errors.AsType[*mcp.Error](a.Err)
	if !ok || e.Code != mcp.CodeHeaderMismatch || t.Method != mcp.MethodCallTool || !c.tools.mirrors() || !t.Correct() {
		return call.Step{}, false
	}
	return c.cache.CorrectHeaders(t.Name, t.Params(), func(headers []mcp.Header, err error) *call.Outcome {
		if errors.Is(err, lists.ErrGone) {
			err = fmt.Errorf("%w: %s", ErrUnknownTool, t.Name)
		}
		if err != nil {
			return &call.Outcome{Err: errors.Join(a.Err, err)}
		}
		t.Headers = headers
		return nil
	}), true
}
