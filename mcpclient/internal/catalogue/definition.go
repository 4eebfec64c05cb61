// Package catalogue names the tools of many servers, and finds what is odd about them.
package catalogue

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// definitionOf is what a pin is about: all that the server says of a tool, known to this program or not, but
// for what is only looked at.
func definitionOf(t *mcp.Tool) *mcp.Tool {
	d := *t
	d.Icons = nil
	return &d
}

// rule begins the hashes that are made by the rule of today. Those of older versions begin otherwise.
const rule = "2-"

// Hash returns the hash that tools are pinned by. Tools that mean the same have the same, whatever the order of their
// members (RFC 8785, with all digits of numbers), but for those that have two members of one name somewhere.
func Hash(t *mcp.Tool) string {
	raw, err := jsonx.Marshal(definitionOf(t))
	if err == nil {
		raw, err = jsonx.Exact(raw)
	}
	if err != nil {
		hints, _ := jsonx.Marshal(t.Annotations)
		run, _ := jsonx.Marshal(t.Execution)
		raw = fmt.Appendf(nil, "%q", []any{t.Name, t.Title, t.Description, t.InputSchema, t.OutputSchema, hints, run, t.Meta, t.Extra})
	}
	sum := sha256.Sum256(raw)
	return rule + hex.EncodeToString(sum[:])
}

// Is reports whether a tool is the one that has a hash, by the rule that the hash was made by.
func Is(hash string, t *mcp.Tool) bool {
	if strings.HasPrefix(hash, rule) {
		return hash == Hash(t)
	}
	return hash != "" && hash == firstHash(t)
}

// firstHash is the hash of the first rule, which left out execution, _meta and members that it did not know.
func firstHash(t *mcp.Tool) string {
	raw, err := mcp.Marshal(struct {
		Name         string               `json:"name"`
		Title        string               `json:"title,omitzero"`
		Description  string               `json:"description,omitzero"`
		InputSchema  json.RawMessage      `json:"inputSchema"`
		OutputSchema json.RawMessage      `json:"outputSchema,omitzero"`
		Annotations  *mcp.ToolAnnotations `json:"annotations,omitzero"`
	}{t.Name, t.Title, t.Description, t.InputSchema, t.OutputSchema, t.Annotations})
	if err == nil {
		raw, err = jsonx.Canonical(raw)
	}
	prefix := ""
	if err != nil {
		raw, prefix = fmt.Appendf(nil, "%q", []string{t.Name, t.Title, t.Description, string(t.InputSchema), string(t.OutputSchema)}), "raw-"
	}
	sum := sha256.Sum256(raw)
	return prefix + hex.EncodeToString(sum[:])
}

// Text returns what tools are pinned by, as indented JSON.
func Text(t *mcp.Tool) (string, error) {
	raw, err := jsonx.Marshal(definitionOf(t))
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	err = json.Indent(&b, raw, "", "  ")
	return b.String(), err
}

// Changes names the members of a definition in which two tools differ, sorted; nil where one cannot be written.
func Changes(a, b *mcp.Tool) []string {
	x, y := membersOf(a), membersOf(b)
	if x == nil || y == nil {
		return nil
	}
	var changes []string
	for name, value := range x {
		if other, ok := y[name]; !ok || !bytes.Equal(value, other) {
			changes = append(changes, name)
		}
	}
	for name := range y {
		if _, ok := x[name]; !ok {
			changes = append(changes, name)
		}
	}
	slices.Sort(changes)
	return changes
}

// membersOf is a definition by its members, each in exact form where it has one.
func membersOf(t *mcp.Tool) map[string]json.RawMessage {
	raw, err := jsonx.Marshal(definitionOf(t))
	if err != nil {
		return nil
	}
	var members map[string]json.RawMessage
	if jsonx.Unmarshal(raw, &members) != nil {
		return nil
	}
	for name, value := range maps.All(members) {
		if exact, err := jsonx.Exact(value); err == nil {
			members[name] = exact
		}
	}
	return members
}

// AppOnly reports whether a tool is for user interfaces only; an unknown form hides nothing.
func AppOnly(t *mcp.Tool) bool {
	var ui struct {
		Visibility []string `json:"visibility"`
	}
	found, err := t.Meta.Get("ui", &ui)
	return found && err == nil && ui.Visibility != nil && !slices.Contains(ui.Visibility, "model")
}
