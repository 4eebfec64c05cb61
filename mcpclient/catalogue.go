package mcpclient

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

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

// lastList is the last good list of one kind of a server, guarded by the host's lock.
type lastList[T any] struct {
	items []T
	err   error // of the last listing
	read  bool  // there was a good one
}

// put takes what a listing came to and reports whether the list is another one.
func (s *lastList[T]) put(items []T, err error) bool {
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

// listKind says where the lists of one kind are: with the client and in the host.
type listKind[T any] struct {
	list     func(*Client) *lists.List[T]
	last     func(*entry) *lastList[T]
	declared func(*mcp.ServerCapabilities) bool
	// prepare makes something of a new list that changed puts into the host, under its
	// lock: preparing takes a while. Both may be nil.
	prepare func(*entry, []T) any
	changed func(*entry, any)
}

var (
	toolLists = listKind[mcp.Tool]{
		list:     func(c *Client) *lists.List[mcp.Tool] { return &c.cache.Tools },
		last:     func(e *entry) *lastList[mcp.Tool] { return &e.tools },
		declared: func(c *mcp.ServerCapabilities) bool { return c.Tools != nil },
	}
	resourceLists = listKind[mcp.Resource]{
		list:     func(c *Client) *lists.List[mcp.Resource] { return &c.cache.Resources },
		last:     func(e *entry) *lastList[mcp.Resource] { return &e.resources },
		declared: func(c *mcp.ServerCapabilities) bool { return c.Resources != nil },
	}
	templateLists = listKind[mcp.ResourceTemplate]{
		list:     func(c *Client) *lists.List[mcp.ResourceTemplate] { return &c.cache.Templates },
		last:     func(e *entry) *lastList[mcp.ResourceTemplate] { return &e.templates },
		declared: func(c *mcp.ServerCapabilities) bool { return c.Resources != nil },
	}
	promptLists = listKind[mcp.Prompt]{
		list:     func(c *Client) *lists.List[mcp.Prompt] { return &c.cache.Prompts },
		last:     func(e *entry) *lastList[mcp.Prompt] { return &e.prompts },
		declared: func(c *mcp.ServerCapabilities) bool { return c.Prompts != nil },
	}
	skillLists = listKind[mcp.Skill]{
		list: func(c *Client) *lists.List[mcp.Skill] { return &c.cache.Skills },
		last: func(e *entry) *lastList[mcp.Skill] { return &e.skills },
		declared: func(c *mcp.ServerCapabilities) bool {
			_, ok := c.Extension(mcp.ExtensionSkills)
			return ok
		},
	}
)

// toolLists are the tools of this host, which it makes a catalogue of.
func (h *Host) toolLists() listKind[mcp.Tool] {
	s := toolLists
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

// gather reads the lists of all servers, at once, within the host's ListTimeout.
// Servers that fail are left with their last good list. The error is the cause of
// ctx, or [ErrClosed].
func gather[T any](ctx context.Context, h *Host, k listKind[T], only ...string) error {
	if h.closed.Load() {
		return ErrClosed
	}
	limit, cancel := context.WithTimeout(ctx, h.opts.ListTimeout)
	defer cancel()
	var listings []*actors.Reply[struct{}]
	for _, e := range h.entries {
		c := e.client.Load()
		if c == nil || len(only) > 0 && !slices.Contains(only, e.server.Name) || hopeless(c.conn.Status()) || current(h, e, c, k) {
			continue
		}
		done := new(actors.Reply[struct{}])
		h.sys.Go("catalogue of "+e.server.Name, func() {
			defer done.Complete(struct{}{}, nil)
			fill(limit, h, e, k)
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

// current reports whether the last list is what the client would answer by itself.
func current[T any](h *Host, e *entry, c *Client, k listKind[T]) bool {
	var items []T
	if info := c.info.Load(); info == nil || k.declared(&info.Capabilities) {
		var ok bool
		if items, ok = k.list(c).Known(); !ok {
			return false
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	last := k.last(e)
	return last.err == nil && last.read && sameList(last.items, items)
}

// fill reads a list of one server and keeps it.
func fill[T any](ctx context.Context, h *Host, e *entry, k listKind[T]) {
	c := e.client.Load()
	items, err := readList(ctx, c, k)
	if err != nil {
		h.log.Warn("a list of a server is not known", "server", e.server.Name, "list", k.list(c).What, "error", err)
	}
	var prepared any
	if err == nil && k.prepare != nil && !holds(h, k.last(e), items) {
		prepared = k.prepare(e, items)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	last := k.last(e)
	if err == nil && prepared == nil && k.prepare != nil && !sameList(last.items, items) {
		return // another list has come meanwhile, and is as good
	}
	if last.put(items, err) && k.changed != nil {
		k.changed(e, prepared)
	}
}

// holds reports whether it is the very list that is kept.
func holds[T any](h *Host, last *lastList[T], items []T) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return last.read && sameList(last.items, items)
}

// readList returns a list of a server; one that the server does not have is empty.
func readList[T any](ctx context.Context, c *Client, k listKind[T]) ([]T, error) {
	info, err := c.Info(ctx)
	if err != nil || !k.declared(&info.Capabilities) {
		return nil, err
	}
	l := k.list(c)
	c.changes.wantFresh(l.Method)
	items, err := l.Get(ctx)
	if err != nil && errors.Is(err, mcp.ErrMethodNotFound) && l.Method == mcp.MethodListResourceTemplates {
		return nil, nil // servers with resources and without templates forget it
	}
	return items, err
}

// listed returns what all servers have of a kind, sorted by server and key.
func listed[T, O any](ctx context.Context, h *Host, k listKind[T], key func(*T) string, of func(server string, item T) O) ([]O, error) {
	if err := gather(ctx, h, k); err != nil {
		return nil, err
	}
	entries := slices.SortedFunc(slices.Values(h.entries), func(a, b *entry) int { return cmp.Compare(a.server.Name, b.server.Name) })
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []O
	for _, e := range entries {
		items := slices.Clone(k.last(e).items)
		slices.SortFunc(items, func(a, b T) int { return cmp.Compare(key(&a), key(&b)) })
		for _, item := range items {
			all = append(all, of(e.server.Name, item))
		}
	}
	return all, nil
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

// Tool is one entry of the merged catalogue.
type Tool struct {
	Server  string   // its name in the configuration
	Name    string   // server__tool: at most 64 characters of [A-Za-z0-9_-]
	Tool    mcp.Tool // as the server describes it, with its own name
	Trusted bool     // the user trusts the server's hints
	// Hash identifies the definition: see [HashTool]. Never empty.
	Hash string
	// Warnings say what is odd about the tool, in words: hidden characters (SECA-37), a
	// name that looks like another's (SECA-39).
	Warnings []string
	// AppOnly says that the tool is for the server's own user interfaces (_meta.ui.visibility
	// does not name the model): no model is offered it (APP-05).
	AppOnly bool
}

// DisplayName returns what to call the tool before people: title, annotated title or
// name (TOOL-18), as the server has it. Several tools may have the same.
func (t *Tool) DisplayName() string { return t.Tool.DisplayName() }

// describe makes a catalogue entry of a tool. Its name is given later, by those
// beside it.
func describe(s *Server, t *mcp.Tool) Tool {
	d := Tool{Server: s.Name, Tool: *t, Trusted: s.Trusted, Hash: catalogue.Hash(t), AppOnly: catalogue.AppOnly(t)}
	if d.Hash == "" { // it cannot be written as canonical JSON: pinned by its own text
		sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{t.Name, t.Title, t.Description, string(t.InputSchema), string(t.OutputSchema)}))
		d.Hash = "raw-" + hex.EncodeToString(sum[:])
	}
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
