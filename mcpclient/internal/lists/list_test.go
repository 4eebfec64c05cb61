package lists

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
)

// quietSource is a source that only has a log.
type quietSource struct{ Source }

func (quietSource) Log() *slog.Logger { return slog.New(slog.DiscardHandler) }

// A page that is the whole list is not copied, but once callers have it, it is not written.
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
	page := []string{"a", "bad", "b", "a", "c"}
	want := []string{"a", "b", "c"}
	first := &wholeList[string]{all: []listPage[string]{{items: page}}}
	l.assemble(first)
	if !slices.Equal(first.items, want) || &first.items[0] != &page[0] {
		t.Errorf("got %v, want %v in the place of the page", first.items, want)
	}
	for key, i := range first.index {
		if first.items[i] != key {
			t.Errorf("%s is found at %d, which is %s", key, i, first.items[i])
		}
	}
	again := &wholeList[string]{all: slices.Clone(first.all)} // its page is still good
	l.assemble(again)
	if !slices.Equal(again.items, want) || &again.items[0] == &first.items[0] {
		t.Errorf("got %v, want %v in a place of its own", again.items, want)
	}
	l.assemble(new(wholeList[string])) // the first page was too large
}
