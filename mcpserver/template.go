package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/internal/uritemplate"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/registry"
)

// Vars are the variables of a URI template as a URI has them: decoded strings; a
// []string where a list stands, a map[string]string where an exploded map does.
// Those that the URI leaves out are not there. They come from the client: a handler
// that makes a file name or a query of one must look at it.
type Vars map[string]any

// Get returns a variable, the items of a list with commas between them, and "" for
// one that is not there.
func (v Vars) Get(name string) string {
	if s, ok := v[name].(string); ok {
		return s
	}
	return strings.Join(v.List(name), ",")
}

// List returns a variable as a list, nil for one that is not there or is a map.
func (v Vars) List(name string) []string {
	switch value := v[name].(type) {
	case string:
		return []string{value}
	case []string:
		return value
	}
	return nil
}

// template is a resource template with its handler and completions.
type template struct {
	def     *mcp.ResourceTemplate
	parsed  *uritemplate.Template
	prefix  string // what every URI of it begins with; maybe shorter
	literal int    // how much of it is no variable, in bytes
	supply
	completers completers
}

func (t *template) name() string { return t.def.URITemplate }

// AddTemplate adds a resource template (RFC 6570, all levels) with the handler that
// reads the resources it stands for; see [AddResource]. Of several that a URI fits,
// the one with the longest fixed part is read; a resource comes before all templates.
func AddTemplate[Out ResourceOut](s *Server, def *mcp.ResourceTemplate, read func(ctx context.Context, req *ResourceRequest, vars Vars) (Out, error)) error {
	return addTemplate(s, def, true, func(r *request, g *reading) (Out, error) {
		return read(r.context(), &ResourceRequest{Request{r}}, g.vars)
	})
}

// AddTemplateFunc adds a resource template as [AddTemplate] does, for a handler that
// needs nothing but the variables. If it is quick, it runs where the request is read.
func AddTemplateFunc[Out ResourceOut](s *Server, def *mcp.ResourceTemplate, read func(ctx context.Context, vars Vars) (Out, error)) error {
	return addTemplate(s, def, false, func(r *request, g *reading) (Out, error) { return read(r.context(), g.vars) })
}

func addTemplate[Out ResourceOut](s *Server, given *mcp.ResourceTemplate, takes bool, read func(*request, *reading) (Out, error)) error {
	t, err := newTemplate(given)
	if err != nil {
		return err
	}
	t.supply = supply{t.def.MIMEType, takes, new(speed), resultOf(read)}
	return s.templates.Add(t)
}

func newTemplate(given *mcp.ResourceTemplate) (*template, error) {
	if given == nil {
		return nil, errors.New("adding a resource template: it is nil")
	}
	def := *given
	t := &template{def: &def}
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

// templateFor returns the template that a URI fits best, and its variables. The time
// is linear in the length of the URI, which is bounded (SECA-10).
func (l *lists) templateFor(uri string) (*template, Vars) {
	var best *template
	var vars Vars
	for _, t := range l.templates.Now().All() {
		if best != nil && t.literal <= best.literal || !strings.HasPrefix(uri, t.prefix) {
			continue
		}
		if values, ok := t.parsed.Match(uri); ok {
			best, vars = t, values
		}
	}
	return best, vars
}

// with returns the template with another completion.
func (t *template) with(variable string, f completer) *template {
	c := *t
	c.completers = t.completers.with(variable, f)
	return &c
}
