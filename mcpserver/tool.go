package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/schema"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/offered"
)

// tool is a tool with its handler.
type tool struct {
	*offered.Tool
	pace  offered.Speed
	takes bool     // the handler takes a ToolRequest, by which it may ask
	needs []string // scopes

	// call decodes the arguments, runs the handler and encodes its result.
	call func(r *request) error
}

func (t *tool) name() string          { return t.Def.Name }
func (t *tool) asks() bool            { return t.takes }
func (t *tool) speed() *offered.Speed { return &t.pace }
func (t *tool) scopes() []string      { return t.needs }
func (t *tool) run(r *request) error  { return t.call(r) }

// AddTool adds a tool with a handler. The input schema is inferred from In, and the output
// schema from Out, unless the definition has them. In must be a struct, a map with string
// keys, or json.RawMessage to take the arguments as they are. Out may be
//
//   - *mcp.CallToolResult, which is sent as it is; the tool has no output schema
//     unless the definition has one;
//   - string, mcp.Contents or any other type that implements mcp.Content, which
//     become content blocks;
//   - any other type, which becomes structured content and, for older clients, its
//     JSON as text.
//
// An error of the handler is a result with isError, whose text the model reads; an
// [*mcp.Error] that is not wrapped is a protocol error. If the arguments do not fit the
// schema the handler does not run.
//
// Connected clients are notified of the new tool.
func AddTool[In, Out any](s *Server, t *mcp.Tool, handle func(ctx context.Context, req *ToolRequest, in In) (Out, error), options ...EntryOption) error {
	return addTool(s, t, true, options, func(r *request, in In) (Out, error) {
		return handle(r.context(), &ToolRequest{Request{r}}, in)
	})
}

// AddFunc adds a tool as [AddTool] does, for a handler that needs nothing but its
// arguments. If it is quick, it runs where the pipe is read.
func AddFunc[In, Out any](s *Server, t *mcp.Tool, handle func(ctx context.Context, in In) (Out, error), options ...EntryOption) error {
	return addTool(s, t, false, options, func(r *request, in In) (Out, error) {
		return handle(r.context(), in)
	})
}

func addTool[In, Out any](s *Server, def *mcp.Tool, asks bool, options []EntryOption, handle func(*request, In) (Out, error)) error {
	checked, err := offered.NewTool(def, reflect.TypeFor[In](), reflect.TypeFor[Out]())
	if err != nil {
		return err
	}
	t := &tool{Tool: checked, takes: asks, needs: scopesOf(options)}
	defaults, binder := t.Defaults(), schema.NewBinder(reflect.TypeFor[In]())
	inputs := sync.Pool{New: func() any { return new(In) }} // handlers get a copy, and may wait for long
	// read returns the arguments; if they do not fit, err is how the call ends.
	read := func(r *request) (given In, fits bool, err error) {
		in := inputs.Get().(*In)
		defer func() {
			*in = *new(In)
			inputs.Put(in)
		}()
		if defaults != nil {
			if err := jsonx.Unmarshal(defaults, in); err != nil {
				return given, false, fmt.Errorf("reading the defaults of tool %q: %w", t.Def.Name, err)
			}
		}
		if err := binder.DecodeValid(t.In, r.arguments, in); err != nil {
			return given, false, t.badArguments(r, err)
		}
		return *in, true, nil
	}
	t.call = func(r *request) error {
		in, fits, err := read(r)
		if !fits {
			return err
		}
		r.enter()
		out, err := handle(r, in)
		r.leave()
		if err != nil {
			return t.failed(r, err)
		}
		if n := r.invocation.Load(); n != nil && n.remarks.Load() != nil {
			return t.respondRemarked(r, n, out)
		}
		switch out := any(&out).(type) {
		case **mcp.CallToolResult:
			return t.respond(r, *out)
		case *string: // the usual thing, so it costs no allocation
			return t.respondText(r, *out)
		}
		other := out // out itself need not be allocated
		return t.respondValue(r, &other)
	}
	if err := s.tools.Add(t); err != nil {
		return err
	}
	if t.TaskSupport() != mcp.TaskForbidden {
		s.asTasks.Store(true)
	}
	return nil
}

// The functions that encode an answer are not inlined: their variables would stand on the
// stack of every handler that waits, and thousands may wait.

// respond makes a result the answer.
//
//go:noinline
func (t *tool) respond(r *request, result *mcp.CallToolResult) error {
	return r.encoded(t.AppendResult(r.buffer(), r.answer(), result))
}

// respondText makes a result of one text the answer.
//
//go:noinline
func (t *tool) respondText(r *request, text string) error {
	return r.encoded(t.AppendText(r.buffer(), r.answer(), text, nil))
}

// respondValue makes a result of a value, to which out points, the answer.
//
//go:noinline
func (t *tool) respondValue(r *request, out any) error {
	return r.encoded(t.AppendOut(r.buffer(), r.answer(), out))
}

// respondRemarked makes a result with remarks behind it the answer.
//
//go:noinline
func (t *tool) respondRemarked(r *request, n *handlerCall, out any) error {
	result, err := t.Result(out)
	if err != nil {
		return err
	}
	all := *result // which may be the handler's to keep
	all.Content = slices.Clone(all.Content)
	for m := n.remarks.Load(); m != nil; m = m.before {
		if text := m.text(); text != "" {
			all.Content = append(all.Content, mcp.Text(text))
		}
	}
	return t.respond(r, &all)
}

// failed turns an error of a handler into a result, unless it is a protocol error.
func (t *tool) failed(r *request, err error) error {
	if wire, ok := err.(*mcp.Error); ok {
		return wire
	}
	if panicked, ok := err.(*actors.PanicError); ok {
		return panicked
	}
	if endsRound(r, err) {
		return err
	}
	if e, ok := errors.AsType[*AuthError](err); ok && mayRefuse(r) {
		return e
	}
	return t.respond(r, mcp.ErrorResult("%s", clip.Valid(err.Error())))
}

// badArguments answers arguments that do not fit the schema: as a result that the
// model can act on since 2025-11-25, as a protocol error before (TOOL-09).
func (t *tool) badArguments(r *request, err error) error {
	text := fmt.Sprintf("invalid arguments for tool %q: %v", t.Def.Name, err)
	if r.version.Has(mcp.FeatureURLElicitation) { // it came with the same revision
		return t.respond(r, mcp.ErrorResult("%s", text))
	}
	return mcp.Errorf(mcp.CodeInvalidParams, "%s", text)
}
