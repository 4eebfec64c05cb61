package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// told is a sink that keeps what it is told of turns.
type told struct {
	*recorder
	mu    sync.Mutex
	lines []string
}

func (s *told) add(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func (s *told) Text(turn int, delta string)     { s.add("text %d %s", turn, delta) }
func (s *told) Retried(turn int, a llm.Attempt) { s.add("retry %d %d %v", turn, a.Number, a.Err) }
func (s *told) Chose(turn int, c llm.Choice)    { s.add("chose %d %s: %s", turn, c.Model, c.Reason) }
func (s *told) Restarted(turn int)              { s.add("restarted %d", turn) }

// fickle is a model behind a router that breaks off in the midst of a turn, and begins
// again.
type fickle struct{}

func (fickle) Name() string { return "fickle" }

func (fickle) Stream(ctx context.Context, _ *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		o := llm.ObserverOf(ctx)
		o.Chose(llm.Choice{Model: "one", Reason: "cheap"})
		if !yield(llm.TextDelta{Text: "Hel"}, nil) || !yield(llm.ToolCall{ID: "x", Name: "echo", Arguments: json.RawMessage("{}")}, nil) {
			return
		}
		o.Retry(llm.Attempt{Model: "one", Number: 1, Err: errors.New("cut")})
		o.Restart()
		o.Chose(llm.Choice{Model: "two", Reason: "next", Fallback: 1})
		_ = yield(llm.TextDelta{Text: "Hello."}, nil) && yield(llm.Finish{Reason: llm.FinishStop, Model: "two"}, nil)
	}
}

// TestRestartedTurn: what was said before a restart is in no answer and no journal.
func TestRestartedTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		sink := &told{recorder: b.sink}
		cfg := b.config(fickle{}, tool("echo", echo))
		cfg.Sink = sink
		out := b.finish(b.start(cfg))
		if out.Err != nil || out.Text != "Hello." || out.ToolCalls != 0 {
			t.Errorf("outcome: %+v", out)
		}
		want := []string{"chose 1 one: cheap", "text 1 Hel", "retry 1 1 cut", "restarted 1", "chose 1 two: next", "text 1 Hello."}
		if !slices.Equal(sink.lines, want) {
			t.Errorf("told: got %q, want %q", sink.lines, want)
		}
		for _, e := range b.events() {
			if m, ok := e.Body.(*runlog.ModelResult); ok && (m.Message.Content.Text() != "Hello." || *m.Chosen != runlog.Chosen{Model: "two", Reason: "next", Fallback: 1}) {
				t.Errorf("journal: %+v", m)
			}
		}
	})
}

// TestStopWhen: a condition ends the run after a turn with calls, and its panic fails it.
func TestStopWhen(t *testing.T) {
	tests := []struct {
		name  string
		when  func(*guard.TurnInfo) (string, bool)
		state store.RunState
		stop  string
		steps int
	}{
		{"never", func(*guard.TurnInfo) (string, bool) { return "", false }, store.Finished, "stop", 3},
		{"after the second", func(i *guard.TurnInfo) (string, bool) { return "two", i.Turn == 2 }, store.Finished, runlog.StopCondition, 2},
		{"on a result", func(i *guard.TurnInfo) (string, bool) {
			calls := slices.Collect(i.Calls)
			return "seen", calls[0].Made && calls[0].Result.Content.Text() == `{"n":2}` && i.Text == "now"
		}, store.Finished, runlog.StopCondition, 2},
		{"panics", func(*guard.TurnInfo) (string, bool) { panic("no") }, store.Failed, runlog.StopFailed, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				cfg := b.config(llmtest.Script(llmtest.Call("echo", `{"n":1}`),
					llmtest.Join(llmtest.Say("now"), llmtest.Call("echo", `{"n":2}`)), llmtest.Say("done")), tool("echo", echo))
				cfg.StopWhen = tt.when
				out := b.finish(b.start(cfg))
				if out.State != tt.state || out.Stop != tt.stop || out.Steps != tt.steps || (out.Err == nil) != (tt.state == store.Finished) {
					t.Errorf("outcome: %+v", out)
				}
				if met := slices.Contains(b.types(), runlog.StopMetType); met != (tt.stop == runlog.StopCondition) {
					t.Errorf("journal: %q", b.types())
				}
			})
		})
	}
}

// TestHold: while a run that a call has started waits for a human, the clock stands
// still; when the call returns, it goes on whatever it has forgotten (TIME-05).
func TestHold(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		waits := tool("waits", func(ctx context.Context, call *loop.Call) (string, error) {
			release := call.Hold()
			other := call.Hold()
			time.Sleep(time.Hour)
			release()
			release()
			time.Sleep(time.Hour)
			other()
			call.Hold()
			time.Sleep(30 * time.Second)
			return "ok", nil
		})
		hangs := tool("hangs", func(ctx context.Context, _ *loop.Call) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		cfg := b.config(llmtest.Script(llmtest.Call("waits", nil), llmtest.Call("hangs", nil)), waits, hangs)
		cfg.Limits.Wall = time.Minute
		began := time.Now()
		out := b.finish(b.start(cfg))
		var limit *budget.LimitError
		if !errors.As(out.Err, &limit) || limit.Limit != "wall time" {
			t.Fatalf("outcome: %+v", out)
		}
		if took := time.Since(began).Round(time.Minute); took != 2*time.Hour+2*time.Minute && took != 2*time.Hour+time.Minute {
			t.Errorf("the run took %v", time.Since(began))
		}
	})
}
