package bench

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/store/sqlite"
)

var pseudoTime = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// TestAgents: as many sessions as were asked for are live, and all of them end well.
func TestAgents(t *testing.T) {
	s, err := sqlite.Open(filepath.Join(t.TempDir(), "bench.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, o := range []AgentsOptions{
		{Sessions: 1, Duration: -1},
		{Sessions: 40, Duration: -1, Store: s, Turns: 8, Settle: time.Millisecond},
		{Sessions: 10, Duration: -1, SkipMemory: true, Tools: 3, History: 100},
	} {
		rep, err := Agents(t.Context(), &o)
		if err != nil {
			t.Fatalf("Agents(%+v): %v", o, err)
		}
		if p := rep.Passed; p.Sessions != int64(o.Sessions) || p.Failed != 0 || p.Overhead.Count != int64(o.Sessions*(rep.Turns-1)) {
			t.Errorf("Agents(%+v): got %+v", o, p)
		} else if p.Alone.Count == 0 || p.Alone.Count%int64(rep.Turns-1) != 0 || p.QueueingMicros != max(0, p.Overhead.Mean-p.Alone.Mean) {
			t.Errorf("Agents(%+v): got %+v, want turns of one session at a time beside", o, p)
		}
		if l := rep.Live; !o.SkipMemory && l.ForModel+l.ForTool != int64(o.Sessions) {
			t.Errorf("Agents(%+v): got %+v", o, l)
		}
	}
}

func TestAgentsCut(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	rep, err := Agents(ctx, &AgentsOptions{Sessions: 4, Think: time.Hour, Progress: func(Progress) { cancel() }})
	if err != nil || !rep.Cut {
		t.Errorf("Agents: got %+v, %v, want that it was cut short", rep, err)
	}
}

func TestAgentsOptions(t *testing.T) {
	for _, o := range []AgentsOptions{{Sessions: -1}, {Sessions: MaxAgents + 1}, {Turns: 1}, {History: 1}, {Tools: -1}, {Think: -1}} {
		if _, err := Agents(t.Context(), &o); err == nil {
			t.Errorf("Agents(%+v): got no error", o)
		}
	}
}
