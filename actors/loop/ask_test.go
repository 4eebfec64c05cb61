package loop_test

import (
	"context"
	"encoding/json"
	"errors"
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

// askFirst is a run that asks about each call of its tool.
func (b *bench) askFirst(model *llmtest.Model) *loop.Config {
	write := tool("write", echo)
	write.Server, write.Origin = "files", "cmd --flag"
	cfg := b.config(model, write)
	cfg.Gate = func(context.Context, *loop.Tool, json.RawMessage) guard.Verdict { return guard.Ask }
	return cfg
}

func accept() store.Decision {
	return store.Decision{Status: store.AskAccepted, Scope: "once", By: "ada"}
}

func TestAsk(t *testing.T) {
	tests := []struct {
		name     string
		decision store.Decision
		want     string
		events   string
	}{
		{"accept", accept(), `{"a":1}`, "i ask.opened ask.settled d r"},
		{"decline", store.Decision{Status: store.AskDeclined, Answer: runlog.DeclineAnswer("not today"), By: "ada"},
			"error: not called: the user declined it: not today", "i ask.opened ask.settled r"},
		{"nobody answers", store.Decision{}, "error: not called: it needs a human's consent, and no answer came in time",
			"i ask.opened ask.settled r"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				model := llmtest.Script(llmtest.Call("write", `{"a":1}`), llmtest.Say("ok"))
				began := time.Now()
				run := b.start(b.askFirst(model))
				row := <-b.sink.asked
				// SECA-41: what is shown is what would be called, and it has a hash.
				if row.Server != "files" || row.Origin != "cmd --flag" || row.Tool != "write" || row.Hash == "" ||
					string(row.Payload) != `{"server":"files","tool":"write","definition":"hash-write","arguments":{"a":1}}` {
					t.Errorf("ask: %+v, payload %s", row, row.Payload)
				}
				if head, err := b.store.Run(t.Context(), "r1"); err != nil || head.State != store.Waiting {
					t.Errorf("while it waits: %+v, %v", head, err)
				}
				if tt.decision.Status != "" {
					if _, err := run.Answer(t.Context(), row.ID, tt.decision); err != nil {
						t.Errorf("Answer: %v", err)
					}
				}
				out := b.finish(run)
				if out.Err != nil {
					t.Fatal(out.Err)
				}
				if tt.decision.Status == "" && time.Since(began) != 10*time.Minute {
					t.Errorf("expired after %v, want 10m", time.Since(began))
				}
				if got := results(model.Requests()[1]); !slices.Equal(got, []string{tt.want}) {
					t.Errorf("result: got %q, want %q", got, tt.want)
				}
				b.wantTypes("run.started tools.listed model.intent model.result " + tt.events + " model.intent model.result run.finished")
				if _, err := run.Answer(t.Context(), row.ID, accept()); !errors.Is(err, store.ErrSettled) {
					t.Errorf("a second answer: got %v, want ErrSettled", err) // SECA-51
				}
			})
		})
	}
}

// TestRacingAnswers: of two, the first counts, and the other hears of it (SECA-51).
func TestRacingAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		model := llmtest.Script(llmtest.Call("write", `{"a":1}`), llmtest.Say("ok"))
		run := b.start(b.askFirst(model))
		row := <-b.sink.asked
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() {
				d := accept()
				if i%2 == 1 {
					d = store.Decision{Status: store.AskDeclined}
				}
				_, errs[i] = run.Answer(t.Context(), row.ID, d)
			})
		}
		wg.Wait()
		b.finish(run)
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else if !errors.Is(err, store.ErrSettled) {
				t.Errorf("Answer: %v", err)
			}
		}
		if won != 1 {
			t.Errorf("answers that counted: %d, want 1", won)
		}
		if n := count(b.types(), store.AskSettled); n != 1 {
			t.Errorf("ask.settled: %d times", n)
		}
	})
}

func count(list []string, s string) (n int) {
	for _, l := range list {
		if l == s {
			n++
		}
	}
	return n
}

// TestAnswerFromElsewhere: another process answers in the store.
func TestAnswerFromElsewhere(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		model := llmtest.Script(llmtest.Call("write", `{"a":1}`), llmtest.Say("ok"))
		run := b.start(b.askFirst(model))
		row := <-b.sink.asked
		time.Sleep(90 * time.Second)
		if _, err := b.store.SettleAsk(t.Context(), row.ID, accept()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if out := b.finish(run); out.Err != nil || time.Since(began) > time.Second {
			t.Errorf("after %v: %+v", time.Since(began), out)
		}
		if got := results(model.Requests()[1]); got[0] != `{"a":1}` {
			t.Errorf("result: got %q", got)
		}
	})
}

