package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/budget"
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
		{"a call returns in time", time.Second, "r"},
		{"a call does not", time.Hour, "u"},
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
				b.wantTypes("run.started tools.listed model.intent model.result i i ask.opened d " + tt.want + " run.parked")
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

func TestSuspendWithoutQuestion(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		gate := llmtest.NewGate()
		run := b.start(b.config(llmtest.Script(llmtest.Join(llmtest.Hold(gate), llmtest.Say("ok")))))
		<-gate.Reached()
		if err := run.Suspend(t.Context()); !errors.Is(err, loop.ErrNotWaiting) {
			t.Errorf("Suspend: got %v, want ErrNotWaiting", err)
		}
		gate.Open()
		if out := b.finish(run); out.State != store.Finished {
			t.Errorf("outcome: got %+v, want an answer", out)
		}
	})
}

// A run whose question is answered while it waits to be suspended goes on, and
// makes the calls that were held back.
func TestAnswerOvertakesSuspend(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		run := b.start(b.askAboutWrite(time.Second))
		row := <-b.sink.asked
		suspended := make(chan error, 1)
		go func() { suspended <- run.Suspend(t.Context()) }()
		synctest.Wait()
		if _, err := run.Answer(t.Context(), row.ID, accept()); err != nil {
			t.Fatalf("Answer: %v", err)
		}
		if err := <-suspended; !errors.Is(err, loop.ErrNotWaiting) {
			t.Errorf("Suspend: got %v, want ErrNotWaiting", err)
		}
		if out := b.finish(run); out.State != store.Finished || out.ToolCalls != 2 {
			t.Errorf("outcome: got %+v, want an answer after two calls", out)
		}
	})
}

// A call that was given up for a suspension holds the run's clock no more, if the run goes
// on after all (TIME-05).
func TestClockAfterAnOvertakenSuspend(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		cfg := b.askAboutWrite(0)
		cfg.Model = llmtest.Script(llmtest.Calls(llmtest.Call("deaf", nil), llmtest.Call("write", nil)), llmtest.Slow(24*time.Hour))
		cfg.Tools = tools{tool("write", echo), tool("deaf", func(_ context.Context, call *loop.Call) (string, error) {
			defer call.Hold()()
			time.Sleep(time.Minute)
			return "late", nil
		})}
		cfg.Limits.Wall = 10 * time.Minute
		cfg.Journal = &slowJournal{Journal: b.store, slow: store.ToolUnknown, wait: 2 * time.Second}
		began := time.Now()
		run := b.start(cfg)
		row := <-b.sink.asked
		suspended := make(chan error, 1)
		go func() { suspended <- run.Suspend(t.Context()) }()
		time.Sleep(6 * time.Second) // virtual: the call was given up a second ago, which is being written
		if _, err := run.Answer(t.Context(), row.ID, accept()); err != nil {
			t.Fatalf("Answer: %v", err)
		}
		if err := <-suspended; !errors.Is(err, loop.ErrNotWaiting) {
			t.Errorf("Suspend: got %v, want ErrNotWaiting", err)
		}
		var limit *budget.LimitError
		if out := b.finish(run); !errors.As(out.Err, &limit) || limit.Limit != "wall time" || time.Since(began) > 11*time.Minute {
			t.Errorf("outcome: got %+v after %v, want the limit of ten minutes", out, time.Since(began))
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
