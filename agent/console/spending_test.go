package console

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// record is a run with two turns, the second of another model, in a journal.
func record(t *testing.T, s store.Journal, id, agent string, state store.RunState, more ...runlog.Entry) {
	t.Helper()
	var events []store.Event
	for _, e := range append([]runlog.Entry{
		{Type: store.RunStarted, Body: &runlog.RunStarted{Agent: agent, Model: "small"}},
		{Type: store.ModelResult, Body: &runlog.ModelResult{Turn: 1, Message: llm.Assistant("x"), Usage: runlog.Usage{Input: 10, Output: 1, Cost: 5}}},
		{Type: store.ModelResult, Body: &runlog.ModelResult{Turn: 2, Message: llm.Assistant("x"), Model: "large", Usage: runlog.Usage{Input: 20, Output: 2, Cost: 7}}},
	}, more...) {
		ev, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, ev)
	}
	if _, err := s.Create(t.Context(), store.Run{ID: id, Agent: agent, InputHash: "h"}, "w", time.Hour, events...); err != nil {
		t.Fatal(err)
	}
	if state.Ended() {
		end(t, s, id, int64(len(events)), state)
	}
}

func end(t testing.TB, s store.Journal, id string, after int64, state store.RunState) {
	t.Helper()
	e := runlog.Entry{Type: store.RunFinished, Body: &runlog.RunFinished{State: state}}
	ev, err := e.Encode()
	if err == nil {
		_, err = s.Append(t.Context(), store.Append{Run: id, Owner: "w", Epoch: 1, After: after, State: state, Events: []store.Event{ev}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// count looks until all is counted.
func count(t *testing.T, s *spending, j store.Journal, now time.Time) map[spentKey]spent {
	t.Helper()
	for range 10_000 {
		all, counted, err := s.since(t.Context(), j, now, 30)
		if err != nil {
			t.Fatal(err)
		}
		if counted.IsZero() {
			return all
		}
	}
	t.Fatal("the counting does not come to an end")
	return nil
}

// What runs have spent is counted once for each turn, by day, agent and model, also of those that go on, of
// those that come later, and of those that are removed.
func TestSpending(t *testing.T) {
	file, err := sqlite.Open(filepath.Join(t.TempDir(), "troupe.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]store.Store{"memory": memstore.New(nil), "sqlite": file} {
		t.Run(name, func(t *testing.T) {
			defer s.Close()
			for i := range 250 {
				record(t, s, fmt.Sprint("a", i), "clerk", store.Finished)
			}
			record(t, s, "open", "cook", store.Running)
			now, c := time.Now().Add(time.Minute), newSpending()
			check := func(when string, want map[string]spent) {
				t.Helper()
				got := make(map[string]spent)
				for k, sum := range count(t, c, s, now) {
					if k.Day != dayOf(time.Now()) {
						t.Errorf("%s: day %s", when, k.Day)
					}
					got[k.Agent+" "+k.Model] = sum
				}
				for k, sum := range want {
					if got[k] != sum {
						t.Errorf("%s: %s: got %+v, want %+v", when, k, got[k], sum)
					}
				}
				if len(got) != len(want) {
					t.Errorf("%s: got %+v, want %+v", when, got, want)
				}
			}
			want := map[string]spent{"clerk small": {250, 2500, 250, 1250}, "clerk large": {250, 5000, 500, 1750}, "cook small": {1, 10, 1, 5}, "cook large": {1, 20, 2, 7}}
			check("at first", want)
			check("again", want)
			e := runlog.Entry{Type: runlog.SpentType, Body: &runlog.Spent{What: runlog.SpentSampling, Model: "large", Usage: runlog.Usage{Input: 100, Cost: 1}}}
			ev, err := e.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Append(t.Context(), store.Append{Run: "open", Owner: "w", Epoch: 1, After: 3, Events: []store.Event{ev}}); err != nil {
				t.Fatal(err)
			}
			if err := s.Delete(t.Context(), "a7"); err != nil {
				t.Fatal(err)
			}
			want["cook large"] = spent{2, 120, 2, 8}
			check("a run has gone on, another was removed", want)
		})
	}
}
