package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/troupe-dev/troupe/internal/age"
	"github.com/troupe-dev/troupe/internal/nearest"
	"github.com/troupe-dev/troupe/llm"
)

// Bounds of a file.
const (
	maxEntries = 1000 // of one mapping or list
	maxText    = 8 << 10
)

// reader reads the nodes of one file, whatever they are about, and notes what is wrong with
// each.
type reader struct {
	file     string
	tolerant bool // keys that are not known are others', and no problem
	path     []string
	values   map[string]Value
	problems []Problem
}

// decoder reads the sections of a file.
type decoder struct{ reader }

// fail notes a problem at a node.
func (d *reader) fail(n *yaml.Node, format string, args ...any) {
	if len(d.problems) < maxProblems {
		d.problems = append(d.problems, Problem{File: d.file, Line: n.Line, Column: n.Column, Text: fmt.Sprintf(format, args...)})
	}
}

// fields are the keys of a mapping and what reads their values.
type fields map[string]func(*yaml.Node)

// object reads a mapping whose keys are known. A value that is null is as if it were not
// there.
func (d *reader) object(n *yaml.Node, known fields) {
	d.entries(n, func(key, value *yaml.Node) {
		read, ok := known[key.Value]
		if !ok && d.tolerant {
			return
		}
		if !ok {
			names := slices.Sorted(maps.Keys(known))
			if near := nearest.Name(key.Value, names); near != "" {
				d.fail(key, "unknown key %.40q: did you mean %q?", key.Value, near)
			} else {
				d.fail(key, "unknown key %.40q; known here are %s", key.Value, strings.Join(names, ", "))
			}
			return
		}
		if value.ShortTag() != "!!null" {
			read(value)
		}
	})
}

// entries calls f for each entry of a mapping.
func (d *reader) entries(n *yaml.Node, f func(key, value *yaml.Node)) {
	switch {
	case n.Kind != yaml.MappingNode:
		d.fail(n, "want a mapping, of keys and values, got %s", kind(n))
		return
	case len(n.Content) > 2*maxEntries:
		d.fail(n, "more than %d entries", maxEntries)
		return
	}
	seen := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch line, twice := seen[key.Value]; {
		case key.Kind != yaml.ScalarNode || key.Value == "" || len(key.Value) > maxText:
			d.fail(key, "a key is a text")
		case key.ShortTag() == "!!merge", value.Kind == yaml.AliasNode, key.Anchor != "", value.Anchor != "":
			d.fail(key, "anchors, aliases and merges are not taken: write it out")
		case twice:
			d.fail(key, "the key %.40q stands here again, after line %d", key.Value, line)
		default:
			seen[key.Value] = key.Line
			d.path = append(d.path, key.Value)
			d.remember(value)
			f(key, value)
			d.path = d.path[:len(d.path)-1]
		}
	}
}

// kind names what a node is, without its text.
func kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	}
	return "a text"
}

// scalar reports whether a node is a plain value, and complains if it is not.
func (d *reader) scalar(n *yaml.Node, want string) bool { return d.sized(n, want, maxText) }

// sized is scalar with another bound.
func (d *reader) sized(n *yaml.Node, want string, limit int) bool {
	tag := n.ShortTag()
	if strings.HasPrefix(tag, "!") && !strings.HasPrefix(tag, "!!") {
		d.fail(n, "tags are not taken")
		return false
	}
	if n.Kind != yaml.ScalarNode || tag == "!!null" || tag == "!!binary" || len(n.Value) > limit || n.Anchor != "" {
		d.fail(n, "want %s, got %s", want, kind(n))
		return false
	}
	return true
}

// text reads a text. Numbers and dates count as what is written: they may be names.
func (d *reader) text(out *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if !d.scalar(n, "a text") {
			return
		}
		if strings.ContainsFunc(n.Value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			d.fail(n, "the text has control characters")
			return
		}
		*out = n.Value
	}
}

// oneOf reads one of several words; none means "".
func (d *reader) oneOf(out *string, words ...string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		var got string
		d.text(&got)(n)
		switch {
		case got == "":
		case !slices.Contains(words, got):
			d.fail(n, "want one of %s, got %.40q", strings.Join(words, ", "), got)
		default:
			*out = got
		}
	}
}

// texts reads a list of texts, or one text as a list of one. The result is not nil.
func (d *reader) texts(out *[]string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		items := n.Content
		switch {
		case n.Kind == yaml.ScalarNode:
			items = []*yaml.Node{n}
		case n.Kind != yaml.SequenceNode:
			d.fail(n, "want a list of texts, got %s", kind(n))
			return
		case len(items) > maxEntries:
			d.fail(n, "more than %d entries", maxEntries)
			return
		}
		list := make([]string, 0, len(items))
		for _, item := range items {
			var s string
			if d.text(&s)(item); s != "" {
				list = append(list, s)
			}
		}
		*out = list
	}
}

// flag reads true or false.
func (d *reader) flag(out **bool) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
			d.fail(n, "want true or false, got %s", kind(n))
			return
		}
		v := strings.EqualFold(n.Value, "true")
		*out = &v
	}
}

// count reads a whole number from zero on.
func (d *reader) count(out *int) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if !d.scalar(n, "a number") {
			return
		}
		v, err := strconv.ParseInt(strings.ReplaceAll(n.Value, "_", ""), 10, 32)
		if err != nil || v < 0 {
			d.fail(n, "want a whole number from 0 to %d, got %.40q", math.MaxInt32, n.Value)
			return
		}
		*out = int(v)
	}
}

