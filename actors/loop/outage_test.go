package loop_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

var down = &llm.Error{Provider: "p", Status: 503, Retryable: true}

// keeps is a configuration whose run is left where the model cannot be asked.
func (b *bench) keeps(model llm.Model, list ...loop.Tool) *loop.Config {
	cfg := b.config(model, list...)
	cfg.Stored = true
	return cfg
}

// TestOutage: what is the provider's state leaves a run of a store, which goes on with the same turn when it is resumed; what
// was refused costs nothing. Anything else fails it, as does an outage where there is no such store.
func TestOutage(t *testing.T) {
	tests := []struct {
		err      error
		class    string // empty: it fails
		billed   bool
		provider string
		after    time.Duration // until it is resumed
	}{
		{down, "server", false, "p", time.Second},
		{&llm.Error{Provider: "q", Status: 429, Err: llm.ErrRateLimit, RetryAfter: 48 * time.Second}, "rate_limit", false, "q", 48 * time.Second},
		{&llm.Error{Provider: "q", Status: 429, Err: llm.ErrRateLimit, RetryAfter: 48 * time.Hour}, "rate_limit", false, "q", time.Hour},
		{&llm.Error{Provider: "q", Status: 401, Err: llm.ErrAuth}, "auth", false, "q", time.Second},
		{&llm.Error{Provider: "q", Err: llm.ErrIdle}, "stream", true, "q", time.Second},
		{fmt.Errorf("all of them: %w", errors.Join(&llm.Error{Provider: "a", Err: llm.ErrNotFound}, &llm.Error{Provider: "b", Err: llm.ErrUnreachable})), "unreachable", false, "a", time.Second},
		{&llm.Error{Provider: "q", Status: 404, Err: llm.ErrNotFound}, "", false, "", 0},
		{&llm.Error{Provider: "q", Status: 400, Err: llm.ErrInvalidRequest}, "", false, "", 0},
		{&llm.Error{Provider: "q", Err: llm.ErrContextLength}, "", false, "", 0},
		{errors.New("a bug"), "", false, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.err.Error(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				cfg := b.keeps(llmtest.Script(llmtest.Fail(tt.err)))
				cfg.Limits.ModelCalls = 1
				if tt.billed {
					cfg.Limits.ModelCalls = 2
				}
				began := time.Now()
				out := b.finish(b.start(cfg))
				if tt.class == "" {
					if out.State != store.Failed || !errors.Is(out.Err, tt.err) || errors.Is(out.Err, loop.ErrSuspended) {
						t.Errorf("outcome: %+v", out)
					}
					return
				}
				away, ok := errors.AsType[*loop.OutageError](out.Err)
				if !ok || out.State != store.Waiting || !errors.Is(out.Err, loop.ErrSuspended) || !errors.Is(out.Err, tt.err) {
					t.Fatalf("outcome: %+v", out)
				}
				if away.Class != tt.class || away.Provider != tt.provider || away.RetryAt.Sub(began) != tt.after {
					t.Errorf("the outage: %+v, to be resumed after %v", away, away.RetryAt.Sub(began))
				}
				b.wantTypes("run.started tools.listed model.intent model.failed run.parked")
				for _, e := range b.events() {
					switch body := e.Body.(type) {
					case *runlog.ModelFailed:
						if !body.Lost || body.Class != tt.class || body.Unbilled == tt.billed || (body.Usage.Total() > 0) != tt.billed {
							t.Errorf("model.failed: %+v", body)
						}
					case *runlog.RunParked:
						if body.Class != tt.class || !body.Wake.Equal(began.Add(tt.after)) || !body.Since.Equal(began) {
							t.Errorf("run.parked: %+v", body)
						}
					}
				}
				if s := stateOf(t, b); s.Outage == nil || s.Outage.Class != tt.class || !s.Outage.Since.Equal(began) || s.Progress != 0 {
					t.Errorf("the fold: %+v, progress %d", s.Outage, s.Progress)
				}
				if head, err := b.store.Run(t.Context(), "r1"); err != nil || head.State != store.Waiting || head.Leased(time.Now()) {
					t.Errorf("its row: %+v, %v", head, err)
				}
				b, again := b.resume(b.keeps(llmtest.Script(llmtest.Say("ok"))))
				if out := b.finish(again); out.Text != "ok" || out.Steps != 1 || out.Spent.ModelCalls != cfg.Limits.ModelCalls {
					t.Errorf("resumed: %+v", out)
				}
				if s := stateOf(t, b); s.Outage != nil || s.Progress == 0 {
					t.Errorf("the fold at the end: %+v, progress %d", s.Outage, s.Progress)
				}
			})
		})
	}
	inBubble(t, func(t *testing.T, b *bench) {
		if out := b.finish(b.start(b.config(llmtest.Script(llmtest.Fail(down))))); out.State != store.Failed || errors.Is(out.Err, loop.ErrSuspended) {
			t.Errorf("without a store that is kept: %+v", out)
		}
	})
}

