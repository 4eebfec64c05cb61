// gatewaylists.go: what the servers list, as the client sees it.

package expose

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/internal/schema"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// shelf is one kind of what servers have.
type shelf[D any] struct {
	last  map[string][]D               // the last good lists by server; guarded by the gateway's lock
	shown map[string][sha256.Size]byte // what is registered, by its public name; guarded by gateway.shelves
}

// shelvesOfAll are the shelves of a gateway.
type shelvesOfAll struct {
	tools     shelf[mcp.Tool]
	resources shelf[mcp.Resource]
	templates shelf[mcp.ResourceTemplate]
	prompts   shelf[mcp.Prompt]
}

func (s *shelvesOfAll) init() {
	s.tools.init()
	s.resources.init()
	s.templates.init()
	s.prompts.init()
}

func (s *shelf[D]) init() {
	s.last, s.shown = map[string][]D{}, map[string][sha256.Size]byte{}
}

// target is something of a server, by the server's own name for it.
type target struct{ server, own string }

// offer is one thing of a server as it goes to the client.
type offer[D any] struct {
	target
	public    string
	def       D    // with the public name
	completes bool // the server suggests values for it
}

// sum tells whether an offer is what is registered.
func (o *offer[D]) sum() ([sha256.Size]byte, error) {
	raw, err := mcp.Marshal(&o.def)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %t %s", o.server, o.own, o.completes, raw)), nil
}

// offers returns what the servers have of one kind, in the order of their configuration.
func offers[D any](g *gateway, s *shelf[D], own func(*D) string) []offer[D] {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []offer[D]
	for _, server := range g.order {
		completes := g.lanes[server].completes
		for _, def := range s.last[server] {
			all = append(all, offer[D]{target: target{server, own(&def)}, def: def, completes: completes})
		}
	}
	return all
}

// offerAll brings the client's server in step with what the servers have listed.
func (g *gateway) offerAll() {
	g.shelves.Lock()
	defer g.shelves.Unlock()
	if g.ctx.Err() != nil {
		return
	}
	resources := offers(g, &g.shelf.resources, func(r *mcp.Resource) string { return r.URI })
	templates := offers(g, &g.shelf.templates, func(t *mcp.ResourceTemplate) string { return t.URITemplate })
	book := g.newBook(resources, templates)
	g.book.Store(book)
	for i := range resources {
		o := &resources[i]
		o.public = book.listed(o.server, o.own)
		o.def.URI = o.public
	}
	for i := range templates {
		o := &templates[i]
		o.public = book.template(o.server, o.own)
		o.def.URITemplate = o.public
	}
	s := g.up.server
	s.ChangeLists(func() { // no client sees a part of what a server has
		show(g, "tool", &g.shelf.tools, g.toolOffers(), g.putTool, s.RemoveTools)
		show(g, "resource", &g.shelf.resources, resources, g.putResource, s.RemoveResources)
		show(g, "resource template", &g.shelf.templates, templates, g.putTemplate, s.RemoveTemplates)
		show(g, "prompt", &g.shelf.prompts, g.promptOffers(), g.putPrompt, s.RemovePrompts)
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.offered)
	g.offered = make(chan struct{})
}

// inStep returns what is closed when the client's lists are brought in step once more.
func (g *gateway) inStep() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.offered
}

// shows reports whether something of that name is on the client's list.
func shows[D any](g *gateway, s *shelf[D], name string) bool {
	g.shelves.Lock()
	defer g.shelves.Unlock()
	_, shown := s.shown[name]
	return shown
}

// newBook makes the book of what is offered.
func (g *gateway) newBook(resources []offer[mcp.Resource], templates []offer[mcp.ResourceTemplate]) *uriBook {
	listed := make([]mcpclient.Resource, len(resources))
	for i, o := range resources {
		listed[i] = mcpclient.Resource{Server: o.server, Resource: o.def}
	}
	patterns := make([]mcpclient.ResourceTemplate, len(templates))
	for i, o := range templates {
		patterns[i] = mcpclient.ResourceTemplate{Server: o.server, Template: o.def}
	}
	return newBook(g.order, listed, patterns) // order does not change after start
}

