package mcpserver

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/troupe-dev/troupe/mcp"
)

// ErrToolExists is returned by AddTool for a name that another tool has.
var ErrToolExists = errors.New("mcpserver: there is a tool of that name")

// catalog is an immutable set of tools, with everything that can be derived from
// it before a client asks.
type catalog struct {
	server *Server
	tools  map[string]*tool
	sorted []*tool // by name, which is the order of the list (TOOL-02)
	lists  map[mcp.Version]*list
}

// list is tools/list in one revision, encoded when the first client asks.
type list struct {
	once  sync.Once
	err   error
	pages map[string][]byte // by cursor; "" is the first
}

func newCatalog(s *Server, tools map[string]*tool) *catalog {
	c := &catalog{server: s, tools: tools, lists: make(map[mcp.Version]*list)}
	c.sorted = slices.SortedFunc(maps.Values(tools), func(a, b *tool) int { return strings.Compare(a.def.Name, b.def.Name) })
	for _, v := range s.opts.Versions {
		c.lists[v] = new(list)
	}
	return c
}

// change replaces the catalog.
func (s *Server) change(f func(tools map[string]*tool) error) error {
	s.mu.Lock()
	tools := maps.Clone(s.tools.Load().tools)
	if tools == nil {
		tools = make(map[string]*tool)
	}
	err := f(tools)
	if err == nil {
		s.tools.Store(newCatalog(s, tools))
	}
	s.mu.Unlock()
	if err == nil {
		s.ref.Send(toolsChanged{})
	}
	return err
}

func (s *Server) add(t *tool) error {
	return s.change(func(tools map[string]*tool) error {
		if tools[t.def.Name] != nil {
			return fmt.Errorf("adding the tool %q: %w", t.def.Name, ErrToolExists)
		}
		tools[t.def.Name] = t
		return nil
	})
}

// RemoveTools removes tools by name; unknown names do nothing. Calls in flight
// go on.
func (s *Server) RemoveTools(names ...string) {
	_ = s.change(func(tools map[string]*tool) error { // it returns no error
		for _, name := range names {
			delete(tools, name)
		}
		return nil
	})
}

// page returns one page of tools/list as the result of revision v.
func (c *catalog) page(v mcp.Version, cursor *string) ([]byte, error) {
	l := c.lists[v]
	l.once.Do(func() { l.err = c.encode(l, v) })
	if l.err != nil {
		return nil, l.err
	}
	if cursor == nil {
		return l.pages[""], nil
	}
	if page, ok := l.pages[*cursor]; ok && *cursor != "" {
		return page, nil
	}
	name, ok := readCursor(*cursor)
	if !ok {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "unknown cursor") // PAGE-05
	}
	// The list has changed since: go on behind what the client has seen.
	from, _ := slices.BinarySearchFunc(c.sorted, name, func(t *tool, name string) int { return strings.Compare(t.def.Name, name) })
	raw, _, err := c.encodePage(v, from)
	return raw, err
}

func (c *catalog) encode(l *list, v mcp.Version) error {
	l.pages = make(map[string][]byte)
	cursor := ""
	for from := 0; ; from += c.server.opts.PageSize {
		raw, next, err := c.encodePage(v, from)
		if err != nil {
			return err
		}
		l.pages[cursor] = raw
		if cursor = next; next == "" {
			return nil
		}
	}
}

// encodePage encodes the page that begins with the from-th tool.
func (c *catalog) encodePage(v mcp.Version, from int) (raw []byte, next string, err error) {
	to := min(from+c.server.opts.PageSize, len(c.sorted))
	ttl := c.server.opts.CacheFor.Milliseconds()
	result := &mcp.ListToolsResult{Tools: []mcp.Tool{}, TTLMs: &ttl, CacheScope: mcp.CachePublic}
	for _, t := range c.sorted[from:to] {
		result.Tools = append(result.Tools, *t.def)
	}
	if to < len(c.sorted) {
		next = cursorAt(c.sorted[to].def.Name)
		result.NextCursor = &next
	}
	raw, err = mcp.MarshalResult(result, v)
	return c.server.withMeta(raw, v), next, err
}

// A cursor is the name of the first tool of its page, so that it holds when
// tools come and go. Clients take it as opaque (PAGE-02).
const cursorMark = "tools:"

func cursorAt(name string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(cursorMark + name))
}

func readCursor(cursor string) (name string, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return "", false
	}
	return strings.CutPrefix(string(raw), cursorMark)
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
