package loop_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// appends notes the events of each append.
type appends struct {
	loop.Journal
	mu  sync.Mutex // guards all
	all []string
}

func (j *appends) Append(ctx context.Context, a store.Append) (int64, error) {
	var types []string
	for _, e := range a.Events {
		types = append(types, e.Type)
	}
	j.mu.Lock()
	j.all = append(j.all, strings.Join(types, " "))
	j.mu.Unlock()
	return j.Journal.Append(ctx, a)
}

// TestAppendsOfARun: what follows at once from an answer or a result is written with it, and what
// has an effect once that is durable.
func TestAppendsOfARun(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		write := tool("write", func(context.Context, *loop.Call) (string, error) {
			if got := b.types(); !slices.Contains(got, store.ModelResult) || got[len(got)-1] != store.ToolDispatched {
				t.Errorf("durable before the effect: %v", got)
			}
			return "written", nil
		})
		cfg := b.config(llmtest.Script(llmtest.Call("write", nil), llmtest.Say("done")), write)
		j := &appends{Journal: b.store}
		cfg.Journal = j
		if out := b.finish(b.start(cfg)); out.Text != "done" {
			t.Errorf("outcome: %+v", out)
		}
		want := []string{"tools.listed model.intent", "model.result tool.intent tool.dispatched", "tool.result model.intent", "model.result run.finished"}
		if !slices.Equal(j.all, want) {
			t.Errorf("appends: got %q, want %q", j.all, want)
		}
	})
}

// TestHeldForAMoment: an answer and a result are durable soon, however long the next step takes.
func TestHeldForAMoment(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		cfg := b.config(llmtest.Script(llmtest.Call("write", nil), llmtest.Say("done")), tool("write", echo))
		cfg.Gate = func(context.Context, *loop.Tool, json.RawMessage) guard.Verdict {
			time.Sleep(10 * time.Minute)
			return guard.Allow
		}
		cfg.StopWhen = func(*guard.TurnInfo) (string, bool) {
			time.Sleep(10 * time.Minute)
			return "", false
		}
		run := b.start(cfg)
		time.Sleep(time.Minute)
		synctest.Wait()
		b.wantTypes("run.started tools.listed model.intent model.result")
		time.Sleep(10 * time.Minute)
		b.wantTypes("run.started tools.listed model.intent model.result i d r")
		if out := b.finish(run); out.Text != "done" {
			t.Errorf("outcome: %+v", out)
		}
		b.wantTypes("run.started tools.listed model.intent model.result i d r model.intent model.result run.finished")
	})
}

// TestHeldAtTheEnd: a guard that stops the run after a call leaves the call's result in the journal,
// and nothing of a next turn.
func TestHeldAtTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		cfg := b.config(llmtest.Script(llmtest.Call("write", nil)), tool("write", echo))
		cfg.Guards = []guard.Guard{{AfterTool: func(context.Context, *guard.Return) guard.Result { return guard.Stopped("enough") }}}
		if out := b.finish(b.start(cfg)); out.State != store.Failed {
			t.Errorf("outcome: %+v", out)
		}
		b.wantTypes("run.started tools.listed model.intent model.result i d r " + runlog.GuardActedType + " run.finished")
	})
}
