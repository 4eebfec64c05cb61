package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/internal/schema"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// Tool is a function of the program that a model may call. Most are made by [Func].
type Tool struct {
	// Name is at most 64 of [a-zA-Z0-9_-].
	Name        string
	Description string
	// InputSchema is the JSON schema of the arguments. Empty means an object without
	// properties. Arguments that do not fit it never reach Call.
	InputSchema json.RawMessage
	// Call makes the call. The model reads an error, which does not fail the run. Neither
	// does a panic: the log has it with its stack as an error, and the model reads that the
	// tool failed.
	Call func(ctx context.Context, args json.RawMessage) (*mcp.CallToolResult, error)
	// Safe marks a tool whose call may be made twice, as it has no effect, or the same one: after
	// a crash it may then be repeated. It is recorded with each call.
	Safe bool
	// ReadOnly marks a tool whose calls have no effect, which are safe then. It says the same as a server's readOnlyHint, but is
	// taken at its word.
	ReadOnly bool
	// Polls marks a tool that looks whether something has changed: its calls may be repeated, and
	// [Config.MaxRepeats] does not count them.
	Polls bool
	// Taint is its part in the lethal trio. Zero means none.
	Taint Taint

	needsApproval bool
	sub           *Agent // that a call runs; nil for a function
	handOff       *Agent // that a call hands the conversation to; nil for a function
	err           error  // of Func, reported where the tool is used
}

// Func makes a tool of a function. In is a struct; its fields are the arguments, with
// the tags json and jsonschema (a description) as in mcpserver.AddTool. A map, any and
// json.RawMessage take all arguments; any other type is an error. An Out that is
// a string becomes text, a *mcp.CallToolResult is taken as it is, and anything else
// becomes JSON. Whatever is wrong with the types is an error of [Runtime.Agent] or
// [Open].
//
// The context ends with the run. [ReportProgress] and [CallKey] take it.
func Func[In, Out any](name, description string, fn func(context.Context, In) (Out, error)) Tool {
	t := Tool{Name: name, Description: description}
	t.InputSchema, t.err = inputSchema(reflect.TypeFor[In]())
	if t.err == nil && fn == nil {
		t.err = errors.New("the function is nil")
	}
	t.Call = func(ctx context.Context, args json.RawMessage) (*mcp.CallToolResult, error) {
		var in In
		if err := jsonx.Unmarshal(args, &in); err != nil {
			return nil, fmt.Errorf("reading the arguments: %w", err)
		}
		out, err := fn(ctx, in)
		if err != nil {
			return nil, err
		}
		if text, ok := any(out).(string); ok { // as most do: it stays off the heap
			return textResult(text), nil
		}
		return resultOf(out)
	}
	return t
}

// inputSchema is the schema of a function's arguments, which are a JSON object (TOOL-03).
func inputSchema(in reflect.Type) (json.RawMessage, error) {
	of := in
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	raw, err := schema.For(of)
	if err != nil {
		return nil, err
	}
	var top struct {
		Type string `json:"type"`
	}
	switch err := jsonx.Unmarshal(raw, &top); {
	case string(raw) == "{}": // of json.RawMessage and any: all arguments
		return json.RawMessage(`{"type":"object"}`), nil
	case err != nil || top.Type != "object":
		return nil, fmt.Errorf("its input is of type %v: want a struct, whose fields are the arguments (or a map, json.RawMessage or any)", in)
	}
	return raw, nil
}

// resultOf makes a result of the value that a function has returned.
func resultOf(out any) (*mcp.CallToolResult, error) {
	if out, ok := out.(*mcp.CallToolResult); ok {
		if out == nil {
			return nil, errors.New("the tool gave no result")
		}
		return out, nil
	}
	raw, err := jsonx.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("writing the result: %w", err)
	}
	result := textResult(string(raw))
	result.StructuredContent = raw
	return result, nil
}

// textResult is a result with one text, in one piece of memory.
func textResult(text string) *mcp.CallToolResult {
	r := &struct {
		mcp.CallToolResult
		content [1]mcp.Content
		text    mcp.TextContent
	}{text: mcp.TextContent{Text: text}}
	r.content[0], r.Content = &r.text, r.content[:]
	return &r.CallToolResult
}

// NeedsApproval returns the tool so marked that each of its calls asks, whatever an
// agent's policy allows.
func NeedsApproval(t Tool) Tool {
	t.needsApproval = true
	return t
}

// ReportProgress reports to the readers of the run how far a tool call is, in units of
// its own; total is zero where it is unknown. It does nothing outside of a tool call.
func ReportProgress(ctx context.Context, done, total float64, message string) {
	if call := callOf(ctx); call != nil {
		call.Progress(done, total, message)
	}
}

// CallKey returns the idempotency key of the tool call ctx belongs to: the same if
// the call is ever repeated, and no other call's. It is empty outside of one.
func CallKey(ctx context.Context) string {
	if call := callOf(ctx); call != nil {
		return call.Key
	}
	return ""
}

// callKey is that of the call in the context of a tool's function.
type callKey struct{}

// callOf returns the call that ctx belongs to; nil outside of one.
func callOf(ctx context.Context) *loop.Call {
	call, _ := ctx.Value(callKey{}).(*loop.Call)
	return call
}

// compile checks a tool and makes it one of the loop's.
func (t Tool) compile() (loop.Tool, error) {
	if err := checkToolName(t.Name); err != nil {
		return loop.Tool{}, err
	}
	if t.err != nil {
		return loop.Tool{}, fmt.Errorf("tool %q: %w", t.Name, t.err)
	}
	if t.Call == nil && t.sub == nil && t.handOff == nil {
		return loop.Tool{}, fmt.Errorf("tool %q has no Call", t.Name)
	}
	if len(t.InputSchema) == 0 {
		t.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	compiled, err := schema.Compile(t.InputSchema, nil)
	if err != nil {
		return loop.Tool{}, fmt.Errorf("tool %q: its input schema: %w", t.Name, err)
	}
	out := loop.Tool{
		Tool:          llm.Tool{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema},
		NeedsApproval: t.needsApproval,
		Taint:         runlog.Taint(t.Taint),
		Polls:         t.Polls,
		ReadOnly:      t.ReadOnly,
		Safe:          t.Safe || t.ReadOnly || t.sub != nil || t.handOff != nil, // of an agent, its own calls count
		Validate:      func(args json.RawMessage) error { return compiled.Validate(args) },
		Do: func(ctx context.Context, call *loop.Call) (*mcp.CallToolResult, error) {
			return t.Call(call.Within(ctx, callKey{}), call.Arguments)
		},
	}
	out.Hash = hashOf(out.Tool)
	return out, nil
}

func checkToolName(name string) error {
	if name == "" || len(name) > 64 {
		return fmt.Errorf("the tool name %q does not have 1 to 64 characters", name)
	}
	for _, c := range name {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			return fmt.Errorf("the tool name %q has the character %q, which is not one of [a-zA-Z0-9_-]", name, c)
		}
	}
	return nil
}

// compileAll checks tools that are offered together.
func compileAll(groups ...[]Tool) ([]loop.Tool, error) {
	var out []loop.Tool
	taken := make(map[string]bool)
	for _, group := range groups {
		for _, t := range group {
			c, err := t.compile()
			if err != nil {
				return nil, err
			}
			if taken[c.Name] {
				return nil, fmt.Errorf("there are two tools named %q", c.Name)
			}
			taken[c.Name] = true
			out = append(out, c)
		}
	}
	return out, nil
}
