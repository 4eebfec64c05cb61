// Package skillmd reads SKILL.md files, the heads of Agent Skills
// (agentskills.io/specification), for those who serve them and those who load them
// over MCP (SEP-2640).
//
// Its input is hostile until checked: it is bounded in size, depth and number, and
// aliases of YAML cannot blow it up.
package skillmd

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// File is the name of the file that makes a folder a skill.
const File = "SKILL.md"

// The limits of the extension, which every host supports (SKILL-07).
const (
	MaxFiles = 512      // of a skill
	MaxBytes = 16 << 20 // of all its files
)

const (
	maxFrontmatter = 64 << 10
	maxValues      = 10_000
	maxDepth       = 50
)

// Digest is that of a file's bytes, as entries have it.
func Digest(file []byte) string {
	sum := sha256.Sum256(file)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// CheckName holds the name of a skill to the rules of Agent Skills (SKILL-04).
func CheckName(name string) error {
	bad := strings.ContainsFunc(name, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' })
	if name == "" || len(name) > 64 || bad || name[0] == '-' || name[len(name)-1] == '-' || strings.Contains(name, "--") {
		return fmt.Errorf("%.100q is not a name of a skill: 1 to 64 lowercase letters, digits and single hyphens between them", name)
	}
	return nil
}

// Root returns the URI of the folder of a skill, and the skill's name, which are known
// from the URI of its SKILL.md; false if that is not what it is.
func Root(uri string) (root, name string, ok bool) {
	root, ok = strings.CutSuffix(uri, "/"+File)
	_, rest, scheme := strings.Cut(root, "://")
	return root, path.Base(rest), ok && scheme && rest != "" && !strings.HasSuffix(rest, "/")
}

// Frontmatter returns the frontmatter of a SKILL.md as a JSON object with all its
// fields, in their order. It must have a name and a description (SKILL-03).
func Frontmatter(file []byte) (json.RawMessage, error) {
	text, err := cut(file)
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("reading the frontmatter: %w", err)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("the frontmatter is not a mapping of YAML")
	}
	w := writer{left: maxValues}
	w.value(doc.Content[0], 0)
	if w.err != nil {
		return nil, fmt.Errorf("reading the frontmatter: %w", w.err)
	}
	return w.out, check(w.out)
}

func check(front json.RawMessage) error {
	var fields map[string]any
	if err := jsonx.Unmarshal(front, &fields); err != nil {
		return fmt.Errorf("reading the frontmatter: %w", err)
	}
	for _, field := range []string{"name", "description"} {
		if s, ok := fields[field].(string); !ok || s == "" {
			return fmt.Errorf("the frontmatter has no %s", field)
		}
	}
	return nil
}

// cut returns the YAML between the two lines of three hyphens that a file begins with.
func cut(file []byte) ([]byte, error) {
	file = bytes.TrimPrefix(file, []byte("\ufeff"))
	first, rest, _ := bytes.Cut(file, []byte("\n"))
	if !isFence(first) {
		return nil, errors.New("the file does not begin with frontmatter")
	}
	for at := 0; at < len(rest) && at <= maxFrontmatter; {
		line, _, _ := bytes.Cut(rest[at:], []byte("\n"))
		if isFence(line) {
			return rest[:at], nil
		}
		at += len(line) + 1
	}
	return nil, fmt.Errorf("the frontmatter does not end within %d bytes", maxFrontmatter)
}

func isFence(line []byte) bool { return string(bytes.TrimRight(line, " \t\r")) == "---" }

// writer writes YAML as JSON.
type writer struct {
	out  []byte
	left int // values that may yet be written
	err  error
}

func (w *writer) fail(n *yaml.Node, format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("line %d: %s", n.Line, fmt.Sprintf(format, args...))
	}
}

func (w *writer) value(n *yaml.Node, depth int) {
	if w.left--; w.left < 0 || depth > maxDepth {
		w.fail(n, "more than %d values, or more than %d deep", maxValues, maxDepth)
	}
	if w.err != nil {
		return
	}
	switch n.Kind {
	case yaml.AliasNode:
		w.value(n.Alias, depth+1)
	case yaml.MappingNode:
		w.mapping(n, depth)
	case yaml.SequenceNode:
		w.out = append(w.out, '[')
		for i, item := range n.Content {
			if i > 0 {
				w.out = append(w.out, ',')
			}
			w.value(item, depth+1)
		}
		w.out = append(w.out, ']')
	default:
		w.scalar(n)
	}
}

func (w *writer) mapping(n *yaml.Node, depth int) {
	seen := make(map[string]bool, len(n.Content)/2)
	w.out = append(w.out, '{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || seen[key.Value] {
			w.fail(key, "a key that is no word, or is there twice: %.100q", key.Value)
			return
		}
		seen[key.Value] = true
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.json(key, key.Value)
		w.out = append(w.out, ':')
		w.value(n.Content[i+1], depth+1)
	}
	w.out = append(w.out, '}')
}

// scalar writes what JSON has too; the rest, such as dates, is the text that was
// written.
func (w *writer) scalar(n *yaml.Node) {
	var v any
	switch n.ShortTag() {
	case "!!null":
		w.out = append(w.out, "null"...)
		return
	case "!!bool", "!!int", "!!float":
		if err := n.Decode(&v); err != nil {
			w.fail(n, "%v", err)
			return
		}
		if f, ok := v.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
			w.fail(n, "%s is no number of JSON", n.Value)
			return
		}
	default:
		v = n.Value
	}
	w.json(n, v)
}

func (w *writer) json(n *yaml.Node, v any) {
	raw, err := jsonx.Marshal(v)
	if err != nil {
		w.fail(n, "%v", err)
		return
	}
	w.out = append(w.out, raw...)
}

// Same reports whether two frontmatters have the same fields with the same values
// (SKILL-14).
func Same(a, b json.RawMessage) bool {
	var x, y map[string]any
	return jsonx.Unmarshal(a, &x) == nil && jsonx.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
