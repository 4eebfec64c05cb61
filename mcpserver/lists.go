// lists.go: the entries of a server, and the methods that list them.

package mcpserver

import (
	"errors"
	"maps"
	"sync/atomic"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/registry"
	"github.com/troupe-dev/troupe/mcpserver/internal/skills"
	"github.com/troupe-dev/troupe/mcpserver/internal/subscriptions"
)

// Errors of adding and of referring to entries.
var (
	// ErrToolExists is returned by AddTool for a name that another tool has.
	ErrToolExists = errors.New("mcpserver: another tool has this name")
	// ErrExists is returned for a resource, template, prompt or skill that was added before.
	ErrExists = errors.New("mcpserver: it was added before")
	// ErrUnknown is returned for a completion of a prompt, template or argument that the server does not have.
	ErrUnknown = errors.New("mcpserver: unknown prompt, template or argument")
)

// lists are the tools, resources, templates, prompts and skills of a server.
type lists struct {
	tools     *registry.List[*tool]
	resources *registry.List[*resource]
	templates *registry.List[*template]
	prompts   *registry.List[*prompt]
	skills    *registry.List[*skills.Skill]

	declareAll bool        // capabilities are declared for empty lists, too
	suggests   atomic.Bool // an argument has a completion
	asTasks    atomic.Bool // there are, or were, tools that may be tasks
}

// completer makes suggestions for one argument.
type completer func(r *request) (mcp.Completion, error)

// completers are the completions of a prompt or template, by the argument. A map never
// changes: another one takes its place.
type completers map[string]completer

func (c completers) with(argument string, f completer) completers {
	all := make(completers, len(c)+1)
	maps.Copy(all, c)
	all[argument] = f
	return all
}

func (l *lists) hasTools() bool { return l.declareAll || l.tools.Declared() }
func (l *lists) hasResources() bool {
	return l.declareAll || l.resources.Declared() || l.templates.Declared()
}
func (l *lists) hasPrompts() bool { return l.declareAll || l.prompts.Declared() }

// hasTasks reports whether the server has tasks (TASK-01, TASK-20).
func (l *lists) hasTasks() bool { return l.asTasks.Load() }

// hasSkills reports whether the Skills extension is declared: it is off until the
// first skill (EXT-02).
func (l *lists) hasSkills() bool      { return l.skills.Declared() }
func (l *lists) hasCompletions() bool { return l.declareAll || l.suggests.Load() }

// init makes the lists, which are empty.
func (l *lists) init(paging *registry.Paging, changed func(subscriptions.List)) {
	tools := func() { changed(subscriptions.Tools) }
	prompts := func() { changed(subscriptions.Prompts) }
	resources := func() { changed(subscriptions.Resources) }
	l.tools = registry.New(registry.Options[*tool]{
		Kind: "tool", Key: (*tool).name, Taken: ErrToolExists, Changed: tools, Paging: paging,
		Page: func(all []*tool, p registry.PageInfo) any {
			return &mcp.ListToolsResult{
				Tools:      definitions(all, func(t *tool) mcp.Tool { return *t.Def }),
				NextCursor: p.Next, TTLMs: p.TTL, CacheScope: p.Scope,
			}
		},
	})
	l.resources = registry.New(registry.Options[*resource]{
		Kind: "resource", Key: (*resource).name, Taken: ErrExists, Changed: resources, Paging: paging,
		Page: func(all []*resource, p registry.PageInfo) any {
			return &mcp.ListResourcesResult{
				Resources:  definitions(all, func(r *resource) mcp.Resource { return *r.def }),
				NextCursor: p.Next, TTLMs: p.TTL, CacheScope: p.Scope,
			}
		},
	})
	l.templates = registry.New(registry.Options[*template]{
		Kind: "resource template", Key: (*template).name, Taken: ErrExists, Changed: resources, Paging: paging,
		Page: func(all []*template, p registry.PageInfo) any {
			return &mcp.ListResourceTemplatesResult{
				ResourceTemplates: definitions(all, func(t *template) mcp.ResourceTemplate { return *t.Def }),
				NextCursor:        p.Next, TTLMs: p.TTL, CacheScope: p.Scope,
			}
		},
	})
	l.prompts = registry.New(registry.Options[*prompt]{
		Kind: "prompt", Key: (*prompt).name, Taken: ErrExists, Changed: prompts, Paging: paging,
		Page: func(all []*prompt, p registry.PageInfo) any {
			return &mcp.ListPromptsResult{
				Prompts:    definitions(all, func(p *prompt) mcp.Prompt { return *p.Def }),
				NextCursor: p.Next, TTLMs: p.TTL, CacheScope: p.Scope,
			}
		},
	})
	l.skills = registry.New(registry.Options[*skills.Skill]{
		Kind: "skill", Key: (*skills.Skill).URI, Taken: ErrExists, Fits: skills.CheckNested, Changed: resources, Paging: paging,
		Page: func(all []*skills.Skill, p registry.PageInfo) any {
			return &mcp.ListSkillsResult{
				Skills:     definitions(all, func(k *skills.Skill) mcp.Skill { return k.Entry }),
				NextCursor: p.Next, TTLMs: p.TTL, CacheScope: p.Scope,
			}
		},
	})
}

