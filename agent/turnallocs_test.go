package agent_test

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"runtime"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store/memstore"
)

// oneCall is a model that calls a tool, and then answers. Its own events take three allocations of a turn.
type oneCall struct{}

func (oneCall) Name() string { return "one" }

func (oneCall) Stream(_ context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		reason := llm.FinishStop
		if len(req.Messages) > 1 {
			yield(llm.TextDelta{Text: "done"}, nil)
		} else {
			reason = llm.FinishToolCalls
			yield(llm.ToolCall{ID: "call", Name: "tool", Arguments: json.RawMessage(`{"n":1}`)}, nil)
		}
		yield(llm.Finish{Reason: reason}, nil)
	}
}

// TestTurnAllocates bounds what a turn takes, with its part of a run of two turns and one call.
func TestTurnAllocates(t *testing.T) {
	if mcptest.Race {
		t.Skip("with the race detector pools forget on purpose")
	}
	rt, err := agent.Open(t.Context(), &agent.Options{Model: oneCall{}, Store: memstore.New(nil), Logger: slog.New(slog.DiscardHandler), Tools: []agent.Tool{
		agent.Func("tool", "Does it.", func(_ context.Context, in struct{ N int }) (string, error) { return "found", nil })}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	a, err := rt.Agent("a", &agent.Config{Approve: agent.NeverAsk})
	if err != nil {
		t.Fatal(err)
	}
	runs := func(n int) {
		for range n {
			if res, err := a.Run(t.Context(), "go", nil); err != nil || res.Text != "done" {
				t.Fatalf("got %+v, %v", res, err)
			}
		}
	}
	runs(50)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const n = 300
	runs(n)
	runtime.ReadMemStats(&after)
	allocs, bytes := (after.Mallocs-before.Mallocs)/(2*n), (after.TotalAlloc-before.TotalAlloc)/(2*n)
	t.Logf("%d allocations, %d bytes", allocs, bytes)
	if allocs > 75 || bytes > 9300 {
		t.Errorf("a turn takes %d allocations and %d bytes", allocs, bytes)
	}
}
