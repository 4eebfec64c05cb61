// Package offered checks the definitions of tools, prompts and resource templates when they are added, and keeps
// what is derived from them.
package offered

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/mirror"
	"github.com/troupe-dev/troupe/internal/schema"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/registry"
)

// Tool is the definition of a tool.
type Tool struct {
	Def    *mcp.Tool
	In     *schema.Schema // nil for a relayed tool
	Out    *schema.Schema // nil without structured content
	Mirror mirror.Plan    // of the arguments that headers repeat (HDR-24)
}

// NewTool checks a tool with a handler of these types, and completes its definition.
func NewTool(given *mcp.Tool, in, out reflect.Type) (*Tool, error) {
	if given == nil {
		return nil, errors.New("adding a tool: it is nil")
	}
	def := *given
	if !validName(def.Name) {
		return nil, fmt.Errorf("adding the tool %q: a name is 1 to 128 of A-Z a-z 0-9 _ . - (TOOL-04)", def.Name)
	}
	t := &Tool{Def: &def}
	var err error
	if def.InputSchema == nil {
		if def.InputSchema, err = schema.For(in); err != nil {
			return nil, fmt.Errorf("adding the tool %q: %w", def.Name, err)
		}
		if string(def.InputSchema) == "{}" { // json.RawMessage and any: all arguments
			def.InputSchema = json.RawMessage(`{"type":"object"}`)
		}
	}
	if t.Mirror, err = mirror.NewPlan(def.InputSchema); err != nil { // clients would leave it out (HDR-22)
		return nil, fmt.Errorf("adding the tool %q: %w", def.Name, err)
	}
	if t.In, err = schema.Compile(def.InputSchema, nil); err != nil {
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
		if t.Out, err = schema.Compile(def.OutputSchema, nil); err != nil {
			return nil, fmt.Errorf("adding the tool %q: its output schema: %w", def.Name, err)
		}
	}
	if err := checkTaskSupport(&def); err != nil {
		return nil, fmt.Errorf("adding the tool %q: %w", def.Name, err)
	}
	return t, nil
}

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
func (t *Tool) Defaults() []byte {
	d := t.In.Defaults()
	if len(d) == 0 {
		return nil
	}
	raw, err := jsonx.Marshal(d)
	if err != nil {
		return nil // it was decoded from JSON
	}
	return raw
}

// validName reports whether a tool may have the name (TOOL-04).
func validName(name string) bool {
	for _, c := range []byte(name) {
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '.' || c == '-') {
			return false
		}
	}
	return 1 <= len(name) && len(name) <= 128
}

// RelayTool checks a tool of another server, which has its schema.
func RelayTool(given *mcp.Tool) (*Tool, error) {
	if given == nil {
		return nil, errors.New("relaying a tool: it is nil")
	}
	own := *given
	t := &Tool{Def: &own}
	var err error
	if t.Mirror, err = mirror.NewPlan(own.InputSchema); err != nil {
		return nil, fmt.Errorf("relaying the tool %q: %w", own.Name, err)
	}
	err = errors.Join(own.Validate(), registry.CheckDescribed(own.Icons, nil), checkTaskSupport(&own))
	if !validName(own.Name) {
		err = errors.Join(err, errors.New("a name is 1 to 128 of A-Z a-z 0-9 _ . - (TOOL-04)"))
	}
	if !isObjectSchema(own.InputSchema) {
		err = errors.Join(err, errors.New("the input schema is not of type object (TOOL-03)"))
	}
	if err != nil {
		return nil, fmt.Errorf("relaying the tool %q: %w", own.Name, err)
	}
	return t, nil
}

// TaskSupport returns the task support of the tool's definition (TASK-05).
func (t *Tool) TaskSupport() string {
	if t.Def.Execution == nil || t.Def.Execution.TaskSupport == "" {
		return mcp.TaskForbidden
	}
	return t.Def.Execution.TaskSupport
}

// checkTaskSupport checks the task support of a definition (TASK-05).
func checkTaskSupport(def *mcp.Tool) error {
	if def.Execution == nil {
		return nil
	}
	switch def.Execution.TaskSupport {
	case "", mcp.TaskForbidden, mcp.TaskOptional, mcp.TaskRequired:
		return nil
	}
	return errors.New("its task support is none of forbidden, optional and required (TASK-05)")
}

// Definition implements [asking.Tool].
func (t *Tool) Definition() *mcp.Tool { return t.Def }

// Input implements [asking.Tool].
func (t *Tool) Input() *schema.Schema { return t.In }

// Result makes a result of what a function returned, as mcpserver.AddTool describes.
func (t *Tool) Result(out any) (*mcp.CallToolResult, error) {
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
			return nil, fmt.Errorf("encoding the result of tool %q: %w", t.Def.Name, err)
		}
		result.Content, result.StructuredContent = mcp.Contents{mcp.Text(string(raw))}, raw
	}
	return result, t.Check(result)
}

// Check holds a result to the output schema (TOOL-11, SAMP-26).
func (t *Tool) Check(result *mcp.CallToolResult) error {
	if t.Out == nil || result.IsError {
		return nil
	}
	if result.StructuredContent == nil {
		return fmt.Errorf("tool %q returned no structured content, against its output schema", t.Def.Name)
	}
	if err := t.Out.Validate(result.StructuredContent); err != nil {
		return fmt.Errorf("tool %q returned what its output schema forbids: %w", t.Def.Name, err)
	}
	return nil
}