// TestLongOutage: a run waits for its model for hours, in which each try takes long, and is not out of its time of a minute. It is
// tried again after as long as the outage has lasted, up to a minute.
func TestLongOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		echoes := tool("echo", echo)
		slow := llmtest.Join(llmtest.Slow(20*time.Second), llmtest.Fail(down))
		cfg := b.keeps(llmtest.Script(llmtest.Call("echo", nil), slow), echoes)
		cfg.Limits.Wall = time.Minute
		began, tries := time.Now(), 1
		run := b.start(cfg)
		var since time.Time
		for {
			out := b.finish(run)
			away, ok := errors.AsType[*loop.OutageError](out.Err)
			if !ok {
				t.Fatalf("after %v: %+v", time.Since(began), out)
			}
			if tries == 1 {
				since = away.Since
			}
			wait := min(max(time.Since(since), time.Second), time.Minute)
			if got := time.Until(away.RetryAt); got != wait || !away.Since.Equal(since) {
				t.Errorf("try %d: resumed after %v, away since %v, want %v and %v", tries, got, away.Since, wait, since)
			}
			if time.Since(began) > 6*time.Hour {
				break
			}
			time.Sleep(time.Until(away.RetryAt))
			tries++
			b, run = b.resume(b.keeps(llmtest.Script(slow), echoes))
		}
		if s := stateOf(t, b); !s.Outage.Since.Equal(since) || s.Wall < 59*time.Second || s.Steps != 1 {
			t.Errorf("the fold after %d tries: %+v, %v are left, %d steps", tries, s.Outage, s.Wall, s.Steps)
		}
		b, run = b.resume(b.keeps(llmtest.Script(llmtest.Say("ok")), echoes))
		if out := b.finish(run); out.Text != "ok" || out.Spent.ModelCalls != 2 {
			t.Errorf("at the end: %+v", out)
		}
	})
}

// TestOutOfTimeInOutage: the time of a run that passes while its model's provider is waited for does not end it.
func TestOutOfTimeInOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		later := &llm.Error{Provider: "p", Status: 429, Retryable: true, RetryAfter: 50 * time.Second, Err: llm.ErrRateLimit}
		cfg := b.keeps(&flaky{Model: llmtest.Script(llmtest.Join(llmtest.Slow(later.RetryAfter), llmtest.Say("never"))), said: []string{""}, err: later})
		cfg.Limits.Wall = 20 * time.Second
		began := time.Now()
		out := b.finish(b.start(cfg))
		if _, ok := errors.AsType[*loop.OutageError](out.Err); !ok || time.Since(began) != 20*time.Second {
			t.Fatalf("after %v: %+v", time.Since(began), out)
		}
		b, again := b.resume(b.keeps(llmtest.Script(llmtest.Join(llmtest.Slow(15*time.Second), llmtest.Say("ok")))))
		if out := b.finish(again); out.Text != "ok" {
			t.Errorf("resumed: %+v", out)
		}
	})
}

// TestOutageOfLastTurn: a run at its limit whose model is away for the last turn has it when it is resumed.
func TestOutageOfLastTurn(t *testing.T) {
	for name, limits := range map[string]loop.Limits{"steps": {Steps: 2}, "model calls": {ModelCalls: 2}, "tool calls": {ToolCalls: 1}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				turns := []llmtest.Turn{llmtest.Call("echo", nil)}
				if limits.ToolCalls > 0 {
					turns = append(turns, llmtest.Call("echo", `{"n":1}`))
				}
				limits.OnLimit = runlog.LimitWrapUp
				cfg := b.keeps(llmtest.Script(append(turns, llmtest.Fail(down))...), tool("echo", echo))
				cfg.Limits = limits
				for range 3 {
					run := b.start(cfg)
					if out := b.finish(run); !errors.Is(out.Err, loop.ErrSuspended) {
						t.Fatalf("outcome: %+v", out)
					}
					cfg = b.keeps(llmtest.Script(llmtest.Fail(down)), tool("echo", echo))
					head, state := b.claim(t)
					cfg.Owner, cfg.Origin = "second", nil
					b.sink = &recorder{asked: make(chan store.Ask, 100)}
					cfg.Sink = b.sink
					cfg.Resumes = &loop.Resumption{Head: head, Claimed: time.Now(), State: state}
				}
				cfg.Model = llmtest.Script(llmtest.Say("all that I have"))
				out := b.finish(b.start(cfg))
				limit, ok := errors.AsType[*budget.LimitError](out.Err)
				if out.State != store.Limited || out.Text != "all that I have" || !ok || limit.Limit != name {
					t.Errorf("outcome: %+v", out)
				}
				notes := 0
				for _, e := range b.events() {
					if e.Type == runlog.InputAddedType {
						notes++
					}
				}
				if notes != 1 {
					t.Errorf("the model was told %d times that it is the last turn", notes)
				}
			})
		})
	}
}

// claim claims the run for another process.
func (b *bench) claim(t *testing.T) (store.Run, *runlog.State) {
	t.Helper()
	head, err := b.store.Claim(context.Background(), "r1", "second", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return head, stateOf(t, b)
}
