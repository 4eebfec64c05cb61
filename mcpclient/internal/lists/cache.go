package lists

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/memo"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/resource"
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

// Source is the server that the lists are of.
type Source interface {
	// Fetch carries out a request. Its errors name the server and the method.
	Fetch(ctx context.Context, method string, params []byte) (json.RawMessage, error)
	// Invalid returns the error for a result that breaks the protocol.
	Invalid(method string, err error) error
	// Closed returns the error for what is asked after the end.
	Closed() error
	Era() mcp.Era
	// Principal returns for whom the client acts now.
	Principal() string
	// Go runs f on a goroutine, which is named after what it does.
	Go(what string, f func())
	// Notify has f called after what was to be called before.
	Notify(f func())
	Log() *slog.Logger
	// CheckTool refuses a tool; Allows reports whether the configuration has it.
	CheckTool(*mcp.Tool) error
	Allows(tool string) bool
}

// Cache is what a client has of a server's answers.
type Cache struct {
	Tools List[mcp.Tool]

	resources, prompts func() // of Init
	// Nil before they are needed: see Headers, Outputs and Others.
	headers atomic.Pointer[Headers]
	outputs atomic.Pointer[Schemas]
	others  atomic.Pointer[Others]
}

// Others is what most servers have nothing of, beside tools.
type Others struct {
	Resources   List[mcp.Resource]
	Templates   List[mcp.ResourceTemplate]
	Prompts     List[mcp.Prompt]
	Skills      List[mcp.Skill]
	Reads       Answers[*mcp.ReadResourceResult] // by URI
	Completions Answers[*mcp.Completion]         // by parameters
}

// Init begins an empty cache. It is called once, before anything else. The functions are
// called when a list may have changed, once for a burst; each may be nil.
func (c *Cache) Init(s Source, tools, resources, prompts func()) {
	c.Tools.Kind, c.Tools.source, c.Tools.onChange = &toolKind, s, tools
	c.resources, c.prompts = resources, prompts
}

// Headers returns what calls of the server's tools repeat.
func (c *Cache) Headers() *Headers {
	return memo.Lazily(&c.headers, func() *Headers {
		h := new(Headers)
		h.byTool.Max = MaxItems
		return h
	})
}

// Outputs returns the output schemas of the server's tools.
func (c *Cache) Outputs() *Schemas {
	return memo.Lazily(&c.outputs, func() *Schemas {
		s := new(Schemas)
		s.byHash.Max, s.byHash.MaxSize, s.warned.Max = maxSchemas, maxSchemasSize, maxSchemas
		return s
	})
}

// Others returns what there is beside tools, empty at first: it is made when it is first needed.
func (c *Cache) Others() *Others {
	return memo.Lazily(&c.others, c.newOthers)
}

func (c *Cache) newOthers() *Others {
	o, s := new(Others), c.Tools.source
	o.Resources.Kind, o.Resources.source, o.Resources.onChange = &resourceKind, s, c.resources
	o.Templates.Kind, o.Templates.source = &templateKind, s
	o.Prompts.Kind, o.Prompts.source, o.Prompts.onChange = &promptKind, s, c.prompts
	o.Skills.Kind, o.Skills.source = &skillKind, s
	o.Reads.byKey.Max, o.Reads.byKey.MaxSize = maxReads, maxReadsSize
	o.Completions.byKey.Max, o.Completions.byKey.MaxSize = maxCompletions, maxCompletionsSize
	return o
}

