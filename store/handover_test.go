package store_test

import (
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/internal/eventhook"
	"github.com/troupe-dev/troupe/store"
)

// TestHandedOver: a body that was handed over is not parsed again; any other is, also one that was
// put in the place of such a body.
func TestHandedOver(t *testing.T) {
	broken := []byte(`{"a":`)
	e := store.Event{Type: "e", Body: broken}
	if store.CheckEvents([]store.Event{e}) == nil {
		t.Error("a body that is no JSON is taken from anyone")
	}
	eventhook.Get[store.Event]().HandOver(&e)
	if err := store.CheckEvents([]store.Event{e}); err != nil {
		t.Errorf("a body that was handed over is parsed again: %v", err)
	}
	for name, body := range map[string][]byte{"another": slices.Clone(broken), "a part": e.Body[:2], "the rest": e.Body[1:]} {
		if e.Body = body; store.CheckEvents([]store.Event{e}) == nil {
			t.Errorf("%s in place of a body that was handed over is not checked", name)
		}
		e.Body = broken[:len(broken):len(broken)]
	}
	e.Body = make([]byte, store.MaxBody+1)
	eventhook.Get[store.Event]().HandOver(&e)
	if store.CheckEvents([]store.Event{e}) == nil {
		t.Error("a body beyond the bound is taken because it was handed over")
	}
}
