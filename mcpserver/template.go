package mcpserver

import (
	"context"
	"strings"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/offered"
)

// Vars are the variables of a URI template with their values in a URI: decoded strings, a
// []string for a list, a map[string]string for an exploded map. Variables that the URI
// leaves out are absent. The values come from the client: a handler that makes a file name or
// a query of one must check it.
type Vars map[string]any

// Get returns a variable, the items of a list with commas between them, and "" for one that
// is absent.
func (v Vars) Get(name string) string {
	if s, ok := v[name].(string); ok {
		return s
	}
	return strings.Join(v.List(name), ",")
}

// List returns a variable as a list, nil for one that is absent or a map.
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
	*offered.Template
	supply
	completers completers
}

func (t *template) name() string { return t.Def.URITemplate }

// AddTemplate adds a resource template (RFC 6570, all levels) with the handler that
// reads its resources; see [AddResource]. If a URI fits several templates, the server takes
// the one with the longest fixed part; a resource comes before all templates.
func AddTemplate[Out ResourceOut](s *Server, def *mcp.ResourceTemplate, read func(ctx context.Context, req *ResourceRequest, vars Vars) (Out, error), options ...EntryOption) error {
	return addTemplate(s, def, true, options, func(r *request, g *reading) (Out, error) {
		return read(r.context(), &ResourceRequest{Request{r}}, g.vars)
	})
}

// AddTemplateFunc adds a resource template as [AddTemplate] does, for a handler that
// needs nothing but the variables. If it is quick, it runs where the request is read.
func AddTemplateFunc[Out ResourceOut](s *Server, def *mcp.ResourceTemplate, read func(ctx context.Context, vars Vars) (Out, error), options ...EntryOption) error {
	return addTemplate(s, def, false, options, func(r *request, g *reading) (Out, error) { return read(r.context(), g.vars) })
}

func addTemplate[Out ResourceOut](s *Server, given *mcp.ResourceTemplate, takes bool, options []EntryOption, read func(*request, *reading) (Out, error)) error {
	checked, err := offered.NewTemplate(given)
	if err != nil {
		return err
	}
	t := &template{Template: checked}
	t.supply = supply{t.Def.MIMEType, takes, scopesOf(options), new(offered.Speed), resultOf(read)}
	return s.templates.Add(t)
}

// templateFor returns the template that a URI fits best, and its variables.
func (l *lists) templateFor(uri string) (*template, Vars) {
	var best *template
	var vars Vars
	for _, t := range l.templates.Now().All() {
		var other *offered.Template
		if best != nil {
			other = best.Template
		}
		if values, ok := t.Match(uri, other); ok {
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
