package agent_test

import (
	"errors"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// A run is found while it lives, after it has ended, and by another runtime.
func TestFind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		gate := llmtest.NewGate()
		rt := open(t, &agent.Options{Store: s, Model: llmtest.Script(llmtest.Join(llmtest.Hold(gate), llmtest.Say("ok")))})
		other := open(t, &agent.Options{Store: s})
		if _, err := rt.Find(t.Context(), "r"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Find before it began: got %v, want %v", err, store.ErrNotFound)
		}
		run := start(t, rt, "r")
		if got, err := rt.Find(t.Context(), "r"); got != run || err != nil {
			t.Errorf("Find: got %v, %v, want the handle", got, err)
		}
		seen, err := other.Find(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		seen.Cancel(errTest) // not its to cancel
		gate.Open()
		if res, err := seen.Wait(t.Context()); err != nil || res.Text != "ok" {
			t.Errorf("Wait in another runtime: got %+v, %v", res, err)
		}
		if got, err := rt.Find(t.Context(), "r"); err != nil || got.ID() != "r" {
			t.Errorf("Find after its end: got %v, %v", got, err)
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
		if _, err := other.Find(t.Context(), "r"); !errors.Is(err, agent.ErrClosed) {
			t.Errorf("Find after Close: got %v, want %v", err, agent.ErrClosed)
		}
	})
}
