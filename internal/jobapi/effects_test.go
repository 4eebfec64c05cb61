package jobapi_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/jobapi"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// The effects of a job are those of all its attempts, each call once: a fork has those of its source.
func TestEffectsOf(t *testing.T) {
	s := memstore.New(nil)
	record := func(run string, entries ...runlog.Entry) {
		t.Helper()
		events := make([]store.Event, len(entries))
		for i := range entries {
			entries[i].Time = time.Now()
			var err error
			if events[i], err = entries[i].Encode(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Create(t.Context(), store.Run{ID: run, Agent: "main"}, "w", time.Hour, events...); err != nil {
			t.Fatal(err)
		}
	}
	began := func() runlog.Entry {
		return runlog.Entry{Type: store.RunStarted, Body: &runlog.RunStarted{Agent: "main"}}
	}
	call := func(tool, key string, done bool) (all []runlog.Entry) {
		all = []runlog.Entry{{Type: store.ToolIntent, Key: key, Body: &runlog.ToolIntent{Turn: 1, CallID: key, Tool: tool, Server: "bank"}},
			{Type: store.ToolDispatched, Key: key, Body: &runlog.ToolDispatched{Turn: 1, CallID: key}}}
		if done {
			all = append(all, runlog.Entry{Type: store.ToolResult, Key: key, Body: &runlog.ToolResult{Turn: 1, CallID: key, Tool: tool, Server: "bank", Made: true, Result: new(mcp.CallToolResult)}})
		}
		return all
	}
	record("j.1", append([]runlog.Entry{began()}, call("pay", "a", true)...)...)
	record("j.2", append(append([]runlog.Entry{began()}, call("pay", "a", true)...), call("pay", "b", false)...)...)
	got, err := jobapi.EffectsOf(t.Context(), s, &store.Job{ID: "j", Attempts: 3, Run: "j.2"}) // the third was not begun
	if err != nil || len(got.Calls) != 2 || got.Unread != 0 {
		t.Fatalf("EffectsOf: got %+v, %v, want two calls", got, err)
	}
	if text := fmt.Sprint(jobapi.CountEffects(got.Calls)); text != "[pay of the server bank, 2 calls, of them 1 of unknown outcome]" {
		t.Errorf("CountEffects: got %s", text)
	}
}
