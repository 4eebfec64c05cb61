package mcpclient

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/catalogue"
	"github.com/troupe-dev/troupe/mcpclient/internal/lists"
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
	// that a person does not see and a model does (PRM-06).
	Warnings []string
}

// shelf is the last good list of one kind of a server, guarded by the host's lock.
type shelf[T any] struct {
	items []T
	err   error // of the last listing
	read  bool  // there was a good one
}

// put takes what a listing came to and reports whether the list is another one.
func (s *shelf[T]) put(items []T, err error) bool {
	if s.err = err; err != nil {
		return false
	}
	if s.read && sameList(s.items, items) {
		return false
	}
	s.items, s.read = items, true
	return true
}

// sameList reports whether two lists are the very same.
func sameList[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// shelves says where lists of one kind are: with the client and in the host.
type shelves[T any] struct {
	list     func(*Client) *lists.List[T]
	shelf    func(*entry) *shelf[T]
	declared func(*mcp.ServerCapabilities) bool
	// prepare makes something of a new list that changed puts into the host, under its
	// lock: preparing takes a while. Both may be nil.
	prepare func(*entry, []T) any
	changed func(*entry, any)
}

var (
	toolShelves = shelves[mcp.Tool]{
		list:     func(c *Client) *lists.List[mcp.Tool] { return &c.cache.Tools },
		shelf:    func(e *entry) *shelf[mcp.Tool] { return &e.tools },
		declared: func(c *mcp.ServerCapabilities) bool { return c.Tools != nil },
	}
	resourceShelves = shelves[mcp.Resource]{
		list:     func(c *Client) *lists.List[mcp.Resource] { return &c.cache.Resources },
		shelf:    func(e *entry) *shelf[mcp.Resource] { return &e.resources },
		declared: func(c *mcp.ServerCapabilities) bool { return c.Resources != nil },
	}
	templateShelves = shelves[mcp.ResourceTemplate]{
		list:     func(c *Client) *lists.List[mcp.ResourceTemplate] { return &c.cache.Templates },
		shelf:    func(e *entry) *shelf[mcp.ResourceTemplate] { return &e.templates },
		declared: func(c *mcp.ServerCapabilities) bool { return c.Resources != nil },
	}
	promptShelves = shelves[mcp.Prompt]{
		list:     func(c *Client) *lists.List[mcp.Prompt] { return &c.cache.Prompts },
		shelf:    func(e *entry) *shelf[mcp.Prompt] { return &e.prompts },
		declared: func(c *mcp.ServerCapabilities) bool { return c.Prompts != nil },
	}
	skillShelves = shelves[mcp.Skill]{
		list:  func(c *Client) *lists.List[mcp.Skill] { return &c.cache.Skills },
		shelf: func(e *entry) *shelf[mcp.Skill] { return &e.skills },
		declared: func(c *mcp.ServerCapabilities) bool {
			_, ok := c.Extension(mcp.ExtensionSkills)
			return ok
		},
	}
)

// toolShelves are the tools of this host, which it makes a catalogue of.
func (h *Host) toolShelves() shelves[mcp.Tool] {
	s := toolShelves
	s.prepare = func(e *entry, tools []mcp.Tool) any {
		described := make([]Tool, len(tools))
		for i := range tools {
			described[i] = describe(&e.server, &tools[i])
		}
		return described
	}
	s.changed = func(e *entry, prepared any) {
		e.described = prepared.([]Tool)
		h.merge()
	}
	return s
}

// hopeless reports whether waiting for the server now is in vain.
func hopeless(s conn.Status) bool { return s.State == conn.Backoff && s.Failures >= 3 }

// gather fills the shelves of all servers, at once, within the host's ListTimeout.
// Servers that fail are left with their last good list. The error is the cause of
// ctx, or [ErrClosed].
func gather[T any](ctx context.Context, h *Host, s shelves[T], only ...string) error {
	if h.closed.Load() {
		return ErrClosed
	}
	limit, cancel := context.WithTimeout(ctx, h.opts.ListTimeout)
	defer cancel()
	var listings []*actors.Reply[struct{}]
	for _, e := range h.entries {
		c := e.client.Load()
		if c == nil || len(only) > 0 && !slices.Contains(only, e.server.Name) || hopeless(c.conn.Status()) || current(h, e, c, s) {
			continue
		}
		done := new(actors.Reply[struct{}])
		h.sys.Go("catalogue of "+e.server.Name, func() {
			defer done.Complete(struct{}{}, nil)
			fill(limit, h, e, s)
		})
		listings = append(listings, done)
	}
	for _, done := range listings {
		_, _ = done.Wait(ctx) // each ends by limit
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// current reports whether the shelf holds what the client would answer by itself.
func current[T any](h *Host, e *entry, c *Client, s shelves[T]) bool {
	var items []T
	if info := c.info.Load(); info == nil || s.declared(&info.Capabilities) {
		var ok bool
		if items, ok = s.list(c).Known(); !ok {
			return false
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	shelf := s.shelf(e)
	return shelf.err == nil && shelf.read && sameList(shelf.items, items)
}

// fill reads a list of one server and puts it on its shelf.
func fill[T any](ctx context.Context, h *Host, e *entry, s shelves[T]) {
	c := e.client.Load()
	items, err := readList(ctx, c, s)
	if err != nil {
		h.log.Warn("a list of a server is not known", "server", e.server.Name, "list", s.list(c).What, "error", err)
	}
	var prepared any
	if err == nil && s.prepare != nil && !holds(h, s.shelf(e), items) {
		prepared = s.prepare(e, items)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	shelf := s.shelf(e)
	if err == nil && prepared == nil && s.prepare != nil && !sameList(shelf.items, items) {
		return // another list has come meanwhile, and is as good
	}
	if shelf.put(items, err) && s.changed != nil {
		s.changed(e, prepared)
	}
}

// holds reports whether the very list is on the shelf.
func holds[T any](h *Host, shelf *shelf[T], items []T) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return shelf.read && sameList(shelf.items, items)
}

// readList returns a list of a server; one that the server does not have is empty.
func readList[T any](ctx context.Context, c *Client, s shelves[T]) ([]T, error) {
	info, err := c.Info(ctx)
	if err != nil || !s.declared(&info.Capabilities) {
		return nil, err
	}
	l := s.list(c)
	c.changes.wantFresh(l.Method)
	items, err := l.Get(ctx)
	if err != nil && errors.Is(err, mcp.ErrMethodNotFound) && l.Method == mcp.MethodListResourceTemplates {
		return nil, nil // servers with resources and without templates forget it
	}
	return items, err
}

// Resources returns the resources of all servers, sorted by server and URI. What
// it waits for, and what becomes of servers that fail, is as with [Host.Tools].
func (h *Host) Resources(ctx context.Context) ([]Resource, error) {
	if err := gather(ctx, h, resourceShelves); err != nil {
		return nil, err
	}
	return collect(h, func(e *entry) []Resource {
		out := make([]Resource, len(e.resources.items))
		for i, r := range e.resources.items {
			out[i] = Resource{Server: e.server.Name, Resource: r}
		}
		return out
	}, func(a, b Resource) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Resource.URI, b.Resource.URI))
	}), nil
}

// ResourceTemplates returns the resource templates of all servers, sorted by server
// and template. The rest is as with [Host.Resources].
func (h *Host) ResourceTemplates(ctx context.Context) ([]ResourceTemplate, error) {
	if err := gather(ctx, h, templateShelves); err != nil {
		return nil, err
	}
	return collect(h, func(e *entry) []ResourceTemplate {
		out := make([]ResourceTemplate, len(e.templates.items))
		for i, t := range e.templates.items {
			out[i] = ResourceTemplate{Server: e.server.Name, Template: t}
		}
		return out
	}, func(a, b ResourceTemplate) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Template.URITemplate, b.Template.URITemplate))
	}), nil
}

