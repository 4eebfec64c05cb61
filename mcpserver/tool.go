package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/mirror"
	"github.com/troupe-dev/troupe/internal/schema"
	"github.com/troupe-dev/troupe/mcp"
)

// tool is a tool and everything that is derived from it when it is added.
type tool struct {
	def    *mcp.Tool
	in     *schema.Schema
	out    *schema.Schema // nil without structured content
	pace   speed
	mirror mirror.Plan // of the arguments that headers repeat (HDR-24)
	takes  bool        // the handler takes a ToolRequest, by which it may ask

	// call decodes the arguments, runs the handler and encodes its result.
	call func(r *request) error
}

func (t *tool) name() string         { return t.def.Name }
func (t *tool) asks() bool           { return t.takes }
func (t *tool) speed() *speed        { return &t.pace }
func (t *tool) run(r *request) error { return t.call(r) }

// AddTool adds a tool with a handler. The input schema is inferred from In, and
// the output schema from Out, unless the tool brings its own. In must be a
// struct, a map with string keys, or json.RawMessage to take the arguments as they
// are. Out may be
//
//   - *mcp.CallToolResult, which is sent as it is; the tool has no output schema
//     unless it brings one;
//   - string, mcp.Contents or any other type that implements mcp.Content, which
//     become content blocks;
//   - anything else, which becomes structured content and, for clients that do
//     not know that, its JSON as text.
//
// An error of the handler is a result with isError that the model can read,
// but an [*mcp.Error] that it returns itself, not wrapped, is a
// protocol error. Arguments that do not fit are answered without the handler.
//
// Connected clients are notified of the new tool.
func AddTool[In, Out any](s *Server, t *mcp.Tool, handle func(ctx context.Context, req *ToolRequest, in In) (Out, error)) error {
	return addTool(s, t, true, func(r *request, in In) (Out, error) {
		return handle(r.context(), &ToolRequest{Request{r}}, in)
	})
}

// AddFunc adds a tool as [AddTool] does, for a handler that needs nothing but its
// arguments. If it is quick, it runs where the pipe is read.
func AddFunc[In, Out any](s *Server, t *mcp.Tool, handle func(ctx context.Context, in In) (Out, error)) error {
	return addTool(s, t, false, func(r *request, in In) (Out, error) {
		return handle(r.context(), in)
	})
}

func addTool[In, Out any](s *Server, def *mcp.Tool, asks bool, handle func(*request, In) (Out, error)) error {
	t, err := newTool(def, reflect.TypeFor[In](), reflect.TypeFor[Out]())
	if err != nil {
		return err
	}
	t.takes = asks
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
				return given, false, fmt.Errorf("reading the defaults of tool %q: %w", t.def.Name, err)
			}
		}
		if err := binder.DecodeValid(t.in, r.arguments, in); err != nil {
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
		switch out := any(&out).(type) {
		case **mcp.CallToolResult:
			return t.result(r, *out)
		case *string: // the usual thing, so it costs no allocation
			return t.text(r, *out, nil)
		}
		other := out // out itself need not be allocated
		return t.finished(r, &other)
	}
	if err := s.tools.Add(t); err != nil {
		return err
	}
	if t.taskSupport() != mcp.TaskForbidden {
		s.tasks.declared.Store(true)
	}
	return nil
}

// newTool checks a tool and completes its definition.
func newTool(given *mcp.Tool, in, out reflect.Type) (*tool, error) {
	if given == nil {
		return nil, errors.New("adding a tool: it is nil")
	}
	def := *given
	if !validName(def.Name) {
		return nil, fmt.Errorf("adding the tool %q: a name is 1 to 128 of A-Z a-z 0-9 _ . - (TOOL-04)", def.Name)
	}
	t := &tool{def: &def}
	var err error
	if def.InputSchema == nil {
		if def.InputSchema, err = schema.For(in); err != nil {
			return nil, fmt.Errorf("adding the tool %q: %w", def.Name, err)
		}
		if string(def.InputSchema) == "{}" { // json.RawMessage and any: all arguments
			def.InputSchema = json.RawMessage(`{"type":"object"}`)
		}
	}
	if t.mirror, err = mirror.NewPlan(def.InputSchema); err != nil { // clients would leave it out (HDR-22)
		return nil, fmt.Errorf("adding the tool %q: %w", def.Name, err)
	}
	if t.in, err = schema.Compile(def.InputSchema, nil); err != nil {
		return nil, fmt.Errorf("adding the tool %q: its input schema: %w", def.Name, err)
	}
	if !isObjectSchema(def.InputSchema) {
		return nil, fmt.Errorf("adding the tool %q: the input schema of %v is not of type object (TOOL-03)", def.Name, in)
	}
	if def.OutputSchema == nil && isStructured(out) {
		if def.OutputSchema, err = schema.For(out); err != nil {
			return nil, fmt.Errorf("adding the tool %q: %w", def.Name, err)
		}
	}
	if def.OutputSchema != nil {
		if t.out, err = schema.Compile(def.OutputSchema, nil); err != nil {
			return nil, fmt.Errorf("adding the tool %q: its output schema: %w", def.Name, err)
		}
	}
	if err := checkTaskSupport(&def); err != nil {
		return nil, fmt.Errorf("adding the tool %q: %w", def.Name, err)
	}
	return t, nil
}

var contentType = reflect.TypeFor[mcp.Content]()

// isStructured reports whether results of the type become structured content.
func isStructured(out reflect.Type) bool {
	switch {
	case out == reflect.TypeFor[*mcp.CallToolResult](), out == reflect.TypeFor[mcp.Contents](),
		out.Implements(contentType), out.Kind() == reflect.String, out == reflect.TypeFor[any]():
		return false
	}
	return true
}

