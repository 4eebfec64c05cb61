// list.go: what a server's lists of tools, resources, templates and prompts share.

package mcpserver

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/troupe-dev/troupe/mcp"
)

// Errors of adding and of referring to what was added.
var (
	// ErrToolExists is returned by AddTool for a name that another tool has.
	ErrToolExists = errors.New("mcpserver: there is a tool of that name")
	// ErrExists is returned for a resource, template or prompt that is there already.
	ErrExists = errors.New("mcpserver: it was added already")
	// ErrUnknown is returned for a completion of what was not added.
	ErrUnknown = errors.New("mcpserver: there is no such thing")
)

// entry is what a list holds. Its name is what it is found by, and sorted by.
type entry interface{ name() string }

// shelf is one of a server's lists as it changes. What clients see is its newest
// catalog, which is made when it is first needed: a program that adds a thousand
// tools makes one.
type shelf[T entry] struct {
	server *Server
	kind   string // for messages and cursors: "tool"
	tells  listKind
	taken  error // for a name that is there already
	// page puts entries into the result of the list method.
	page func(entries []T, p pageInfo) any

	declared atomic.Bool // something was added once: the capability stays (CAP-08)
	now      atomic.Pointer[catalog[T]]

	mu   sync.Mutex
	all  map[string]T // guarded by mu
	held int          // how many ChangeLists are under way; guarded by mu
	news bool         // something has changed since the first of them began; guarded by mu
}

// pageInfo is what pages of all lists have.
type pageInfo struct {
	next  *string // nil on the last page (PAGE-03)
	ttl   *int64
	scope string
}

// shelves are the lists.
type shelves struct {
	tools     shelf[*tool]
	resources shelf[*resource]
	templates shelf[*template]
	prompts   shelf[*prompt]
	skills    shelf[*skill]
}

// initLists prepares the lists, which are empty.
func (s *Server) initLists() {
	s.tools.init(s, "tool", toolsList, ErrToolExists, func(all []*tool, p pageInfo) any {
		r := &mcp.ListToolsResult{Tools: make([]mcp.Tool, len(all)), NextCursor: p.next, TTLMs: p.ttl, CacheScope: p.scope}
		for i, t := range all {
			r.Tools[i] = *t.def
		}
		return r
	})
	s.resources.init(s, "resource", resourcesList, ErrExists, func(all []*resource, p pageInfo) any {
		r := &mcp.ListResourcesResult{Resources: make([]mcp.Resource, len(all)), NextCursor: p.next, TTLMs: p.ttl, CacheScope: p.scope}
		for i, one := range all {
			r.Resources[i] = *one.def
		}
		return r
	})
	s.templates.init(s, "resource template", resourcesList, ErrExists, func(all []*template, p pageInfo) any {
		r := &mcp.ListResourceTemplatesResult{
			ResourceTemplates: make([]mcp.ResourceTemplate, len(all)), NextCursor: p.next, TTLMs: p.ttl, CacheScope: p.scope,
		}
		for i, one := range all {
			r.ResourceTemplates[i] = *one.def
		}
		return r
	})
	s.prompts.init(s, "prompt", promptsList, ErrExists, func(all []*prompt, p pageInfo) any {
		r := &mcp.ListPromptsResult{Prompts: make([]mcp.Prompt, len(all)), NextCursor: p.next, TTLMs: p.ttl, CacheScope: p.scope}
		for i, one := range all {
			r.Prompts[i] = *one.def
		}
		return r
	})
	s.skills.init(s, "skill", resourcesList, ErrExists, func(all []*skill, p pageInfo) any {
		r := &mcp.ListSkillsResult{Skills: make([]mcp.Skill, len(all)), NextCursor: p.next, TTLMs: p.ttl, CacheScope: p.scope}
		for i, one := range all {
			r.Skills[i] = one.entry
		}
		return r
	})
}

func (l *shelf[T]) init(s *Server, kind string, tells listKind, taken error, page func([]T, pageInfo) any) {
	l.server, l.kind, l.tells, l.taken, l.page = s, kind, tells, taken, page
	l.all = make(map[string]T)
}

