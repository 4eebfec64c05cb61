package lists

import (
	"bytes"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
)

// quietSource is a source that only has a log.
type quietSource struct{ Source }

func (quietSource) Log() *slog.Logger { return slog.New(slog.DiscardHandler) }

// A page that is the whole list is not copied, and never written: other lists have it, too.
func TestAssembleOnePage(t *testing.T) {
	l := &List[string]{source: quietSource{}, Kind: &Kind[string]{
		key: func(s *string) string { return *s },
		check: func(_ Source, s *string) error {
			if *s == "bad" {
				return errors.New("it is bad")
			}
			return nil
		},
	}}
	for _, page := range [][]string{{"a", "b", "c"}, {"a", "bad", "b", "a", "c"}} {
		before, want := slices.Clone(page), []string{"a", "b", "c"}
		whole := &wholeList[string]{all: []listPage[string]{{decoded: &decoded[string]{items: page}}}}
		l.assemble(whole)
		if !slices.Equal(whole.items, want) {
			t.Errorf("got %v, want %v", whole.items, want)
		}
		if shared := &whole.items[0] == &page[0]; shared != (len(page) == len(want)) {
			t.Errorf("%v: got the place of the page: %v", page, shared)
		}
		for key, i := range whole.index {
			if whole.items[i] != key {
				t.Errorf("%s is found at %d, which is %s", key, i, whole.items[i])
			}
		}
		if !slices.Equal(page, before) {
			t.Errorf("the page became %v, want %v", page, before)
		}
		again := &wholeList[string]{all: whole.all}
		l.assemble(again)
		again.index["mark"] = 0 // none writes it but here
		if _, shared := whole.index["mark"]; shared != (len(page) == len(want)) {
			t.Errorf("%v: two lists share the index: %v", page, shared)
		}
	}
	l.assemble(new(wholeList[string])) // the first page was too large
}

// The lists beside that of tools are made when the first of them is read: neither a connection nor a notice about
// tools makes them. They cannot be read after the end.
func TestOthersAreMadeLater(t *testing.T) {
	var c Cache
	c.Init(quietSource{}, nil, nil, nil)
	c.Renew()
	if !c.Changed(mcp.NotificationToolsChanged, "") || c.Changed(mcp.NotificationMessage, "") || c.others.Load() != nil {
		t.Error("the lists beside tools are made before they are needed")
	}
	if o := c.Others(); o != c.Others() || o.Prompts.Kind != &promptKind {
		t.Errorf("got %v, want the same lists again", o)
	}
	var closed Cache
	closed.Init(quietSource{}, nil, nil, nil)
	closed.Close()
	if !closed.Others().Prompts.closed {
		t.Error("after the end: a list can be read")
	}
}

// Lists that are read from the same text share what it says, for as long as one of them lives.
func TestDecodeShares(t *testing.T) {
	text := []byte(`{"tools":[{"name":"shared","inputSchema":{"type":"object"}}]}`)
	decode := func(text []byte) *decoded[mcp.Tool] {
		d, err := toolKind.decode(text)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	one, two := decode(text), decode(slices.Clone(text))
	if one != two {
		t.Error("the same text was decoded twice")
	}
	if other := decode(bytes.Replace(text, []byte("shared"), []byte("other"), 1)); other == one || other.items[0].Name != "other" {
		t.Errorf("another text: got %v", other.items)
	}
	key := one.sum
	runtime.KeepAlive(one)
	runtime.KeepAlive(two)
	one, two = nil, nil
	for range 100 { // cleanups run soon after the collection
		runtime.GC()
		if _, ok := toolKind.shared.Load(key); !ok {
			return
		}
		runtime.Gosched()
	}
	t.Error("a text that no list holds is still known")
}