func isObjectSchema(raw json.RawMessage) bool {
	var root struct {
		Type jsonx.Value `json:"type"`
	}
	return jsonx.Unmarshal(raw, &root) == nil && string(root.Type) == `"object"`
}

// Defaults returns the defaults of the arguments as one object, nil if there are none.
func (t *tool) Defaults() []byte {
	d := t.in.Defaults()
	if len(d) == 0 {
		return nil
	}
	raw, err := jsonx.Marshal(d)
	if err != nil {
		return nil // it was decoded from JSON
	}
	return raw
}

// validName holds to TOOL-04.
func validName(name string) bool {
	for _, c := range []byte(name) {
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '.' || c == '-') {
			return false
		}
	}
	return 1 <= len(name) && len(name) <= 128
}

// speed decides where a tool runs: it earns a place on the reading goroutine by
// quick runs elsewhere, and loses it by one slow run there.
type speed struct{ earned atomic.Int32 }

const (
	quickRuns = 3
	quickTime = 400 * time.Microsecond // for a run to count
	slowTime  = 800 * time.Microsecond // for the place to be lost
)

func (s *speed) quick() bool { return s != nil && s.earned.Load() >= quickRuns }

// ran takes note of a run.
func (s *speed) ran(inline bool, took time.Duration) {
	switch {
	case s == nil:
	case inline && took > slowTime, !inline && took > quickTime:
		s.earned.Store(0)
	case !inline && !s.quick():
		s.earned.Add(1)
	}
}

// textResult is a result of one text block, in one allocation.
type textResult struct {
	result mcp.CallToolResult
	text   mcp.TextContent
	block  [1]mcp.Content
}

// textResults are used again: once encoded, nothing is kept of them.
var textResults = sync.Pool{New: func() any { return new(textResult) }}

// text encodes a result of one text, and what it is the text of: nil for nothing.
func (t *tool) text(r *request, text string, structured []byte) error {
	one := textResults.Get().(*textResult)
	one.text.Text = text
	one.block[0] = &one.text
	one.result.Content, one.result.StructuredContent = one.block[:], structured
	err := t.encode(r, &one.result)
	*one = textResult{}
	textResults.Put(one)
	return err
}

// result encodes the result that a handler returned.
func (t *tool) result(r *request, result *mcp.CallToolResult) error {
	if result == nil {
		return fmt.Errorf("tool %q returned no result", t.def.Name)
	}
	return t.encode(r, result)
}

// finished encodes what a handler returned instead of a result. Out is a pointer
// to the value.
func (t *tool) finished(r *request, out any) error {
	switch v := out.(type) {
	case *mcp.Contents:
		return t.encode(r, &mcp.CallToolResult{Content: *v})
	}
	v := reflect.ValueOf(out).Elem()
	if v.Kind() == reflect.Interface && v.IsNil() {
		return t.encode(r, &mcp.CallToolResult{})
	}
	if v.Type().Implements(contentType) {
		return t.encode(r, &mcp.CallToolResult{Content: mcp.Contents{v.Interface().(mcp.Content)}})
	}
	if v.Kind() == reflect.String {
		return t.text(r, v.String(), nil)
	}
	raw, err := jsonx.Marshal(out)
	if err != nil {
		return fmt.Errorf("encoding the result of tool %q: %w", t.def.Name, err)
	}
	return t.text(r, string(raw), raw)
}

// encode writes the answer with the result to r.out.
func (t *tool) encode(r *request, result *mcp.CallToolResult) error {
	if t.out != nil && !result.IsError { // TOOL-11
		if result.StructuredContent == nil {
			return fmt.Errorf("tool %q returned no structured content, against its output schema", t.def.Name)
		}
		if err := t.out.Validate(result.StructuredContent); err != nil {
			return fmt.Errorf("tool %q returned what its output schema forbids: %w", t.def.Name, err)
		}
	}
	out := append(r.buffer(), `{"jsonrpc":"2.0","id":`...)
	out = append(r.ID().AppendJSON(out), `,"result":`...)
	if result.Meta != nil && r.version.Era() == mcp.EraModern {
		c := *result
		c.Meta = r.session.server.identified(result.Meta, r.version)
		result = &c
	}
	start := len(out)
	out, err := mcp.AppendCallToolResult(out, result, r.version)
	if err != nil {
		return fmt.Errorf("encoding the result of tool %q: %w", t.def.Name, err)
	}
	if result.Meta == nil && len(result.Extra) == 0 && len(out) > start {
		out = r.session.server.withMeta(out, r.version)
	}
	*r.out = append(out, '}')
	return nil
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
	return t.encode(r, mcp.ErrorResult("%s", bytes.ToValidUTF8([]byte(err.Error()), []byte("\uFFFD"))))
}

// badArguments answers arguments that do not fit the schema: as a result that the
// model can act on since 2025-11-25, as a protocol error before (TOOL-09).
func (t *tool) badArguments(r *request, err error) error {
	text := fmt.Sprintf("invalid arguments for tool %q: %v", t.def.Name, err)
	if r.version.Has(mcp.FeatureURLElicitation) { // came with the same revision
		return t.encode(r, mcp.ErrorResult("%s", text))
	}
	return mcp.Errorf(mcp.CodeInvalidParams, "%s", text)
}

// Definition implements [asking.Tool].
func (t *tool) Definition() *mcp.Tool { return t.def }

// Input implements [asking.Tool].
func (t *tool) Input() *schema.Schema { return t.in }

// Result makes a result of what a function returned, as [AddTool] describes.
func (t *tool) Result(out any) (*mcp.CallToolResult, error) {
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