// Load returns the list as it is now.
func (l *shelf[T]) Load() *catalog[T] {
	if c := l.now.Load(); c != nil {
		return c
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.load()
}

// load is Load, called under the lock.
func (l *shelf[T]) load() *catalog[T] {
	if c := l.now.Load(); c != nil {
		return c
	}
	c := &catalog[T]{shelf: l, byName: maps.Clone(l.all), lists: make(map[mcp.Version]*pages)}
	c.sorted = slices.SortedFunc(maps.Values(c.byName), func(a, b T) int { return strings.Compare(a.name(), b.name()) })
	for _, v := range l.server.opts.Versions {
		c.lists[v] = new(pages)
	}
	l.now.Store(c)
	return c
}

// add adds an entry whose name must be new.
func (l *shelf[T]) add(e T) error {
	l.mu.Lock()
	if _, there := l.all[e.name()]; there {
		l.mu.Unlock()
		return fmt.Errorf("adding the %s %q: %w", l.kind, e.name(), l.taken)
	}
	l.all[e.name()] = e
	l.declared.Store(true)
	tell := l.altered()
	l.mu.Unlock()
	l.tell(tell)
	return nil
}

// altered notes that the list is another one, and reports whether clients are to be told
// now. It is called under the lock.
func (l *shelf[T]) altered() bool {
	if l.held > 0 { // clients see the list as it was
		l.news = true
		return false
	}
	l.now.Store(nil)
	return true
}

func (l *shelf[T]) tell(changed bool) {
	if changed {
		l.server.changed(l.tells)
	}
}

// remove removes entries by name; unknown names do nothing.
func (l *shelf[T]) remove(names []string) {
	l.mu.Lock()
	before := len(l.all)
	for _, name := range names {
		delete(l.all, name)
	}
	tell := len(l.all) != before && l.altered()
	l.mu.Unlock()
	l.tell(tell)
}

// replace puts another entry in the place of one, without a word to clients: what
// they see of it is the same.
func (l *shelf[T]) replace(name string, f func(old T) (T, error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, there := l.all[name]
	if !there {
		return fmt.Errorf("the %s %q: %w", l.kind, name, ErrUnknown)
	}
	e, err := f(old)
	if err != nil {
		return err
	}
	l.all[name] = e
	if l.held == 0 {
		l.now.Store(nil)
	} else {
		l.news = true
	}
	return nil
}

// RemoveTools removes tools by name; unknown names do nothing. Calls in flight
// go on.
func (s *Server) RemoveTools(names ...string) { s.tools.remove(names) }

// RemoveResources removes resources by URI, as RemoveTools does.
func (s *Server) RemoveResources(uris ...string) { s.resources.remove(uris) }

// RemoveTemplates removes resource templates by their URI template, as RemoveTools
// does.
func (s *Server) RemoveTemplates(uriTemplates ...string) { s.templates.remove(uriTemplates) }

// RemovePrompts removes prompts by name, as RemoveTools does.
func (s *Server) RemovePrompts(names ...string) { s.prompts.remove(names) }

// catalog is a list at one moment. It does not change; what clients get of it is
// encoded when the first asks.
type catalog[T entry] struct {
	shelf  *shelf[T]
	byName map[string]T
	sorted []T // which is the order of the list (TOOL-02)
	lists  map[mcp.Version]*pages
}

// pages are a catalog in one revision.
type pages struct {
	once  sync.Once
	err   error
	first []byte
	pages map[string][]byte // by cursor, all but the first
}

// named returns the entry of a name.
func (c *catalog[T]) named(name string) (T, bool) {
	e, ok := c.byName[name]
	return e, ok
}

// answer answers the list method with the page that its cursor asks for.
func (c *catalog[T]) answer(a *arrival) ([]byte, error) {
	var p mcp.ListParams
	if mayHaveCursor(a.Message) {
		if err := a.DecodeParams(&p); err != nil {
			return nil, err
		}
	}
	l := c.lists[a.version]
	l.once.Do(func() { l.err = c.encode(l, a.version) })
	switch {
	case l.err != nil:
		return nil, l.err
	case p.Cursor == nil:
		return l.first, nil
	}
	if page, ok := l.pages[*p.Cursor]; ok {
		return page, nil
	}
	name, ok := readCursor(c.shelf.kind, *p.Cursor)
	if !ok {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "unknown cursor") // PAGE-05
	}
	// The list has changed since: go on behind what the client has seen.
	from, _ := slices.BinarySearchFunc(c.sorted, name, func(e T, name string) int { return strings.Compare(e.name(), name) })
	raw, _, err := c.encodePage(a.version, from)
	return raw, err
}

// mayHaveCursor spares most requests the decoding: their params are a _meta or nothing.
func mayHaveCursor(m *mcp.Message) bool {
	return m.Meta != nil && m.Meta[0] != '{' || bytes.Contains(m.Params, []byte(`"cursor"`)) || bytes.IndexByte(m.Params, '\\') >= 0
}

func (c *catalog[T]) encode(l *pages, v mcp.Version) error {
	first, to, err := c.encodePage(v, 0)
	l.first, l.pages = first, make(map[string][]byte)
	for err == nil && to < len(c.sorted) {
		cursor := c.cursor(to)
		l.pages[cursor], to, err = c.encodePage(v, to)
	}
	return err
}

// cursor returns the cursor of the page that begins with the from-th entry.
func (c *catalog[T]) cursor(from int) string { return cursorAt(c.shelf.kind, c.sorted[from].name()) }

// encodePage encodes the page that begins with the from-th entry, and returns where the
// next one begins. Every page has the same scope (CACHE-08).
func (c *catalog[T]) encodePage(v mcp.Version, from int) (raw []byte, to int, err error) {
	s := c.shelf.server
	if to, err = c.pageEnd(v, from); err != nil {
		return nil, to, err
	}
	ttl := s.opts.CacheFor.Milliseconds()
	p := pageInfo{ttl: &ttl, scope: s.listScope()}
	if to < len(c.sorted) {
		next := c.cursor(to)
		p.next = &next
	}
	raw, err = mcp.MarshalResult(c.shelf.page(c.sorted[from:to], p), v)
	return s.withMeta(raw, v), to, err
}

// pageEnd returns where the page ends that begins with the from-th entry: at PageSize
// entries, or before the entry that makes it longer than PageBytes. A page has at least
// one entry.
func (c *catalog[T]) pageEnd(v mcp.Version, from int) (int, error) {
	o := &c.shelf.server.opts
	to, bytes := from, 0
	for most := min(from+o.PageSize, len(c.sorted)); to < most; to++ {
		raw, err := mcp.MarshalResult(c.shelf.page(c.sorted[to:to+1], pageInfo{}), v)
		if err != nil {
			return to, err
		}
		if bytes += len(raw); bytes > o.PageBytes && to > from {
			break
		}
	}
	return to, nil
}

// listScope says who may share what clients keep of the lists: nobody, if we ask who
// they are, or if a middleware may answer each in its own way (CACHE-05, SECA-47).
func (s *Server) listScope() string {
	if s.opts.Authenticate != nil || s.opts.Principal != nil || len(s.opts.Middleware) > 0 {
		return mcp.CachePrivate
	}
	return mcp.CachePublic
}

// A cursor is the name of the first entry of its page, so that it holds when entries
// come and go, and in other instances of the server (PAGE-05). Clients take it as
// opaque (PAGE-02): the sum finds those that were cut, edited, or belong to another
// list. It is no secret, and need not be: a cursor only says where to go on.
const cursorSum = 8 // bytes

func cursorAt(kind, name string) string {
	return base64.RawURLEncoding.EncodeToString(appendSum(kind, []byte(name)))
}

func appendSum(kind string, name []byte) []byte {
	sum := fnv.New64a()
	sum.Write([]byte(kind))
	sum.Write([]byte{0})
	sum.Write(name)
	return sum.Sum(name)
}

// maxCursor bounds what is looked at: URIs are the longest names.
const maxCursor = 24 << 10

func readCursor(kind, cursor string) (name string, ok bool) {
	if len(cursor) > maxCursor {
		return "", false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(raw) <= cursorSum {
		return "", false
	}
	name = string(raw[:len(raw)-cursorSum])
	return name, cursorAt(kind, name) == cursor
}

// withMeta adds who we are to a result of 2026-07-28 that has no _meta (META-06).
func (s *Server) withMeta(result []byte, v mcp.Version) []byte {
	if v.Era() != mcp.EraModern || len(result) < 2 {
		return result
	}
	end := len(result) - 1 // the closing brace
	if result[end-1] != '{' {
		result = append(result[:end], ',')
	} else {
		result = result[:end]
	}
	return append(append(result, s.serverMeta...), '}')
}

// identified returns the _meta of a handler's result with who we are in it (META-06).
func (s *Server) identified(meta mcp.Meta, v mcp.Version) mcp.Meta {
	if v.Era() != mcp.EraModern {
		return meta
	}
	all := make(mcp.Meta, len(meta)+1)
	maps.Copy(all, meta)
	_ = all.Set(mcp.MetaServerInfo, s.info) // it was encoded before, by New
	return all
}
