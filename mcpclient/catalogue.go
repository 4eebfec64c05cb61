package mcpclient

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/catalogue"
	"github.com/troupe-dev/troupe/mcpclient/internal/gathering"
)

// Resource is one resource of a host's servers.
type Resource struct {
	Server   string // its name in the configuration
	Resource mcp.Resource
}

// ResourceTemplate is one resource template of a host's servers.
type ResourceTemplate struct {
	Server   string
	Template mcp.ResourceTemplate
}

// Prompt is one prompt of a host's servers.
type Prompt struct {
	Server string
	Prompt mcp.Prompt
	// Warnings say what is odd about the prompt's description, in words: characters
	// that a person does not see and a model does.
	Warnings []string
}

// kindOf says how the lists of a kind are gathered.
func kindOf[T any](k listKind[T]) gathering.Kind[*entry, T] {
	return gathering.Kind[*entry, T]{
		Name: k.name, Last: k.last,
		Known: func(e *entry) (items []T, ok bool) {
			c := e.client.Load()
			if c == nil { // it could not be started
				return nil, false
			}
			if info := c.info.Load(); info == nil || k.declared(&info.Capabilities) {
				return k.list(c).Known()
			}
			return nil, true
		},
		Read: func(ctx context.Context, e *entry) ([]T, error) { return readList(ctx, e.client.Load(), k) },
	}
}

// newGatherer prepares the host for the lists of its servers. Of the tools it makes a catalogue.
func (h *Host) newGatherer() {
	h.lists = gathering.Gatherer[*entry]{
		Servers: h.entries, Name: func(e *entry) string { return e.server.Name }, Limit: h.opts.ListTimeout, Go: h.sys.Go, Log: h.log,
		Skip: func(e *entry) bool {
			c := e.client.Load()
			return c == nil || hopeless(c.conn.Status())
		},
	}
	h.tools = kindOf(toolLists)
	h.tools.Prepare = func(e *entry, tools []mcp.Tool) any {
		described := make([]Tool, len(tools))
		for i := range tools {
			described[i] = describe(&e.server, &tools[i])
		}
		return described
	}
}

// hopeless reports whether waiting for the server now is in vain.
func hopeless(s conn.Status) bool { return s.State == conn.Backoff && s.Failures >= 3 }

// listed returns what all servers have of a kind, sorted by server and key.
func listed[T, O any](ctx context.Context, h *Host, k listKind[T], key func(*T) string, of func(server string, item T) O) ([]O, error) {
	if h.closed.Load() {
		return nil, ErrClosed
	}
	return gathering.Listed(ctx, &h.lists, kindOf(k), key, of)
}

// Resources returns the resources of all servers, sorted by server and URI. What
// it waits for, and what becomes of servers that fail, is as with [Host.Tools].
func (h *Host) Resources(ctx context.Context) ([]Resource, error) {
	return listed(ctx, h, resourceLists, func(r *mcp.Resource) string { return r.URI },
		func(server string, r mcp.Resource) Resource { return Resource{Server: server, Resource: r} })
}

// ResourceTemplates returns the resource templates of all servers, sorted by server
// and template. The rest is as with [Host.Resources].
func (h *Host) ResourceTemplates(ctx context.Context) ([]ResourceTemplate, error) {
	return listed(ctx, h, templateLists, func(t *mcp.ResourceTemplate) string { return t.URITemplate },
		func(server string, t mcp.ResourceTemplate) ResourceTemplate {
			return ResourceTemplate{Server: server, Template: t}
		})
}

// Prompts returns the prompts of all servers, sorted by server and name. The rest
// is as with [Host.Resources].
func (h *Host) Prompts(ctx context.Context) ([]Prompt, error) {
	return listed(ctx, h, promptLists, func(p *mcp.Prompt) string { return p.Name },
		func(server string, p mcp.Prompt) Prompt {
			return Prompt{Server: server, Prompt: p, Warnings: catalogue.HiddenInPrompt(&p)}
		})
}

// describe makes a catalogue entry of a tool. Its name is given later, by those
// beside it.
func describe(s *Server, t *mcp.Tool) Tool {
	d := Tool{Server: s.Name, Tool: *t, Trusted: s.Trusted, Hash: catalogue.Hash(t), AppOnly: catalogue.AppOnly(t)}
	d.Warnings = catalogue.Hidden(t)
	return d
}

