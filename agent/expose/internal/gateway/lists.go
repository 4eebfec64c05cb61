// lists.go: the lists of the backends, as the client sees them.

package gateway

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"github.com/troupe-dev/troupe/agent/expose/internal/hook"
	"github.com/troupe-dev/troupe/internal/schema"
	"github.com/troupe-dev/troupe/mcp"
)

// lists are the last good lists of all backends, and what of them is registered.
type lists struct {
	// mu guards all fields and shelves, and is held while items are registered: the tasks of
	// backends take turns. Requests that look for a name wait for that, as they must.
	mu        sync.Mutex
	order     []string        // of the backends in the configuration
	completes map[string]bool // whether a backend has completions
	changed   chan struct{}   // closed, and replaced, when the client's lists were brought in step

	tools     shelf[mcp.Tool]
	resources shelf[mcp.Resource]
	templates shelf[mcp.ResourceTemplate]
	prompts   shelf[mcp.Prompt]
}

// shelf is one kind of item.
type shelf[D any] struct {
	kind  string
	key   func(*D) *string             // the name or URI
	last  map[string][]D               // the last good lists, by backend
	shown map[string][sha256.Size]byte // what is registered, by public name
}

func newShelf[D any](kind string, key func(*D) *string) shelf[D] {
	return shelf[D]{kind, key, map[string][]D{}, map[string][sha256.Size]byte{}}
}

func (l *lists) init() {
	l.completes, l.changed = map[string]bool{}, make(chan struct{})
	l.tools = newShelf("tool", func(t *mcp.Tool) *string { return &t.Name })
	l.resources = newShelf("resource", func(r *mcp.Resource) *string { return &r.URI })
	l.templates = newShelf("resource template", func(t *mcp.ResourceTemplate) *string { return &t.URITemplate })
	l.prompts = newShelf("prompt", func(p *mcp.Prompt) *string { return &p.Name })
}

// put changes lists under the lock.
func (l *lists) put(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

func (l *lists) setOrder(order []string) { l.put(func() { l.order = order }) }

func (l *lists) setCompletes(server string, completes bool) {
	l.put(func() { l.completes[server] = completes })
}

func (l *lists) nextChange() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// isShown reports whether an item of that name is registered.
func isShown[D any](l *lists, s *shelf[D], name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, shown := s.shown[name]
	return shown
}

// target is an item of a backend, by the backend's own name or URI.
type target struct{ server, own string }

// offer is one item of a backend as it goes to the client.
type offer[D any] struct {
	target
	public    string
	def       D    // with the public name
	completes bool // the backend has completions
}

// sum identifies what an offer registers.
func (o *offer[D]) sum() ([sha256.Size]byte, error) {
	raw, err := mcp.Marshal(&o.def)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %t %s", o.server, o.own, o.completes, raw)), nil
}

// offersOf returns the items of one kind, in the order of the configuration. The caller holds mu.
func offersOf[D any](l *lists, s *shelf[D]) []offer[D] {
	var all []offer[D]
	for _, server := range l.order {
		for _, def := range s.last[server] {
			all = append(all, offer[D]{target: target{server, *s.key(&def)}, def: def, completes: l.completes[server]})
		}
	}
	return all
}

// rename gives each offer its public name.
func rename[D any](s *shelf[D], all []offer[D], name func(i int) string) {
	for i := range all {
		o := &all[i]
		o.public = name(i)
		*s.key(&o.def) = o.public
	}
}

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
func show[D any](g *Gateway, s *shelf[D], all []offer[D], put func(*offer[D]) error, remove func(...string)) {
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

// putTool registers a tool. Its definition stays the backend's, with two exceptions: what makes
// strict clients refuse the whole list, and the need of a task, since a call waits for the
// backend's task whether the client has tasks or not (TASK-05). The backend checks arguments,
// so an input schema that cannot be checked here is fine.
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
