package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/schema"
	"github.com/troupe-dev/troupe/mcp"
)

// LoopTool is a function that the model may call in a [Request.SampleLoop]. It is no
// tool of the server: clients only see it in the questions to the model (SAMP-05). It is
// made by [LoopFunc], does not change, and may be used by many loops at once.
type LoopTool struct {
	def *mcp.Tool
	err error
	// call holds arguments against the schema and runs the function.
	call func(ctx context.Context, args json.RawMessage) (*mcp.CallToolResult, error)
}

// LoopFunc makes a tool of a function, with a schema and a result as [AddTool] has them:
// In may be json.RawMessage to take the arguments as they are, and Out a
// *mcp.CallToolResult to give a result as it is. Arguments that do not fit the schema
// never reach the function: the model is told. So it is of an error of the function.
//
// The function runs on a goroutine of its own, beside others of the same answer, with
// the context of the loop, and must end when that does. In a handler that runs again its
// result is taken from the first time; if it asks the client something itself, its loop
// must run one tool at a time ([LoopOptions].Parallel).
//
// What is wrong with t is told by Err and by [Request.SampleLoop]. A name is 1 to 64 of
// A-Z a-z 0-9 _ -, which is what models take.
func LoopFunc[In, Out any](t *mcp.Tool, f func(ctx context.Context, in In) (Out, error)) *LoopTool {
	made, err := newTool(t, reflect.TypeFor[In](), reflect.TypeFor[Out]())
	if err == nil && !modelTakes(made.def.Name) {
		err = fmt.Errorf("the tool %q: models take names of 1 to 64 of A-Z a-z 0-9 _ -", made.def.Name)
	}
	if err != nil {
		return &LoopTool{err: err}
	}
	def := *made.def
	def.OutputSchema = t.OutputSchema // an inferred one tells a model nothing
	defaults, binder := made.defaults(), schema.NewBinder(reflect.TypeFor[In]())
	l := &LoopTool{def: &def}
	l.call = func(ctx context.Context, args json.RawMessage) (*mcp.CallToolResult, error) {
		var in In
		if defaults != nil {
			if err := jsonx.Unmarshal(defaults, &in); err != nil {
				return nil, fmt.Errorf("reading the defaults of tool %q: %w", def.Name, err)
			}
		}
		if err := binder.DecodeValid(made.in, args, &in); err != nil {
			return mcp.ErrorResult("not called: the arguments do not fit the tool's schema: %v", err), nil
		}
		out, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		return made.resultOf(out)
	}
	return l
}

// Err says what is wrong with the tool, nil if nothing is.
func (l *LoopTool) Err() error {
	if l == nil {
		return errors.New("a tool is nil")
	}
	return l.err
}

// modelTakes reports whether providers take a tool's name.
func modelTakes(name string) bool {
	for _, c := range []byte(name) {
		if c == '.' {
			return false
		}
	}
	return len(name) <= 64
}

// resultOf makes a result of what a function returned, as [AddTool] describes.
func (t *tool) resultOf(out any) (*mcp.CallToolResult, error) {
	result := new(mcp.CallToolResult)
	switch v := out.(type) {
	case *mcp.CallToolResult:
		if v == nil {
			return nil, errors.New("it returned no result")
		}
		result = v
	case nil:
	case mcp.Contents:
		result.Content = v
	case mcp.Content:
		result.Content = mcp.Contents{v}
	default:
		if v := reflect.ValueOf(out); v.Kind() == reflect.String {
			result.Content = mcp.Contents{mcp.Text(v.String())}
			break
		}
		raw, err := jsonx.Marshal(out)
		if err != nil {
			return nil, fmt.Errorf("encoding the result of tool %q: %w", t.def.Name, err)
		}
		result.Content, result.StructuredContent = mcp.Contents{mcp.Text(string(raw))}, raw
	}
	if t.out == nil || result.IsError {
		return result, nil
	}
	if result.StructuredContent == nil { // SAMP-26
		return nil, fmt.Errorf("tool %q returned no structured content, against its output schema", t.def.Name)
	}
	if err := t.out.Validate(result.StructuredContent); err != nil {
		return nil, fmt.Errorf("tool %q returned what its output schema forbids: %w", t.def.Name, err)
	}
	return result, nil
}
