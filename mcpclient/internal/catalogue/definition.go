// Package catalogue names the tools of many servers, and finds what is odd about them.
package catalogue

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// definition is what a pin is about: all that says what a tool does.
type definition struct {
	Name         string               `json:"name"`
	Title        string               `json:"title,omitzero"`
	Description  string               `json:"description,omitzero"`
	InputSchema  json.RawMessage      `json:"inputSchema"`
	OutputSchema json.RawMessage      `json:"outputSchema,omitzero"`
	Annotations  *mcp.ToolAnnotations `json:"annotations,omitzero"`
}

func definitionOf(t *mcp.Tool) *definition {
	return &definition{t.Name, t.Title, t.Description, t.InputSchema, t.OutputSchema, t.Annotations}
}

// canonical writes v so that what means the same is the same text (RFC 8785).
func canonical(v any) ([]byte, error) {
	raw, err := mcp.Marshal(v)
	if err != nil {
		return nil, err
	}
	return jsonx.Canonical(raw)
}

// Hash returns the hash that tools are pinned by; "" for a definition that cannot be written.
func Hash(t *mcp.Tool) string {
	raw, err := canonical(definitionOf(t))
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// Text returns what tools are pinned by, as indented JSON.
func Text(t *mcp.Tool) (string, error) {
	raw, err := mcp.Marshal(definitionOf(t))
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	err = json.Indent(&b, raw, "", "  ")
	return b.String(), err
}

// Changes names the parts of a definition in which two tools differ.
func Changes(a, b *mcp.Tool) []string {
	x, y := definitionOf(a), definitionOf(b)
	var changes []string
	for _, part := range []struct {
		name string
		a, b any
	}{
		{"name", x.Name, y.Name}, {"title", x.Title, y.Title}, {"description", x.Description, y.Description},
		{"inputSchema", x.InputSchema, y.InputSchema}, {"outputSchema", x.OutputSchema, y.OutputSchema},
		{"annotations", x.Annotations, y.Annotations},
	} {
		a, errA := canonical(part.a)
		b, errB := canonical(part.b)
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			changes = append(changes, part.name)
		}
	}
	return changes
}

// AppOnly reports whether a tool is for user interfaces only; an unknown form hides nothing.
func AppOnly(t *mcp.Tool) bool {
	var ui struct {
		Visibility []string `json:"visibility"`
	}
	found, err := t.Meta.Get("ui", &ui)
	return found && err == nil && ui.Visibility != nil && !slices.Contains(ui.Visibility, "model")
}
