package offered

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/internal/uritemplate"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/registry"
)

// Template is the definition of a resource template.
type Template struct {
	Def     *mcp.ResourceTemplate
	parsed  *uritemplate.Template
	prefix  string // what every URI of it begins with; maybe shorter
	literal int    // how much of it is no variable, in bytes
}

// NewTemplate checks a resource template.
func NewTemplate(given *mcp.ResourceTemplate) (*Template, error) {
	if given == nil {
		return nil, errors.New("adding a resource template: it is nil")
	}
	def := *given
	t := &Template{Def: &def}
	var err error
	if t.parsed, err = uritemplate.Parse(def.URITemplate); err == nil {
		err = errors.Join(def.Validate(), registry.CheckDescribed(def.Icons, def.Annotations))
	}
	if err != nil {
		return nil, fmt.Errorf("adding the resource template %q: %w", def.URITemplate, err)
	}
	prefix, _, _ := strings.Cut(def.URITemplate, "{")
	if scheme, _, ok := strings.Cut(prefix, ":"); !ok || !registry.IsScheme(strings.ToLower(scheme)) { // RES-07
		return nil, fmt.Errorf("adding the resource template %q: it has no fixed scheme", def.URITemplate)
	}
	if !strings.ContainsFunc(prefix, func(r rune) bool { return r >= utf8.RuneSelf }) { // the others are encoded first
		t.prefix = prefix
	}
	for rest := def.URITemplate; rest != ""; {
		literal, after, _ := strings.Cut(rest, "{")
		t.literal += len(literal)
		_, rest, _ = strings.Cut(after, "}")
	}
	return t, nil
}

// Variables returns the names of the variables.
func (t *Template) Variables() []string { return t.parsed.Names() }

// Has reports whether the template has a variable.
func (t *Template) Has(variable string) bool { return slices.Contains(t.parsed.Names(), variable) }

// Match returns the variables of a URI, if it fits the template better than another one, which
// may be nil: with a longer fixed part. The time is linear in the length of the URI, which is bounded
// (SECA-10).
func (t *Template) Match(uri string, other *Template) (vars map[string]any, ok bool) {
	if other != nil && t.literal <= other.literal || !strings.HasPrefix(uri, t.prefix) {
		return nil, false
	}
	return t.parsed.Match(uri)
}
