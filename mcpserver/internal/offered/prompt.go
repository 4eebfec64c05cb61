package offered

import (
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

// Prompt is the definition of a prompt.
type Prompt struct {
	Def    *mcp.Prompt
	fields []stringField // of the struct of the arguments; nil for a map
}

// maxPromptName bounds a name, in bytes.
const maxPromptName = 256

// NewPrompt checks a prompt whose handler takes arguments of a type, and completes its definition.
func NewPrompt(given *mcp.Prompt, in reflect.Type) (*Prompt, error) {
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
	return &Prompt{Def: &def, fields: fields}, nil
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

// Has reports whether the prompt declares an argument.
func (p *Prompt) Has(argument string) bool {
	return slices.ContainsFunc(p.Def.Arguments, func(a mcp.PromptArgument) bool { return a.Name == argument })
}

// Fill sets in, a pointer to a value of the handler's type, to the arguments.
func (p *Prompt) Fill(in any, arguments map[string]string) {
	if m, ok := in.(*map[string]string); ok {
		*m = arguments
		return
	}
	v := reflect.ValueOf(in).Elem()
	for _, f := range p.fields {
		v.FieldByIndex(f.index).SetString(arguments[f.name])
	}
}

// Arguments decodes the arguments that the prompt declares, and ignores others.
func (p *Prompt) Arguments(raw json.RawMessage) (map[string]string, error) {
	var given map[string]jsonx.Value
	if len(raw) > 0 {
		if err := jsonx.Unmarshal(raw, &given); err != nil {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "the arguments of prompt %q are malformed", p.Def.Name)
		}
	}
	arguments := make(map[string]string, len(p.Def.Arguments))
	for _, a := range p.Def.Arguments {
		value, there := given[a.Name]
		if !there {
			if a.Required {
				return nil, mcp.Errorf(mcp.CodeInvalidParams, "prompt %q needs the argument %q", p.Def.Name, a.Name)
			}
			continue
		}
		var text string
		if len(value) == 0 || value[0] != '"' || jsonx.Unmarshal(value, &text) != nil {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "the argument %q of prompt %q is not a string", a.Name, p.Def.Name)
		}
		arguments[a.Name] = text
	}
	return arguments, nil
}

// CheckMessages returns an error for messages that clients cannot rely on (PRM-02, PRM-04).
func CheckMessages(messages []mcp.PromptMessage) error {
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
