package registry

import (
	"bytes"
	"encoding/base64"
	"hash/fnv"
	"slices"
	"strings"
	"sync"

	"github.com/troupe-dev/troupe/mcp"
)

// Snapshot is a list at one moment. It does not change; its pages are encoded for the first
// client that asks.
type Snapshot[T any] struct {
	list   *List[T]
	byKey  map[string]T
	sorted []T
	pages  map[mcp.Version]*pages
}

// pages are those of one revision.
type pages struct {
	once  sync.Once
	err   error
	first []byte
	rest  map[string][]byte // by cursor
}

// Get returns the entry of a key.
func (c *Snapshot[T]) Get(key string) (T, bool) {
	e, ok := c.byKey[key]
	return e, ok
}

// GetBytes is Get for a key that need not become a string.
func (c *Snapshot[T]) GetBytes(key []byte) (T, bool) {
	e, ok := c.byKey[string(key)]
	return e, ok
}

// All returns the entries in the order of the list (TOOL-02). The slice must not be changed.
func (c *Snapshot[T]) All() []T { return c.sorted }

// PageOf is Page for a reader who sees only some of the entries: it encodes the page anew.
func (c *Snapshot[T]) PageOf(m *mcp.Message, v mcp.Version, sees func(T) bool) ([]byte, error) {
	cursor, err := cursorOf(m)
	if err != nil {
		return nil, err
	}
	some := &Snapshot[T]{list: c.list, sorted: slices.DeleteFunc(slices.Clone(c.sorted), func(e T) bool { return !sees(e) })}
	if cursor != nil {
		return some.pageFrom(v, *cursor)
	}
	raw, _, err := some.encodePage(v, 0)
	return raw, err
}

// cursorOf returns the cursor of a request; nil for none.
func cursorOf(m *mcp.Message) (*string, error) {
	var p mcp.ListParams
	if mayHaveCursor(m) {
		if err := m.DecodeParams(&p); err != nil {
			return nil, err
		}
	}
	return p.Cursor, nil
}

// Page answers a list method with the page that the cursor of the request names.
func (c *Snapshot[T]) Page(m *mcp.Message, v mcp.Version) ([]byte, error) {
	cursor, err := cursorOf(m)
	if err != nil {
		return nil, err
	}
	l := c.pages[v]
	l.once.Do(func() { l.err = c.encode(l, v) })
	switch {
	case l.err != nil:
		return nil, l.err
	case cursor == nil:
		return l.first, nil
	}
	if page, ok := l.rest[*cursor]; ok {
		return page, nil
	}
	return c.pageFrom(v, *cursor) // the list has changed since
}

// pageFrom encodes the page that goes on behind the entries that a client has seen.
func (c *Snapshot[T]) pageFrom(v mcp.Version, cursor string) ([]byte, error) {
	key, ok := ReadCursor(c.list.Kind, cursor)
	if !ok {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "unknown cursor") // PAGE-05
	}
	from, _ := slices.BinarySearchFunc(c.sorted, key, func(e T, key string) int { return strings.Compare(c.list.Key(e), key) })
	raw, _, err := c.encodePage(v, from)
	return raw, err
}

// mayHaveCursor saves most requests the decoding: their params are a _meta or empty.
func mayHaveCursor(m *mcp.Message) bool {
	return m.Meta != nil && m.Meta[0] != '{' || bytes.Contains(m.Params, []byte(`"cursor"`)) || bytes.IndexByte(m.Params, '\\') >= 0
}

func (c *Snapshot[T]) encode(l *pages, v mcp.Version) error {
	first, to, err := c.encodePage(v, 0)
	l.first, l.rest = first, make(map[string][]byte)
	for err == nil && to < len(c.sorted) {
		cursor := c.cursor(to)
		l.rest[cursor], to, err = c.encodePage(v, to)
	}
	return err
}

// cursor returns the cursor of the page that begins with the from-th entry.
func (c *Snapshot[T]) cursor(from int) string {
	return Cursor(c.list.Kind, c.list.Key(c.sorted[from]))
}

// encodePage encodes the page that begins with the from-th entry, and returns where the
// next one begins.
func (c *Snapshot[T]) encodePage(v mcp.Version, from int) (raw []byte, to int, err error) {
	if to, err = c.pageEnd(v, from); err != nil {
		return nil, to, err
	}
	paging := c.list.Paging
	ttl := paging.TTL.Milliseconds()
	p := PageInfo{TTL: &ttl, Scope: paging.Scope}
	if to < len(c.sorted) {
		next := c.cursor(to)
		p.Next = &next
	}
	raw, err = mcp.MarshalResult(c.list.Page(c.sorted[from:to], p), v)
	return paging.Finish(raw, v), to, err
}

// pageEnd returns where the page ends that begins with the from-th entry. A page has at
// least one entry.
func (c *Snapshot[T]) pageEnd(v mcp.Version, from int) (int, error) {
	paging := c.list.Paging
	to, bytes := from, 0
	for most := min(from+paging.Entries, len(c.sorted)); to < most; to++ {
		raw, err := mcp.MarshalResult(c.list.Options.Page(c.sorted[to:to+1], PageInfo{}), v)
		if err != nil {
			return to, err
		}
		if bytes += len(raw); bytes > paging.Bytes && to > from {
			break
		}
	}
	return to, nil
}

// A cursor is the key of the first entry of its page, so that it holds when entries
// come and go, and in other instances of the server (PAGE-05). Clients take it as
// opaque (PAGE-02): the checksum finds cursors that were cut, edited, or belong to another
// list. It is no secret, and need not be: a cursor only says where to go on.
const cursorSum = 8 // bytes

// Cursor returns the cursor of the page of a kind of list that begins with a key.
func Cursor(kind, key string) string {
	return base64.RawURLEncoding.EncodeToString(appendSum(kind, []byte(key)))
}

func appendSum(kind string, key []byte) []byte {
	sum := fnv.New64a()
	sum.Write([]byte(kind))
	sum.Write([]byte{0})
	sum.Write(key)
	return sum.Sum(key)
}

// maxCursor bounds a cursor, in bytes: URIs are the longest keys.
const maxCursor = 24 << 10

// ReadCursor returns the key in a cursor of [Cursor]; false for any other text.
func ReadCursor(kind, cursor string) (key string, ok bool) {
	if len(cursor) > maxCursor {
		return "", false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(raw) <= cursorSum {
		return "", false
	}
	key = string(raw[:len(raw)-cursorSum])
	return key, Cursor(kind, key) == cursor
}
