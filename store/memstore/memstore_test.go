package memstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/eventhook"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
	"github.com/troupe-dev/troupe/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return memstore.New(nil) })
}

func BenchmarkAppend(b *testing.B) {
	storetest.Benchmark(b, func(*testing.B) store.Store { return memstore.New(&memstore.Options{MaxBytes: 1 << 40}) })
}

// TestFull: the bound holds, refuses whole writes, and deleting gives all of it back.
func TestFull(t *testing.T) {
	s := memstore.New(&memstore.Options{MaxBytes: 64 << 10})
	ctx := t.Context()
	body := json.RawMessage(`"` + strings.Repeat("x", 10<<10) + `"`)
	for round := range 3 {
		r, err := s.Create(ctx, store.Run{ID: "r"}, "w", time.Hour)
		if err != nil {
			t.Fatalf("round %d: Create: %v", round, err)
		}
		if err := s.OpenAsk(ctx, store.Ask{ID: "q", Run: "r", Kind: "k"}); err != nil {
			t.Fatalf("round %d: OpenAsk: %v", round, err)
		}
		if _, err := s.SettleAsk(ctx, "q", store.Decision{Status: store.AskAccepted, Answer: body}); err != nil {
			t.Fatalf("round %d: SettleAsk: %v", round, err)
		}
		for n := int64(1); ; n++ {
			_, err = s.Append(ctx, store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Summary: "s", Events: []store.Event{{Type: "e", Body: body}}})
			if err != nil {
				if n != 6 {
					t.Errorf("round %d: append %d of 10 KiB: got %v, want the sixth to be the first that fails", round, n, err)
				}
				break
			}
		}
		if !errors.Is(err, store.ErrFull) {
			t.Errorf("round %d: got %v, want %v", round, err, store.ErrFull)
		}
		if _, err := s.Append(ctx, store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: store.Unchecked, State: store.Failed}); err != nil {
			t.Errorf("round %d: ending a run in a full store: %v", round, err)
		}
		if err := s.Delete(ctx, "r"); err != nil {
			t.Fatalf("round %d: Delete: %v", round, err)
		}
	}
}

func Example() {
	ctx := context.Background()
	s := memstore.New(nil)
	defer s.Close()

	run, err := s.Create(ctx, store.Run{ID: "greet-1", Agent: "greeter", Title: "Greet Ada."}, "worker-1", time.Minute,
		store.Event{Type: store.RunStarted, Body: json.RawMessage(`{"prompt":"Greet Ada."}`)})
	if err != nil {
		log.Fatal(err)
	}
	_, err = s.Append(ctx, store.Append{Run: run.ID, Owner: run.Owner, Epoch: run.Epoch, After: store.Unchecked, State: store.Finished, Events: []store.Event{
		{Type: store.ModelResult, Body: json.RawMessage(`{"text":"Hello, Ada."}`)},
		{Type: store.RunFinished},
	}})
	if err != nil {
		log.Fatal(err)
	}
	for e, err := range store.Replay(ctx, s, run.ID, 0) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Seq, e.Type, string(e.Body))
	}
	// Output:
	// 1 run.started {"prompt":"Greet Ada."}
	// 2 model.result {"text":"Hello, Ada."}
	// 3 run.finished
}

// TestHandedOver: what was handed over is kept without a copy. Neither a reader nor a caller whose
// events were not handed over can change what is stored.
func TestHandedOver(t *testing.T) {
	s, ctx := memstore.New(nil), t.Context()
	events := []store.Event{{Type: "e", Body: json.RawMessage(`"ours"`)}, {Type: "e", Body: json.RawMessage(`"theirs"`)}}
	eventhook.Get[store.Event]().HandOver(&events[0])
	r, err := s.Create(ctx, store.Run{ID: "r"}, "w", time.Hour, events...)
	if err != nil {
		t.Fatal(err)
	}
	read := func() []store.Event {
		page, err := s.Events(ctx, r.ID, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return page
	}
	copy(events[1].Body, `"spoilt"`)
	page := read()
	copy(page[0].Body, `"bad!"`)
	if page = read(); string(page[0].Body) != `"ours"` || string(page[1].Body) != `"theirs"` {
		t.Errorf("got %s and %s", page[0].Body, page[1].Body)
	}
	copy(events[0].Body, `"kept"`) // which the encoder never does
	if page = read(); string(page[0].Body) != `"kept"` {
		t.Errorf("what was handed over has been copied: got %s", page[0].Body)
	}
}