// What the lists are; the same for all clients.
var (
	toolKind = Kind[mcp.Tool]{
		Method: mcp.MethodListTools, What: "tools", maxSize: maxToolsSize,
		read: readPage(func(r *mcp.ListToolsResult) *decoded[mcp.Tool] {
			return &decoded[mcp.Tool]{items: r.Tools, next: r.NextCursor, ttl: r.TTL(), scope: r.CacheScope}
		}),
		key: func(t *mcp.Tool) string { return t.Name }, check: Source.CheckTool,
		skip: func(s Source, t *mcp.Tool) bool { return !s.Allows(t.Name) },
	}
	resourceKind = Kind[mcp.Resource]{
		Method: mcp.MethodListResources, What: "resources", maxSize: maxResourcesSize,
		read: readPage(func(r *mcp.ListResourcesResult) *decoded[mcp.Resource] {
			return &decoded[mcp.Resource]{items: r.Resources, next: r.NextCursor, ttl: r.TTL(), scope: r.CacheScope}
		}),
		key: func(r *mcp.Resource) string { return r.URI }, check: checkItem[*mcp.Resource],
	}
	templateKind = Kind[mcp.ResourceTemplate]{
		Method: mcp.MethodListResourceTemplates, What: "resource templates", maxSize: maxTemplatesSize,
		read: readPage(func(r *mcp.ListResourceTemplatesResult) *decoded[mcp.ResourceTemplate] {
			return &decoded[mcp.ResourceTemplate]{items: r.ResourceTemplates, next: r.NextCursor, ttl: r.TTL(), scope: r.CacheScope}
		}),
		key: func(r *mcp.ResourceTemplate) string { return r.URITemplate }, check: checkItem[*mcp.ResourceTemplate],
	}
	promptKind = Kind[mcp.Prompt]{
		Method: mcp.MethodListPrompts, What: "prompts", maxSize: maxPromptsSize,
		read: readPage(func(r *mcp.ListPromptsResult) *decoded[mcp.Prompt] {
			return &decoded[mcp.Prompt]{items: r.Prompts, next: r.NextCursor, ttl: r.TTL(), scope: r.CacheScope}
		}),
		key: func(p *mcp.Prompt) string { return p.Name }, check: checkItem[*mcp.Prompt],
	}
	skillKind = Kind[mcp.Skill]{
		Method: mcp.MethodListSkills, What: "skills", maxSize: maxSkillsSize, unannounced: true,
		read: readPage(func(r *mcp.ListSkillsResult) *decoded[mcp.Skill] {
			return &decoded[mcp.Skill]{items: r.Skills, next: r.NextCursor, ttl: r.TTL(), scope: r.CacheScope}
		}),
		key: func(s *mcp.Skill) string { return s.URI }, check: func(_ Source, s *mcp.Skill) error { return resource.CheckSkill(s) },
	}
)

// checkItem is the check of an item that needs no more than itself.
func checkItem[T interface{ Validate() error }](_ Source, item T) error { return item.Validate() }

// readPage decodes a result that has been scanned already.
func readPage[T, R any, P interface {
	*R
	Validate() error
}](of func(P) *decoded[T]) func(json.RawMessage) (*decoded[T], error) {
	return func(raw json.RawMessage) (*decoded[T], error) {
		r := P(new(R))
		if err := jsonx.Unmarshal(raw, r); err != nil {
			return nil, err
		}
		if err := r.Validate(); err != nil {
			return nil, err
		}
		return of(r), nil
	}
}

// Renew forgets all: another process may have other things, and notices may have
// been missed.
func (c *Cache) Renew() {
	c.Tools.Invalidate()
	o := c.others.Load()
	if o == nil {
		return
	}
	o.Resources.Invalidate()
	o.Templates.Invalidate()
	o.Prompts.Invalidate()
	o.Skills.Invalidate()
	o.Reads.Drop(nil)
	o.Completions.Drop(nil)
}

// Changed makes stale what a change notice is about (CACHE-06) and reports whether
// it was one. The URI is that of notifications/resources/updated.
func (c *Cache) Changed(method, uri string) bool {
	switch method {
	case mcp.NotificationToolsChanged:
		c.Tools.Invalidate()
		c.Tools.Notify()
	case mcp.NotificationPromptsChanged:
		o := c.Others()
		o.Prompts.Invalidate()
		o.Completions.Drop(nil)
		o.Prompts.Notify()
	case mcp.NotificationResourcesChanged:
		o := c.Others()
		o.Resources.Invalidate()
		o.Templates.Invalidate()
		o.Skills.Invalidate() // which are resources
		o.Completions.Drop(nil)
		o.Reads.Drop(nil) // one that is gone must not be read from here
		o.Resources.Notify()
	case mcp.NotificationResourceUpdated:
		c.Others().Reads.Drop(func(key string) bool { return related(key, uri) })
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

// Close ends what is under way.
func (c *Cache) Close() {
	c.Tools.close()
	o := c.Others() // made now if need be, so that nothing is read from here on
	o.Resources.close()
	o.Templates.close()
	o.Prompts.close()
	o.Skills.close()
}