// number reads a number within bounds.
func (d *reader) number(least, most float64, set func(float64)) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if !d.scalar(n, "a number") {
			return
		}
		v, err := strconv.ParseFloat(n.Value, 64)
		if err != nil || !(v >= least && v <= most) {
			d.fail(n, "want a number from %g to %g, got %.40q", least, most, n.Value)
			return
		}
		set(v)
	}
}

// money reads an amount as it is written, without rounding.
func (d *reader) money(out *llm.Money) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if !d.scalar(n, "an amount of money") {
			return
		}
		v, err := llm.ParseMoney(n.Value)
		if err != nil {
			d.fail(n, "%v", err)
			return
		}
		*out = v
	}
}

// duration reads a time such as 10m.
func (d *reader) duration(out *time.Duration) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if !d.scalar(n, "a time such as 10m") {
			return
		}
		v, err := time.ParseDuration(n.Value)
		if err != nil || v <= 0 {
			d.fail(n, "want a time such as 90s or 10m, got %.40q", n.Value)
			return
		}
		*out = v
	}
}

// age reads a time such as 90d.
func (d *reader) age(out *time.Duration) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if !d.scalar(n, "a time such as 90d") {
			return
		}
		v, err := age.Parse(n.Value)
		if err != nil {
			d.fail(n, "%v", err)
			return
		}
		*out = v
	}
}

// yamlLine finds the line in an error of the YAML package.
var yamlLine = regexp.MustCompile(`^yaml: line (\d+): (.*)`)

// yamlName finds a name of the text in such an error: that of an anchor may be a key.
var yamlName = regexp.MustCompile(`'[^']*'`)

// syntax is the error for a text that is not YAML.
func syntax(file string, err error) *Error {
	if strings.Contains(err.Error(), "anchor") {
		err = errors.New(yamlName.ReplaceAllString(err.Error(), "of that name"))
	}
	p := Problem{File: file, Text: "not valid YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		p.Line, _ = strconv.Atoi(m[1]) // digits
		p.Column, p.Text = 1, "not valid YAML: "+m[2]
	}
	return &Error{Problems: []Problem{p}}
}

// maxInstructions bounds the instructions of an agent, in bytes.
const maxInstructions = 256 << 10

// own guards what a file may not say that comes with a project.
func (d *decoder) own(foreign bool, what string, read func(*yaml.Node)) func(*yaml.Node) {
	if !foreign {
		return read
	}
	return func(n *yaml.Node) {
		d.fail(n, "%s in a project's file counts only if you name the file (--config %s) or move it to your own", what, FileName)
	}
}

// name remembers that a file names a model.
func (d *decoder) name(c *Config, n *yaml.Node, name string, full bool) {
	if name != "" {
		c.refs = append(c.refs, ref{Problem{File: d.file, Line: n.Line, Column: n.Column}, name, full})
	}
}

// names does the same for a list.
func (d *decoder) names(c *Config, n *yaml.Node, list []string, full bool) {
	for i, name := range list {
		at := n
		if n.Kind == yaml.SequenceNode && i < len(n.Content) {
			at = n.Content[i]
		}
		d.name(c, at, name, full)
	}
}

// at is the place of a node as it is told.
func (d *reader) at(n *yaml.Node) string { return fmt.Sprintf("%s:%d", d.file, n.Line) }

// beside is where a file is that is named in this one.
func (d *reader) beside(name string) string {
	return besideFile(d.file, name)
}

// lines reads a text that may have several lines.
func (d *reader) lines(out *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if !d.sized(n, "a text", maxInstructions) {
			return
		}
		if strings.ContainsFunc(n.Value, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }) {
			d.fail(n, "the text has control characters")
			return
		}
		*out = n.Value
	}
}

// someOf reads a list of known words.
func (d *reader) someOf(out *[]string, words ...string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		d.texts(out)(n)
		for _, word := range *out {
			if !slices.Contains(words, word) {
				d.fail(n, "want some of %s, got %.40q", strings.Join(words, ", "), word)
			}
		}
	}
}

// secret reads what is to be kept secret: it consists of variables, see [decoder.apiKey].
func (d *reader) secret(out *Key) func(*yaml.Node) {
	return func(n *yaml.Node) {
		var text string
		d.text(&text)(n)
		if literal := variables.ReplaceAllString(text, "$3"); len(literal) >= minKey || strings.Contains(literal, "$") {
			d.fail(n, "secrets do not belong into this file: write ${NAME} for a variable of the environment")
			return
		}
		*out = NewKey(text)
	}
}

// variable reads the name of a variable of the environment.
func (d *reader) variable(out *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		d.text(out)(n)
		if *out != "" && !variableName.MatchString(*out) {
			d.fail(n, "want the name of a variable of the environment, not its value")
			*out = ""
		}
	}
}

// secretKey is the last part of a key whose value is a secret.
var secretKey = regexp.MustCompile(`(^|\.)(api_key|token|hook_secret|client_secret|headers\.[^.]+)$`)

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
	if n.Kind == yaml.MappingNode {
		var items []string
		for i := 0; i+1 < len(n.Content); i += 2 {
			items = append(items, n.Content[i].Value+": "+shown(key+"."+n.Content[i].Value, n.Content[i+1]))
		}
		return "{" + strings.Join(items, ", ") + "}"
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