// show registers what is new or another one, and removes what is gone. What the client
// could not be given is left out, with a word in the log.
func show[D any](g *gateway, kind string, s *shelf[D], all []offer[D], put func(*offer[D]) error, remove func(...string)) {
	complain := func(o *offer[D], err error) {
		g.warn(kind, o.target, "leaving out what a server has", err)
	}
	there := make(map[string]bool, len(all))
	for i := range all {
		o := &all[i]
		if there[o.public] {
			complain(o, errors.New("another one has its name"))
			continue
		}
		sum, err := o.sum()
		if before, shown := s.shown[o.public]; err == nil && (!shown || before != sum) {
			err = put(o)
		}
		if err != nil {
			complain(o, err)
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

// shorten makes a foreign text fit for a log.
func shorten(s string) string { return s[:min(len(s), 200)] }

// toolOffers returns the tools under their public names.
func (g *gateway) toolOffers() []offer[mcp.Tool] {
	all := offers(g, &g.shelf.tools, func(t *mcp.Tool) string { return t.Name })
	names := make([]owned, len(all))
	for i, o := range all {
		names[i] = qualifiedTool(o.server, o.own)
	}
	for i, name := range publicNames(names, g.up.front.opts.Names, maxToolName, g.up.reserved, isToolName) {
		all[i].public, all[i].def.Name = name, name
	}
	return all
}

// promptOffers returns the prompts under their public names.
func (g *gateway) promptOffers() []offer[mcp.Prompt] {
	all := offers(g, &g.shelf.prompts, func(p *mcp.Prompt) string { return p.Name })
	names := make([]owned, len(all))
	for i, o := range all {
		names[i] = qualifiedPrompt(o.server, o.own)
	}
	for i, name := range publicNames(names, g.up.front.opts.Names, maxPromptName, g.up.reserved, isPromptName) {
		all[i].public, all[i].def.Name = name, name
	}
	return all
}

// putTool registers a tool. Everything goes as the server has it, but for what would
// make a strict client refuse the whole list, and for the need of a task: a call waits
// for the server's task whether the client has tasks or not (TASK-05). Whether arguments
// fit is for the server behind to say, so its input schema need not be one that can be
// checked here.
func (g *gateway) putTool(o *offer[mcp.Tool]) error {
	def := o.def
	input, changed, err := inputSchema(def.InputSchema)
	if err != nil {
		return fmt.Errorf("its input schema: %w", err)
	}
	if def.InputSchema = input; changed != "" {
		g.warn("tool", o.target, "offering a tool with a changed input schema", errors.New(changed))
	}
	if def.OutputSchema != nil {
		if err := compiles(def.OutputSchema); err != nil {
			g.warn("tool", o.target, "offering a tool without its output schema", err)
			def.OutputSchema = nil
		}
	}
	if def.Execution != nil && def.Execution.TaskSupport == mcp.TaskRequired {
		e := *def.Execution
		e.TaskSupport = mcp.TaskOptional
		def.Execution = &e
	}
	call := g.callTool(o.target)
	err = mcpserver.RelayTool(g.up.server, &def, call)
	if err != nil && (def.Icons != nil || def.Execution != nil) {
		def.Icons, def.Execution = nil, nil
		err = mcpserver.RelayTool(g.up.server, &def, call)
	}
	return err
}

// compiles reports what is wrong with a schema. It is bounded in time and size.
func compiles(raw []byte) error {
	_, err := schema.Compile(raw, nil)
	return err
}

// putResource registers a resource.
func (g *gateway) putResource(o *offer[mcp.Resource]) error {
	def, read := o.def, g.readResource(o.target)
	err := mcpserver.RelayResource(g.up.server, &def, read)
	if err != nil && (def.Icons != nil || def.Annotations != nil || def.Size != nil) {
		def.Icons, def.Annotations, def.Size = nil, nil, nil
		err = mcpserver.RelayResource(g.up.server, &def, read)
	}
	return err
}

// putTemplate registers a resource template.
func (g *gateway) putTemplate(o *offer[mcp.ResourceTemplate]) error {
	def, read := o.def, g.readTemplate(o.server, o.own == o.public)
	suggest := g.suggest(o.completes, o.server, mcp.CompletionRef{Type: mcp.RefResource, URI: o.own})
	err := mcpserver.RelayTemplate(g.up.server, &def, read, suggest)
	if err != nil && (def.Icons != nil || def.Annotations != nil) {
		def.Icons, def.Annotations = nil, nil
		err = mcpserver.RelayTemplate(g.up.server, &def, read, suggest)
	}
	return err
}

// putPrompt registers a prompt.
func (g *gateway) putPrompt(o *offer[mcp.Prompt]) error {
	def, get := o.def, g.getPrompt(o.target)
	suggest := g.suggest(o.completes, o.server, mcp.CompletionRef{Type: mcp.RefPrompt, Name: o.own})
	err := mcpserver.RelayPrompt(g.up.server, &def, get, suggest)
	if err != nil && def.Icons != nil {
		def.Icons = nil
		err = mcpserver.RelayPrompt(g.up.server, &def, get, suggest)
	}
	return err
}