// Prompts returns the prompts of all servers, sorted by server and name. The rest
// is as with [Host.Resources].
func (h *Host) Prompts(ctx context.Context) ([]Prompt, error) {
	if err := gather(ctx, h, promptShelves); err != nil {
		return nil, err
	}
	return collect(h, func(e *entry) []Prompt {
		out := make([]Prompt, len(e.prompts.items))
		for i, p := range e.prompts.items {
			out[i] = Prompt{Server: e.server.Name, Prompt: p, Warnings: catalogue.HiddenInPrompt(&p)}
		}
		return out
	}, func(a, b Prompt) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Prompt.Name, b.Prompt.Name))
	}), nil
}

// collect puts together what the shelves hold.
func collect[T any](h *Host, of func(*entry) []T, compare func(a, b T) int) []T {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []T
	for _, e := range h.entries {
		all = append(all, of(e)...)
	}
	slices.SortFunc(all, compare)
	return all
}

// ReadResource reads a resource of a server; see [Client.ReadResource].
func (h *Host) ReadResource(ctx context.Context, server, uri string, opts *CallOptions) (*mcp.ReadResourceResult, error) {
	c, err := h.Client(server)
	if err != nil {
		return nil, err
	}
	return c.ReadResource(ctx, uri, opts)
}

// GetPrompt gets a prompt of a server; see [Client.GetPrompt].
func (h *Host) GetPrompt(ctx context.Context, server, name string, args map[string]string, opts *CallOptions) (*mcp.GetPromptResult, error) {
	c, err := h.Client(server)
	if err != nil {
		return nil, err
	}
	return c.GetPrompt(ctx, name, args, opts)
}

// Complete asks a server for completions; see [Client.Complete].
func (h *Host) Complete(ctx context.Context, server string, params *mcp.CompleteParams) (*mcp.Completion, error) {
	c, err := h.Client(server)
	if err != nil {
		return nil, err
	}
	return c.Complete(ctx, params)
}