// TestScopeRun: consent for the run holds for that definition, and no other.
func TestScopeRun(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		model := llmtest.Script(llmtest.Call("write", `{"a":1}`), llmtest.Call("write", `{"a":2}`), llmtest.Call("other", nil), llmtest.Say("ok"))
		cfg := b.askFirst(model)
		cfg.Tools = append(cfg.Tools.(tools), tool("other", echo))
		run := b.start(cfg)
		d := accept()
		d.Scope = runlog.ScopeRun
		if _, err := run.Answer(t.Context(), (<-b.sink.asked).ID, d); err != nil {
			t.Fatal(err)
		}
		if row := <-b.sink.asked; row.Tool != "other" {
			t.Errorf("the second question is about %s", row.Tool)
		}
		b.finish(run)
		if n := count(b.types(), store.AskOpened); n != 2 {
			t.Errorf("questions: %d, want 2", n)
		}
	})
}

// TestWallStandsStill: the time a human takes is not the run's (TIME-05).
func TestWallStandsStill(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		turn := llmtest.Join(llmtest.Slow(40*time.Second), llmtest.Call("write", nil))
		cfg := b.askFirst(llmtest.Loop(turn))
		cfg.Limits.Wall = 100 * time.Second
		began := time.Now()
		run := b.start(cfg)
		for range 2 {
			row := <-b.sink.asked
			time.Sleep(5 * time.Minute)
			if _, err := run.Answer(t.Context(), row.ID, accept()); err != nil {
				t.Fatal(err)
			}
		}
		out := b.finish(run)
		if took := time.Since(began); took != 100*time.Second+10*time.Minute || out.State != store.Limited {
			t.Errorf("ended after %v: %+v", took, out)
		}
	})
}

// TestAskedAndAllowedTogether: calls that need no answer do not wait for those that do.
func TestAskedAndAllowedTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		model := llmtest.Script(llmtest.Calls(llmtest.Call("write", nil), llmtest.Call("read", `{"r":1}`)), llmtest.Say("ok"))
		cfg := b.askFirst(model)
		cfg.Tools = append(cfg.Tools.(tools), tool("read", echo))
		cfg.Gate = func(_ context.Context, tool *loop.Tool, _ json.RawMessage) guard.Verdict {
			if tool.Name == "read" {
				return guard.Allow
			}
			return guard.Ask
		}
		run := b.start(cfg)
		synctest.Wait()
		if n := count(b.types(), store.ToolResult); n != 1 {
			t.Errorf("results before the answer: %d, want 1", n)
		}
		if _, err := run.Answer(t.Context(), (<-b.sink.asked).ID, store.Decision{Status: store.AskDeclined}); err != nil {
			t.Fatal(err)
		}
		b.finish(run)
		want := []string{"error: not called: the user declined it", `{"r":1}`}
		if got := results(model.Requests()[1]); !slices.Equal(got, want) {
			t.Errorf("results: got %q, want %q", got, want)
		}
	})
}

// TestGate: a gate that panics asks, one that denies refuses, and none at all asks.
func TestGate(t *testing.T) {
	tests := []struct {
		name string
		gate func(context.Context, *loop.Tool, json.RawMessage) guard.Verdict
		asks int
	}{
		{"none", nil, 1},
		{"panics", func(context.Context, *loop.Tool, json.RawMessage) guard.Verdict { panic("bug") }, 1},
		{"nonsense", func(context.Context, *loop.Tool, json.RawMessage) guard.Verdict { return 99 }, 1},
		{"denies", func(context.Context, *loop.Tool, json.RawMessage) guard.Verdict { return guard.Deny }, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				model := llmtest.Script(llmtest.Call("write", nil), llmtest.Say("ok"))
				cfg := b.askFirst(model)
				cfg.Gate = tt.gate
				out := b.finish(b.start(cfg))
				if out.Err != nil || out.ToolCalls != 0 {
					t.Errorf("outcome: %+v", out)
				}
				if n := len(b.allAsks(t)); n != tt.asks {
					t.Errorf("questions: got %d, want %d", n, tt.asks)
				}
			})
		})
	}
}

// TestAskThatCannotBeStored is no yes.
func TestAskThatCannotBeStored(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		model := llmtest.Script(llmtest.Call("write", nil), llmtest.Say("ok"))
		cfg := b.askFirst(model)
		long := tool("write", echo)
		long.Origin = strings.Repeat("x", store.MaxText+1)
		cfg.Tools = tools{long}
		out := b.finish(b.start(cfg))
		want := "error: not called: it needs a human's consent, and cannot be asked about: store: ask.Origin has size 4097, at most 4096 is allowed"
		if got := results(model.Requests()[1]); out.Err != nil || got[0] != want {
			t.Errorf("result: got %q, outcome %+v", got, out)
		}
	})
}
