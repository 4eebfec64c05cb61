package lists

import (
	"encoding/json"
	"fmt"

	"github.com/troupe-dev/troupe/internal/mirror"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/memo"
)

// Headers remembers what the schemas of the tools that were listed last say about headers.
type Headers struct{ byTool memo.Map[string, Annotated] }

// Annotated is what one schema says.
type Annotated struct {
	Params []mirror.Param
	Err    error // why the tool must not be called (HDR-22)
	schema json.RawMessage
}

// Of returns what a tool's schema says. The schema is read once.
func (h *Headers) Of(t *mcp.Tool) Annotated {
	known, ok := h.byTool.Get(t.Name)
	if ok && len(known.schema) == len(t.InputSchema) && &known.schema[0] == &t.InputSchema[0] {
		return known
	}
	known = Annotated{schema: t.InputSchema}
	if known.Params, known.Err = mirror.Params(t.InputSchema); known.Err != nil {
		known.Err = fmt.Errorf("tool %q: %w", t.Name, known.Err)
	}
	h.byTool.Set(t.Name, known, 0)
	return known
}

// Refusal says why a tool that is not in the list was left out of it, if that is known.
func (h *Headers) Refusal(name string) error {
	known, _ := h.byTool.Get(name)
	return known.Err
}
