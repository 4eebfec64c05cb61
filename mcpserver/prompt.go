package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/registry"
)

// PromptOut is what handlers of prompts return: the text of one message of the user,
// the messages, or the whole result.
type PromptOut interface {
	string | []mcp.PromptMessage | *mcp.GetPromptResult
}

// PromptRequest is the [Request] of prompts/get.
type PromptRequest struct{ Request }

// Name returns the name of the prompt.
func (q *PromptRequest) Name() string { return q.r.work.name() }

// prompt is a prompt with its handler and completions.
type prompt struct {
	def        *mcp.Prompt
	takes      bool // the handler takes the request
	pace       *speed
	get        func(r *request, arguments map[string]string) (*mcp.GetPromptResult, error)
	completers completers
}

func (p *prompt) name() string { return p.def.Name }
func (p *prompt) asks() bool   { return p.takes }
func (p *prompt) speed() *speed {
	if p.takes {
		return nil
	}
	return p.pace
}

// AddPrompt adds a prompt with its handler. In is
//
//   - map[string]string, which has those arguments that the prompt declares and the
//     client gives; or
//   - a struct whose fields are strings. Unless the prompt brings its own arguments
//     they are made from the fields: the name is that in JSON, the description a tag
//     `jsonschema:"text"`, and a field is required unless it is omitempty or omitzero.
//
// Arguments are strings (PRM-02). If one is missing that is required, or is no
// string, the handler does not run (PRM-03). An error of the handler is a protocol
// error that gives nothing away, unless it is an [*mcp.Error] that is not wrapped.
//
// Connected clients are notified of the new prompt.
func AddPrompt[In any, Out PromptOut](s *Server, def *mcp.Prompt, handle func(ctx context.Context, req *PromptRequest, in In) (Out, error)) error {
	return addPrompt(s, def, true, func(r *request, in In) (Out, error) {
		return handle(r.context(), &PromptRequest{Request{r}}, in)
	})
}

// AddPromptFunc adds a prompt as [AddPrompt] does, for a handler that needs nothing
// but the arguments. If it is quick, it runs where the request is read.
func AddPromptFunc[In any, Out PromptOut](s *Server, def *mcp.Prompt, handle func(ctx context.Context, in In) (Out, error)) error {
	return addPrompt(s, def, false, func(r *request, in In) (Out, error) { return handle(r.context(), in) })
}

func addPrompt[In any, Out PromptOut](s *Server, given *mcp.Prompt, takes bool, handle func(*request, In) (Out, error)) error {
	p, err := newPrompt(given, reflect.TypeFor[In]())
	if err != nil {
		return err
	}
	p.takes = takes
	fields := stringFields(reflect.TypeFor[In]())
	p.get = func(r *request, arguments map[string]string) (*mcp.GetPromptResult, error) {
		var in In
		if m, ok := any(&in).(*map[string]string); ok {
			*m = arguments
		} else {
			v := reflect.ValueOf(&in).Elem()
			for _, f := range fields {
				v.FieldByIndex(f.index).SetString(arguments[f.name])
			}
		}
		r.enter()
		out, err := handle(r, in)
		r.leave()
		if err != nil {
			return nil, err
		}
		switch v := any(out).(type) {
		case string:
			return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Text(v)}}}, nil
		case []mcp.PromptMessage:
			return &mcp.GetPromptResult{Messages: v}, nil
		case *mcp.GetPromptResult:
			return v, nil
		}
		return nil, nil // there is no other type
	}
	return s.prompts.Add(p)
}

// maxPromptName bounds a name, in bytes.
const maxPromptName = 256

