package agent

import (
	"encoding/json"
	"errors"

	"github.com/troupe-dev/troupe/internal/memo"
	"github.com/troupe-dev/troupe/internal/schema"
	"github.com/troupe-dev/troupe/mcpclient"
)

// Bounds of the input schemas that stay compiled.
const (
	maxInputSchemas     = 1000
	maxInputSchemasSize = 8 << 20 // bytes of their text
)

// inputSchemas checks the arguments of calls by the schemas that servers list, so that a model reads what is wrong with
// them before a server is asked. A schema is compiled when its tool is first called: most of a long list never are.
// The bounds of package schema hold for each.
type inputSchemas struct {
	byTool memo.Map[string, *schema.Schema] // by the hash of the definition; nil for one that cannot be checked
}

func newInputSchemas() *inputSchemas {
	return &inputSchemas{memo.Map[string, *schema.Schema]{Max: maxInputSchemas, MaxSize: maxInputSchemasSize}}
}

// check returns the check of the arguments of a tool's calls, by the hash of its definition.
func (s *inputSchemas) check(t *mcpclient.Tool, hash string) func(args json.RawMessage) error {
	raw := t.Tool.InputSchema
	return func(args json.RawMessage) error {
		compiled := s.compiled(raw, hash)
		if compiled == nil {
			return nil // its server decides
		}
		err := compiled.Validate(args)
		if wrong, ok := errors.AsType[*schema.ValidationError](err); ok && wrong.Unchecked {
			return nil // likewise
		}
		return err
	}
}

// compiled returns a schema, or nil if it cannot be checked. Of two that compile the same one at once one is kept.
func (s *inputSchemas) compiled(raw json.RawMessage, hash string) *schema.Schema {
	compiled, ok := s.byTool.Get(hash)
	if ok {
		return compiled
	}
	compiled, err := schema.Compile(raw, &schema.Options{Sent: true})
	if err != nil {
		compiled = nil
	}
	s.byTool.Set(hash, compiled, len(raw))
	return compiled
}
