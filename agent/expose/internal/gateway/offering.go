package gateway

import (
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/agent/expose/internal/hook"
	"github.com/troupe-dev/troupe/internal/schema"
	"github.com/troupe-dev/troupe/mcp"
)

// offer brings the client's server in step with the lists of the backends.
func (g *Gateway) offer() {
	l := &g.lists
	l.mu.Lock()
	defer l.mu.Unlock()
	if g.ctx.Err() != nil {
		return
	}
	resources, templates := offersOf(l, &l.resources), offersOf(l, &l.templates)
	book := newBook(l.order, targetsOf(resources), targetsOf(templates))
	g.uris.book.Store(book)
	rename(&l.resources, resources, func(i int) string { return book.listed(resources[i].target) })
	rename(&l.templates, templates, func(i int) string { return book.template(templates[i].target) })
	tools, prompts := offersOf(l, &l.tools), offersOf(l, &l.prompts)
	toolNames := publicNames(namesOf(tools, qualifiedTool), g.PlainNames, maxToolName, g.Reserved, isToolName)
	promptNames := publicNames(namesOf(prompts, qualifiedPrompt), g.PlainNames, maxPromptName, g.Reserved, isPromptName)
	rename(&l.tools, tools, func(i int) string { return toolNames[i] })
	rename(&l.prompts, prompts, func(i int) string { return promptNames[i] })
	s := g.server
	s.ChangeLists(func() { // the client sees no part of a backend's lists
		show(g, &l.tools, tools, g.putTool, s.RemoveTools)
		show(g, &l.resources, resources, g.putResource, s.RemoveResources)
		show(g, &l.templates, templates, g.putTemplate, s.RemoveTemplates)
		show(g, &l.prompts, prompts, g.putPrompt, s.RemovePrompts)
	})
	close(l.changed)
	l.changed = make(chan struct{})
}

func targetsOf[D any](all []offer[D]) []target {
	out := make([]target, len(all))
	for i := range all {
		out[i] = all[i].target
	}
	return out
}

func namesOf[D any](all []offer[D], qualify func(server, name string) owned) []owned {
	out := make([]owned, len(all))
	for i := range all {
		out[i] = qualify(all[i].server, all[i].own)
	}
	return out
}

// show registers new and changed items, and removes those that are gone. An item that cannot
// be registered is left out, with a warning.
func show[D any](g *Gateway, s *items[D], all []offer[D], put func(*offer[D]) error, remove func(...string)) {
	there := make(map[string]bool, len(all))
	for i := range all {
		o := &all[i]
		sum, err := o.sum()
		if there[o.public] {
			err = errors.New("another one has its name")
		} else if before, shown := s.shown[o.public]; err == nil && (!shown || before != sum) {
			err = put(o)
		}
		if err != nil {
			g.warn(s.kind, o.target, "leaving out an item of a server", err)
			continue
		}
		there[o.public], s.shown[o.public] = true, sum
	}
	var gone []string
	for name := range s.shown {
		if !there[name] {
			gone = append(gone, name)
			delete(s.shown, name)
		}
	}
	if len(gone) > 0 {
		remove(gone...)
	}
}

// register registers a definition, and once more without its optional parts if they are bad.
func register(put func() error, strip func()) error {
	err := put()
	if err != nil {
		strip()
		err = put()
	}
	return err
}

// putTool registers a tool. Its definition stays the backend's, with two exceptions: schemas
// for which strict clients refuse the whole list, and the need of a task, since a call waits
// for the backend's task whether the client has tasks or not (TASK-05). The backend checks
// arguments, so an input schema that cannot be checked here is fine.
func (g *Gateway) putTool(o *offer[mcp.Tool]) error {
	def := o.def
	input, changed, err := inputSchema(def.InputSchema)
	if err != nil {
		return fmt.Errorf("its input schema: %w", err)
	}
	if def.InputSchema = input; changed != "" {
		g.warn("tool", o.target, "offering a tool with a changed input schema", errors.New(changed))
	}
	if def.OutputSchema != nil {
		if _, err := schema.Compile(def.OutputSchema, nil); err != nil { // bounded in time and size
			g.warn("tool", o.target, "offering a tool without its output schema", err)
			def.OutputSchema = nil
		}
	}
	if def.Execution != nil && def.Execution.TaskSupport == mcp.TaskRequired {
		e := *def.Execution
		e.TaskSupport = mcp.TaskOptional
		def.Execution = &e
	}
	handler := g.callTool(o.target)
	return register(func() error { return hook.Server.RelayTool(g.server, &def, handler) },
		func() { def.Icons, def.Execution = nil, nil })
}

func (g *Gateway) putResource(o *offer[mcp.Resource]) error {
	def, handler := o.def, g.readResource(o.target)
	return register(func() error { return hook.Server.RelayResource(g.server, &def, handler) },
		func() { def.Icons, def.Annotations, def.Size = nil, nil, nil })
}

func (g *Gateway) putTemplate(o *offer[mcp.ResourceTemplate]) error {
	def, handler := o.def, g.readTemplate(o.server, o.own == o.public)
	suggest := g.suggest(o.completes, o.server, mcp.CompletionRef{Type: mcp.RefResource, URI: o.own})
	return register(func() error { return hook.Server.RelayTemplate(g.server, &def, handler, suggest) },
		func() { def.Icons, def.Annotations = nil, nil })
}

func (g *Gateway) putPrompt(o *offer[mcp.Prompt]) error {
	def, handler := o.def, g.getPrompt(o.target)
	suggest := g.suggest(o.completes, o.server, mcp.CompletionRef{Type: mcp.RefPrompt, Name: o.own})
	return register(func() error { return hook.Server.RelayPrompt(g.server, &def, handler, suggest) },
		func() { def.Icons = nil })
}