func keysOf(tools []Tool) []catalogue.Key {
	keys := make([]catalogue.Key, len(tools))
	for i := range tools {
		keys[i] = catalogue.Key{Server: tools[i].Server, Tool: tools[i].Tool.Name}
	}
	return keys
}

// qualify gives every tool its name, and sorts them by it.
func qualify(tools []Tool) {
	for i, name := range catalogue.Names(keysOf(tools)) {
		tools[i].Name = name
	}
	slices.SortFunc(tools, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
}

// flagLookAlikes warns of tools whose names look like those of others (SECA-39).
func flagLookAlikes(tools []Tool) {
	for i, warning := range catalogue.LookAlikes(keysOf(tools)) {
		if warning != "" {
			tools[i].Warnings = append(slices.Clip(tools[i].Warnings), warning)
		}
	}
}

func (c *toolCatalogue) find(name string) *Tool {
	i, ok := slices.BinarySearchFunc(c.tools, name, func(t Tool, name string) int { return cmp.Compare(t.Name, name) })
	if !ok {
		return nil
	}
	return &c.tools[i]
}

// own finds a tool by its server's own name for it.
func (c *toolCatalogue) own(server, name string) *Tool {
	for _, tools := range c.of {
		for i := range tools {
			if t := &tools[i]; t.Server == server && t.Tool.Name == name {
				return t
			}
		}
	}
	return nil
}

// relist reads a list that has changed, if it was ever asked for, and reports that.
func relist[T any](h *Host, e *entry, k gathering.Kind[*entry, T], event Event) {
	gathering.Refresh(&h.lists, e, k, event.ToolsChanged)
	if c := e.client.Load(); c != nil && h.opts.OnEvent != nil {
		event.Server, event.Status = e.server.Name, c.Status()
		h.opts.OnEvent(event)
	}
}

// catalogue returns the tools of all servers as they are known now. It is made anew if a list has
// changed since.
func (h *Host) catalogue() *toolCatalogue {
	for {
		before := h.names.Load()
		if before != nil && before.isOf(h.entries) {
			return before
		}
		next := &toolCatalogue{of: make([][]Tool, len(h.entries))}
		for i, e := range h.entries {
			next.of[i] = e.described()
		}
		next.tools = slices.Concat(next.of...)
		qualify(next.tools)
		flagLookAlikes(next.tools)
		h.names.CompareAndSwap(before, next) // else another is made, and all callers get the same one
	}
}

// isOf reports whether the catalogue was made of the newest lists.
func (c *toolCatalogue) isOf(entries []*entry) bool {
	for i, e := range entries {
		if !gathering.Same(c.of[i], e.described()) {
			return false
		}
	}
	return true
}

// Tools returns the merged catalogue, sorted by name, connecting to servers where
// that was not done yet. Servers that fail, or do not answer in time, are left
// with their last good list: [Host.Servers] tells of them. The error is the cause
// of ctx, or [ErrClosed]. The caller must not change what is returned.
func (h *Host) Tools(ctx context.Context) ([]Tool, error) {
	return h.ToolsOf(ctx)
}

// ToolsOf is [Host.Tools] for those who need only these servers: it neither connects to
// others nor waits for them. What is known of those is returned too. No names are all.
func (h *Host) ToolsOf(ctx context.Context, servers ...string) ([]Tool, error) {
	if h.closed.Load() {
		return nil, ErrClosed
	}
	if err := gathering.Gather(ctx, &h.lists, h.tools, servers...); err != nil {
		return nil, err
	}
	return h.catalogue().tools, nil
}

// Known returns the catalogue as it is known now, sorted by name: unlike [Host.Tools] it
// neither connects nor waits. The caller must not change what is returned.
func (h *Host) Known() []Tool {
	return h.catalogue().tools
}

// Lookup returns the entry of the catalogue as it is known now.
func (h *Host) Lookup(name string) (Tool, bool) {
	if t := h.catalogue().find(name); t != nil {
		return *t, true
	}
	return Tool{}, false
}