// newPrompt checks a prompt and completes its definition.
func newPrompt(given *mcp.Prompt, in reflect.Type) (*prompt, error) {
	if given == nil {
		return nil, errors.New("adding a prompt: it is nil")
	}
	def := *given
	fields := stringFields(in)
	switch {
	case in == reflect.TypeFor[map[string]string]():
	case fields == nil:
		return nil, fmt.Errorf("adding the prompt %q: %v is neither map[string]string nor a struct of strings (PRM-02)", def.Name, in)
	case def.Arguments == nil:
		for _, f := range fields {
			def.Arguments = append(def.Arguments, mcp.PromptArgument{Name: f.name, Description: f.description, Required: f.required})
		}
	}
	err := errors.Join(def.Validate(), registry.CheckDescribed(def.Icons, nil))
	if len(def.Name) > maxPromptName || !utf8.ValidString(def.Name) {
		err = errors.Join(err, fmt.Errorf("its name is no text of at most %d bytes", maxPromptName))
	}
	for i, a := range def.Arguments {
		if slices.ContainsFunc(def.Arguments[:i], func(b mcp.PromptArgument) bool { return a.Name == b.Name }) {
			err = errors.Join(err, fmt.Errorf("the argument %q is there twice", a.Name))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("adding the prompt %q: %w", def.Name, err)
	}
	return &prompt{def: &def, pace: new(speed)}, nil
}

// stringField is an argument of a prompt that is a struct.
type stringField struct {
	name, description string
	required          bool
	index             []int
}

// stringFields returns the fields of a struct of strings, nil if it is none.
func stringFields(t reflect.Type) []stringField {
	if t.Kind() != reflect.Struct {
		return nil
	}
	fields := []stringField{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || name == "-" {
			if f.Anonymous && f.Type.Kind() != reflect.Struct {
				return nil
			}
			continue
		}
		if f.Type.Kind() != reflect.String {
			return nil
		}
		if name == "" {
			name = f.Name
		}
		optional := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		fields = append(fields, stringField{name, f.Tag.Get("jsonschema"), !optional, f.Index})
	}
	return fields
}

func (p *prompt) run(r *request) error {
	arguments, err := p.arguments(r.arguments)
	if err != nil {
		return err
	}
	result, err := p.get(r, arguments)
	if err != nil {
		if wire, ok := err.(*mcp.Error); ok {
			return wire
		}
		return err
	}
	if result == nil {
		return fmt.Errorf("prompt %q returned no result", p.def.Name)
	}
	if err := checkMessages(result.Messages); err != nil {
		return fmt.Errorf("prompt %q returned a result that is none: %w", p.def.Name, err)
	}
	c := *result
	return respondWith(r, &c, &c.Meta)
}

// arguments decodes those that the prompt declares, and ignores others.
func (p *prompt) arguments(raw json.RawMessage) (map[string]string, error) {
	var given map[string]jsonx.Value
	if len(raw) > 0 {
		if err := jsonx.Unmarshal(raw, &given); err != nil {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "the arguments of prompt %q are malformed", p.def.Name)
		}
	}
	arguments := make(map[string]string, len(p.def.Arguments))
	for _, a := range p.def.Arguments {
		value, there := given[a.Name]
		if !there {
			if a.Required {
				return nil, mcp.Errorf(mcp.CodeInvalidParams, "prompt %q needs the argument %q", p.def.Name, a.Name)
			}
			continue
		}
		var text string
		if len(value) == 0 || value[0] != '"' || jsonx.Unmarshal(value, &text) != nil {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "the argument %q of prompt %q is not a string", a.Name, p.def.Name)
		}
		arguments[a.Name] = text
	}
	return arguments, nil
}

// checkMessages sees that messages are what clients may rely on (PRM-02, PRM-04).
func checkMessages(messages []mcp.PromptMessage) error {
	for i, m := range messages {
		if !m.Role.Valid() {
			return fmt.Errorf("message %d has the unknown role %q", i, m.Role)
		}
		var err error
		switch c := m.Content.(type) {
		case nil:
			err = errors.New("there is no content")
		case *mcp.ImageContent:
			err = needMIMEType(c.MIMEType)
		case *mcp.AudioContent:
			err = needMIMEType(c.MIMEType)
		case *mcp.EmbeddedResource:
			if err = needMIMEType(c.Resource.MIMEType); c.Resource.URI == "" {
				err = errors.New("the resource has no URI")
			}
		case *mcp.ToolUseContent, *mcp.ToolResultContent: // CONT-04
			err = fmt.Errorf("a block of type %s is for sampling only", c.ContentType())
		}
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	return nil
}

func needMIMEType(mimeType string) error {
	if mimeType == "" {
		return errors.New("the content has no MIME type")
	}
	return nil
}

// getPrompt begins prompts/get.
func getPrompt(s *session, a *arrival) (lost bool, err error) {
	w, err := findPrompt(s, a)
	if err != nil {
		return false, err
	}
	return s.begin(a, w, a.Arguments)
}

func findPrompt(s *session, a *arrival) (work, error) {
	name, ok := a.NameString()
	if !ok || a.Arguments != nil && a.Arguments[0] != '{' {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "a prompt takes a name and an object of arguments")
	}
	p, ok := s.server.prompts.Now().Get(name)
	if !ok {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "unknown prompt %q", shorten(name)) // PRM-03
	}
	return p, nil
}