// definitions returns the parts of entries that clients see; never nil.
func definitions[T, D any](all []T, of func(T) D) []D {
	out := make([]D, len(all))
	for i, e := range all {
		out[i] = of(e)
	}
	return out
}

// ChangeLists runs change, which adds and removes tools, resources, templates, prompts or
// skills of this server, as one change: until change has returned, clients see and use the
// lists as before; then the server notifies them once of each list that has changed. Changes
// by other goroutines appear with it. change must be quick; it may call ChangeLists.
func (s *Server) ChangeLists(change func()) {
	for _, l := range []interface {
		Hold()
		Release()
	}{s.tools, s.resources, s.templates, s.prompts, s.skills} {
		l.Hold()
		defer l.Release()
	}
	change()
}

// RemoveTools removes tools by name; unknown names do nothing. Calls in flight
// go on.
func (s *Server) RemoveTools(names ...string) { s.tools.Remove(names) }

// RemoveResources removes resources by URI, as RemoveTools does.
func (s *Server) RemoveResources(uris ...string) { s.resources.Remove(uris) }

// RemoveTemplates removes resource templates by their URI template, as RemoveTools
// does.
func (s *Server) RemoveTemplates(uriTemplates ...string) { s.templates.Remove(uriTemplates) }

// RemovePrompts removes prompts by name, as RemoveTools does.
func (s *Server) RemovePrompts(names ...string) { s.prompts.Remove(names) }

// Each list method returns one page (TOOL-02, RES-02, PRM-01, SKILL-08).
func listTools(s *session, a *arrival) ([]byte, error) {
	return listPage(s, subscriptions.Tools, s.server.tools, a, mcp.MethodCallTool, func(t *tool) []string { return t.needs })
}

func listResources(s *session, a *arrival) ([]byte, error) {
	return listPage(s, subscriptions.Resources, s.server.resources, a, mcp.MethodReadResource, func(r *resource) []string { return r.needs })
}

func listTemplates(s *session, a *arrival) ([]byte, error) {
	return listPage(s, subscriptions.Resources, s.server.templates, a, mcp.MethodReadResource, func(t *template) []string { return t.needs })
}

func listPrompts(s *session, a *arrival) ([]byte, error) {
	return listPage(s, subscriptions.Prompts, s.server.prompts, a, mcp.MethodGetPrompt, func(p *prompt) []string { return p.needs })
}

func listSkills(s *session, a *arrival) ([]byte, error) {
	return listPage(s, subscriptions.Resources, s.server.skills, a, mcp.MethodGetSkill, func(*skills.Skill) []string { return nil })
}

func listPage[T any](s *session, kind subscriptions.List, l *registry.List[T], a *arrival, use string, needs func(T) []string) ([]byte, error) {
	s.server.notices.Given(s, kind)
	if s.server.opts.HTTP.HideForbidden {
		return l.Now().PageOf(a.Message, a.version, func(e T) bool { return permit(s, a, use, l.Key(e), needs(e)) == nil })
	}
	return l.Now().Page(a.Message, a.version)
}

// listScope returns the cache scope of the lists: private if the server authenticates
// clients, or if a middleware may answer each differently (CACHE-05, SECA-47).
func (s *Server) listScope() string {
	if s.opts.HTTP.Authenticate != nil || s.opts.Principal != nil || len(s.opts.Middleware) > 0 {
		return mcp.CachePrivate
	}
	return mcp.CachePublic
}
