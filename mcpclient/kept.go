package mcpclient

import (
	"encoding/json"
	"strings"

	"github.com/troupe-dev/troupe/mcp"
)

// Bounds on what is kept of one server: together well below what ROB-3 allows.
const (
	maxToolsSize     = 16 << 20 // bytes
	maxResourcesSize = 8 << 20
	maxTemplatesSize = 4 << 20
	maxPromptsSize   = 8 << 20
	maxSkillsSize    = 16 << 20

	maxReads           = 256
	maxReadsSize       = 8 << 20
	maxCompletions     = 128
	maxCompletionsSize = 1 << 20
)

// keeps is all that a client keeps of a server's answers.
type keeps struct {
	tools       list[mcp.Tool]
	resources   list[mcp.Resource]
	templates   list[mcp.ResourceTemplate]
	prompts     list[mcp.Prompt]
	skills      list[mcp.Skill]
	reads       answers[*mcp.ReadResourceResult] // by URI
	completions answers[*mcp.Completion]         // by parameters
}

// What the lists are; the same for all clients.
var (
	toolKind = kind[mcp.Tool]{
		method: mcp.MethodListTools, what: "tools", maxSize: maxToolsSize,
		read: readPage(func(r *mcp.ListToolsResult) listPage[mcp.Tool] {
			return listPage[mcp.Tool]{items: r.Tools, next: r.NextCursor, ttl: r.TTL(), scope: r.CacheScope}
		}),
		key: func(t *mcp.Tool) string { return t.Name }, check: (*Client).checkTool,
		skip: func(c *Client, t *mcp.Tool) bool { return !c.server.allows(t.Name) },
	}
	resourceKind = kind[mcp.Resource]{
		method: mcp.MethodListResources, what: "resources", maxSize: maxResourcesSize,
		read: readPage(func(r *mcp.ListResourcesResult) listPage[mcp.Resource] {
			return listPage[mcp.Resource]{items: r.Resources, next: r.NextCursor, ttl: r.TTL(), scope: r.CacheScope}
		}),
		key: func(r *mcp.Resource) string { return r.URI }, check: checkItem[*mcp.Resource],
	}
	templateKind = kind[mcp.ResourceTemplate]{
		method: mcp.MethodListResourceTemplates, what: "resource templates", maxSize: maxTemplatesSize,
		read: readPage(func(r *mcp.ListResourceTemplatesResult) listPage[mcp.ResourceTemplate] {
			return listPage[mcp.ResourceTemplate]{items: r.ResourceTemplates, next: r.NextCursor, ttl: r.TTL(), scope: r.CacheScope}
		}),
		key: func(r *mcp.ResourceTemplate) string { return r.URITemplate }, check: checkItem[*mcp.ResourceTemplate],
	}
	promptKind = kind[mcp.Prompt]{
		method: mcp.MethodListPrompts, what: "prompts", maxSize: maxPromptsSize,
		read: readPage(func(r *mcp.ListPromptsResult) listPage[mcp.Prompt] {
			return listPage[mcp.Prompt]{items: r.Prompts, next: r.NextCursor, ttl: r.TTL(), scope: r.CacheScope}
		}),
		key: func(p *mcp.Prompt) string { return p.Name }, check: checkItem[*mcp.Prompt],
	}
	skillKind = kind[mcp.Skill]{
		method: mcp.MethodListSkills, what: "skills", maxSize: maxSkillsSize, unannounced: true,
		read: readPage(func(r *mcp.ListSkillsResult) listPage[mcp.Skill] {
			return listPage[mcp.Skill]{items: r.Skills, next: r.NextCursor, ttl: r.TTL(), scope: r.CacheScope}
		}),
		key: func(s *mcp.Skill) string { return s.URI }, check: func(_ *Client, s *mcp.Skill) error { return checkSkill(s) },
	}
)

// checkItem is the check of an item that needs no client.
func checkItem[T interface{ Validate() error }](_ *Client, item T) error { return item.Validate() }

// init says what is kept. It is called once, before anything else.
func (k *keeps) init(c *Client) {
	k.tools.kind, k.resources.kind, k.templates.kind, k.prompts.kind = &toolKind, &resourceKind, &templateKind, &promptKind
	k.tools.client, k.resources.client, k.templates.client, k.prompts.client = c, c, c, c
	k.skills.kind, k.skills.client = &skillKind, c
	k.tools.onChange, k.resources.onChange, k.prompts.onChange = c.opts.OnToolsChanged, c.opts.OnResourcesChanged, c.opts.OnPromptsChanged
	k.reads.max, k.reads.maxSize = maxReads, maxReadsSize
	k.completions.max, k.completions.maxSize = maxCompletions, maxCompletionsSize
}

// readPage decodes a result that has been scanned already.
func readPage[T, R any, P interface {
	*R
	Validate() error
}](of func(P) listPage[T]) func(json.RawMessage) (listPage[T], error) {
	return func(raw json.RawMessage) (listPage[T], error) {
		r := P(new(R))
		if err := decode(raw, r); err != nil {
			return listPage[T]{}, err
		}
		return of(r), nil
	}
}

// renew forgets all: another process may have other things, and notices may have
// been missed.
func (k *keeps) renew() {
	k.tools.invalidate()
	k.resources.invalidate()
	k.templates.invalidate()
	k.prompts.invalidate()
	k.skills.invalidate()
	k.reads.drop(nil)
	k.completions.drop(nil)
}

// changed makes stale what a change notice is about (CACHE-06) and reports whether
// it was one. The URI is that of notifications/resources/updated.
func (k *keeps) changed(method, uri string) bool {
	switch method {
	case mcp.NotificationToolsChanged:
		k.tools.invalidate()
		k.tools.tell()
	case mcp.NotificationPromptsChanged:
		k.prompts.invalidate()
		k.completions.drop(nil)
		k.prompts.tell()
	case mcp.NotificationResourcesChanged:
		k.resources.invalidate()
		k.templates.invalidate()
		k.skills.invalidate() // which are resources
		k.completions.drop(nil)
		k.reads.drop(nil) // one that is gone must not be read from here
		k.resources.tell()
	case mcp.NotificationResourceUpdated:
		k.reads.drop(func(key string) bool { return related(key, uri) })
	default:
		return false
	}
	return true
}

// related reports whether one URI is the other, or below it: the notice may be about
// a part of what was read (RES-05), or the whole of it.
func related(a, b string) bool {
	a, b = strings.TrimSuffix(a, "/"), strings.TrimSuffix(b, "/")
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

func (k *keeps) close() {
	k.tools.close()
	k.resources.close()
	k.templates.close()
	k.prompts.close()
	k.skills.close()
}
