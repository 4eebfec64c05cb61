package sampling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/schema"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/asking"
)

// Tool is a function that the model may call in a [Loop]. It is no tool of the server:
// clients only see it in the questions to the model. It is made by [Func], does not change,
// and may be used by many loops at once.
type Tool struct {
	def *mcp.Tool
	err error
	// call holds arguments against the schema and runs the function.
	call func(ctx context.Context, args json.RawMessage) (*mcp.CallToolResult, error)
}

// Func makes a tool of a function, with a schema and a result as [mcpserver.AddTool] has
// them: In may be json.RawMessage to take the arguments as they are, and Out a
// *mcp.CallToolResult to give a result as it is. Arguments that do not fit the schema
// never reach the function: the model reads what is wrong, as it reads an error of the
// function.
//
// The function runs on a goroutine of its own, beside others of the same answer, with
// the context of the loop, and must end when that does. In a handler that runs again its
// result is taken from the first time; if it asks the client something itself, its loop
// must run one tool at a time ([Options].Parallel).
//
// Err and [Loop] report a tool that is wrong. A name is 1 to 64 of A-Z a-z 0-9 _ -, which
// is what models take.
func Func[In, Out any](t *mcp.Tool, f func(ctx context.Context, in In) (Out, error)) *Tool {
	made, err := asking.NewTool(t, reflect.TypeFor[In](), reflect.TypeFor[Out]())
	if err == nil && !modelTakes(made.Definition().Name) {
		err = fmt.Errorf("the tool %q: models take names of 1 to 64 of A-Z a-z 0-9 _ -", made.Definition().Name)
	}
	if err != nil {
		return &Tool{err: err}
	}
	def := *made.Definition()
	def.OutputSchema = t.OutputSchema // an inferred one tells a model nothing
	defaults, binder := made.Defaults(), schema.NewBinder(reflect.TypeFor[In]())
	l := &Tool{def: &def}
	l.call = func(ctx context.Context, args json.RawMessage) (*mcp.CallToolResult, error) {
		var in In
		if defaults != nil {
			if err := jsonx.Unmarshal(defaults, &in); err != nil {
				return nil, fmt.Errorf("reading the defaults of tool %q: %w", def.Name, err)
			}
		}
		if err := binder.DecodeValid(made.Input(), args, &in); err != nil {
			return mcp.ErrorResult("not called: the arguments do not fit the tool's schema: %v", err), nil
		}
		out, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		return made.Result(out)
	}
	return l
}

// Err reports an error in the definition of the tool, nil if there is none.
func (l *Tool) Err() error {
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
