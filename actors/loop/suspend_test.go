package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// askAboutWrite is a run whose tool write asks, and whose tool work takes d.
func (b *bench) askAboutWrite(d time.Duration) *loop.Config {
	work := tool("work", func(ctx context.Context, _ *loop.Call) (string, error) {
		select {
		case <-time.After(d):
			return "worked", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	model := llmtest.Script(llmtest.Calls(llmtest.Call("work", nil), llmtest.Call("write", nil)), llmtest.Say("ok"))
	cfg := b.config(model, work, tool("write", echo))
	cfg.Gate = func(_ context.Context, t *loop.Tool, _ json.RawMessage) guard.Verdict {
		if t.Name == "write" {
			return guard.Ask
		}
		return guard.Allow
	}
	return cfg
}

func TestSuspend(t *testing.T) {
	tests := []struct {
		name  string
		takes time.Duration // the call beside the question
		want  string
	}{
		{"a call returns in time", time.Second, " r"},
		{"a call does not", time.Hour, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				run := b.start(b.askAboutWrite(tt.takes))
				row := <-b.sink.asked
				if err := run.Suspend(t.Context()); err != nil {
					t.Fatalf("Suspend: %v", err)
				}
				out := b.finish(run)
				if out.State != store.Waiting || !errors.Is(out.Err, loop.ErrSuspended) {
					t.Errorf("outcome: got %+v, want it waiting", out)
				}
				b.wantTypes("run.started tools.listed model.intent model.result i i ask.opened d" + tt.want + " run.parked")
				if ask, err := b.store.Ask(t.Context(), row.ID); err != nil || ask.Status != store.AskPending {
					t.Errorf("the question: got %+v, %v, want it pending", ask, err)
				}
				head, err := b.store.Run(t.Context(), "r1")
				if err != nil || head.State != store.Waiting || head.Leased(time.Now()) {
					t.Errorf("the run: got %+v, %v, want it waiting and free", head, err)
				}
				run.Cancel(errors.New("too late"))
				if err := run.Suspend(t.Context()); err == nil {
					t.Error("Suspend again: got no error")
				}
			})
		})
	}
}

// TestSuspendAtWork: a run is suspended wherever it is. The model and a call that return within the grace
// are in the journal; else the turn is charged as lost, and the call is as it was.
func TestSuspendAtWork(t *testing.T) {
	for _, tt := range []struct {
		name  string
		model llmtest.Turn
		takes time.Duration // the call
		want  string
	}{
		{"the model answers in time", llmtest.Join(llmtest.Slow(time.Second), llmtest.Say("ok")), 0, "run.started tools.listed model.intent model.result run.parked"},
		{"the model does not", llmtest.Slow(time.Hour), 0, "run.started tools.listed model.intent model.failed run.parked"},
		{"a call returns in time", llmtest.Call("work", nil), time.Second, "run.started tools.listed model.intent model.result i d r run.parked"},
		{"a call does not", llmtest.Call("work", nil), time.Hour, "run.started tools.listed model.intent model.result i d run.parked"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				cfg := b.askAboutWrite(tt.takes)
				cfg.Model = llmtest.Script(tt.model)
				run := b.start(cfg)
				synctest.Wait()
				began := time.Now()
				if err := run.Suspend(t.Context()); err != nil || time.Since(began) > 6*time.Second {
					t.Fatalf("Suspend: %v after %v", err, time.Since(began))
				}
				if out := b.finish(run); !errors.Is(out.Err, loop.ErrSuspended) {
					t.Errorf("outcome: got %+v, want it suspended", out)
				}
				b.wantTypes(tt.want)
				if head, err := b.store.Run(t.Context(), "r1"); err != nil || head.State != store.Waiting || head.Leased(time.Now()) {
					t.Errorf("the run: got %+v, %v, want it waiting and free", head, err)
				}
				if err := run.Suspend(t.Context()); err == nil {
					t.Error("Suspend again: got no error")
				}
			})
		})
	}
}

// TestSuspendIdle: only a run that waits for nothing but answers is idle; a run whose question is
// answered goes on.
func TestSuspendIdle(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		run := b.start(b.askAboutWrite(time.Second))
		row := <-b.sink.asked
		synctest.Wait()
		if err := run.SuspendIdle(t.Context()); !errors.Is(err, loop.ErrNotWaiting) {
			t.Errorf("SuspendIdle beside a call: got %v, want ErrNotWaiting", err)
		}
		time.Sleep(2 * time.Second)
		if err := run.Idle(t.Context()); err != nil {
			t.Errorf("Idle: %v", err)
		}
		if _, err := run.Answer(t.Context(), row.ID, accept()); err != nil {
			t.Fatalf("Answer: %v", err)
		}
		if err := run.SuspendIdle(t.Context()); err == nil {
			t.Error("SuspendIdle after the answer: got no error")
		}
		if out := b.finish(run); out.State != store.Finished || out.ToolCalls != 2 {
			t.Errorf("outcome: got %+v, want an answer after two calls", out)
		}
	})
}

// TestAnswerDuringSuspend: an answer that comes while the run is being suspended counts when it goes on.
func TestAnswerDuringSuspend(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		run := b.start(b.askAboutWrite(time.Second))
		row := <-b.sink.asked
		run.BeginSuspend()
		synctest.Wait()
		if _, err := run.Answer(t.Context(), row.ID, accept()); err != nil {
			t.Fatalf("Answer: %v", err)
		}
		if out := b.finish(run); !errors.Is(out.Err, loop.ErrSuspended) {
			t.Errorf("outcome: got %+v, want it suspended", out)
		}
		cfg := b.askAboutWrite(time.Second)
		cfg.Model = llmtest.Script(llmtest.Say("ok"))
		next, again := b.resume(cfg)
		if out := next.finish(again); out.State != store.Finished || out.ToolCalls != 2 {
			t.Errorf("outcome: got %+v, want an answer after two calls", out)
		}
	})
}

// What a call has asked that is given up for a suspension is withdrawn: nobody waits for
// the answer any more. The question whether a call may be made stays.
func TestSuspendWithdrawsWhatCallsAsk(t *testing.T) {
	for name, deaf := range map[string]bool{"of a call that heeds its context": false, "of one that does not": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				cfg := b.askAboutWrite(0)
				cfg.Model = llmtest.Script(llmtest.Calls(llmtest.Call("write", nil), llmtest.Call("raises", nil)))
				cfg.Tools = tools{tool("write", echo), tool("raises", func(ctx context.Context, call *loop.Call) (string, error) {
					if deaf {
						ctx = context.WithoutCancel(ctx)
					}
					_, err := call.Ask(ctx, loop.Question{Kind: runlog.AskForm, Payload: json.RawMessage(`{}`)})
					return "", err
				})}
				run := b.start(cfg)
				approval, raised := <-b.sink.asked, <-b.sink.asked
				synctest.Wait()
				if err := run.Suspend(t.Context()); err != nil {
					t.Fatalf("Suspend: %v", err)
				}
				b.finish(run)
				for id, want := range map[string]store.AskStatus{approval.ID: store.AskPending, raised.ID: store.AskCancelled} {
					if ask, err := b.store.Ask(t.Context(), id); err != nil || ask.Status != want {
						t.Errorf("the question %s: got %q, %v, want %q", id, ask.Status, err, want)
					}
				}
			})
		})
	}
}
