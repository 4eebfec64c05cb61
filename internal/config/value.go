package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Value is one value of the files as they have it, to be shown: secrets are masked.
type Value struct {
	Key  string // such as limits.steps
	Text string
	// File is empty where no file says it.
	File         string
	Line, Column int
}

// Origin is where the value comes from.
func (v *Value) Origin() string {
	if v.File == "" {
		return "default"
	}
	return fmt.Sprintf("%s:%d", v.File, v.Line)
}

// secretKey is the last part of a key whose value is a secret.
var secretKey = regexp.MustCompile(`(^|\.)(api_key|token|hook_secret|headers\.[^.]+)$`)

// remember notes the value that the path leads to.
func (d *reader) remember(n *yaml.Node) {
	if n.Kind == yaml.MappingNode || n.ShortTag() == "!!null" {
		return
	}
	if d.values == nil {
		d.values = make(map[string]Value)
	}
	key := strings.Join(d.path, ".")
	d.values[key] = Value{Key: key, Text: shown(key, n), File: d.file, Line: n.Line, Column: n.Column}
}

// shown is a value as it may be shown. Of a secret only the variables are, of a URL
// nothing that may have one in it.
func shown(key string, n *yaml.Node) string {
	if n.Kind == yaml.SequenceNode {
		var items []string
		for _, item := range n.Content {
			items = append(items, shown(key, item))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	text := n.Value
	if n.Kind != yaml.ScalarNode {
		return "..."
	}
	if secretKey.MatchString(key) {
		if hasLiteral(text) {
			return masked
		}
		return text
	}
	if before, _, ok := strings.Cut(text, "?"); ok && strings.Contains(before, "://") {
		return before + "?" + masked
	}
	return text
}

// hasLiteral reports whether more than names of variables stands in a text.
func hasLiteral(text string) bool { return variables.ReplaceAllString(text, "$3") != "" }

// Values are all that the files say and that counts, sorted by key.
func (c *Config) Values() []Value {
	return slices.SortedFunc(maps.Values(c.values), func(a, b Value) int { return strings.Compare(a.Key, b.Key) })
}

// Value returns what the files say under a key.
func (c *Config) Value(key string) (Value, bool) {
	v, ok := c.values[key]
	return v, ok
}

// problemAt is a problem with the value of a key.
func (c *Config) problemAt(key, format string, args ...any) Problem {
	v := c.values[key]
	return Problem{File: v.File, Line: v.Line, Column: v.Column, Text: fmt.Sprintf(format, args...)}
}
