package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// TestLeave: a run that another process has, or will have, is left wherever it is: at once, without an append, and with
// its questions open. What is under way ends here.
func TestLeave(t *testing.T) {
	lost := errors.New("its job is another worker's now")
	ask := func(context.Context, *loop.Tool, json.RawMessage) guard.Verdict { return guard.Ask }
	tests := map[string]func(b *bench, cfg *loop.Config) (before func(*loop.Run)){
		"opening": func(b *bench, cfg *loop.Config) func(*loop.Run) {
			cfg.Journal = &slowJournal{Journal: b.store, slowCreate: 3 * time.Second}
			return nil
		},
		"listing": func(_ *bench, cfg *loop.Config) func(*loop.Run) { cfg.Tools = slowTools{}; return nil },
		"thinking": func(_ *bench, cfg *loop.Config) func(*loop.Run) {
			cfg.Model = llmtest.Script(llmtest.Slow(time.Hour))
			return nil
		},
		"acting": func(*bench, *loop.Config) func(*loop.Run) { return nil },
		"asking": func(_ *bench, cfg *loop.Config) func(*loop.Run) { cfg.Gate = ask; return nil },
		"stalled": func(b *bench, cfg *loop.Config) func(*loop.Run) {
			cfg.Journal = &outage{Journal: b.store, at: store.ModelResult, lasts: time.Minute, err: store.ErrBusy}
			return nil
		},
		"ending": func(*bench, *loop.Config) func(*loop.Run) {
			return func(run *loop.Run) { run.Cancel(errUser) }
		},
		"parking": func(*bench, *loop.Config) func(*loop.Run) { return (*loop.Run).BeginSuspend },
		"cancelled for it": func(*bench, *loop.Config) func(*loop.Run) {
			return func(run *loop.Run) { run.Cancel(&loop.LeftError{Cause: lost}) }
		},
	}
	for state, change := range tests {
		t.Run(state, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				cause := make(chan error, 1) // of the call's end
				deaf := tool("deaf", func(ctx context.Context, _ *loop.Call) (string, error) {
					<-ctx.Done()
					cause <- context.Cause(ctx)
					time.Sleep(3 * time.Second)
					return "late", nil
				})
				cfg := b.config(llmtest.Loop(llmtest.Call("deaf", nil)), deaf)
				cfg.Stored = true
				before := change(b, cfg)
				run := b.start(cfg)
				synctest.Wait()
				if before != nil {
					before(run)
					synctest.Wait()
				}
				had, asked, began := b.stored(), b.allAsks(t), time.Now()
				run.Leave(lost)
				run.Leave(errors.New("a second cause"))
				run.Cancel(errUser)
				out := b.finish(run)
				if !errors.Is(out.Err, loop.ErrLeft) || !errors.Is(out.Err, lost) || out.State != store.Waiting {
					t.Errorf("outcome: %+v", out)
				}
				if took := time.Since(began); took > 0 {
					t.Errorf("it took %v", took)
				}
				if err := run.Suspend(t.Context()); err == nil {
					t.Error("Suspend afterwards: got no error")
				}
				time.Sleep(10 * time.Minute)
				if has := b.stored(); state != "opening" && !slices.Equal(has, had) || slices.Contains(has, store.RunFinished) {
					t.Errorf("the journal was\n%v and is\n%v", had, has)
				}
				if now := b.allAsks(t); !slices.EqualFunc(now, asked, func(x, y store.Ask) bool { return x.ID == y.ID && x.Decision.By == y.Decision.By }) {
					t.Errorf("the questions were %+v and are %+v", asked, now)
				}
				if state == "acting" {
					if err := <-cause; !errors.Is(err, lost) {
						t.Errorf("the call ended with %v", err)
					}
				}
			})
		})
	}
}

// stored are the types of events in the journal, none without a run.
func (b *bench) stored() []string {
	if _, err := b.store.Run(context.Background(), "r1"); err != nil {
		return nil
	}
	return b.types()
}

// TestDeathLeaves: a stored run whose actor dies goes on later: nothing is written, and its lease is free. That of a
// job expires.
func TestDeathLeaves(t *testing.T) {
	for _, job := range []bool{false, true} {
		inBubble(t, func(t *testing.T, b *bench) {
			gate := llmtest.NewGate()
			cfg := b.config(llmtest.Script(llmtest.Hold(gate)))
			cfg.Stored = true
			if job {
				cfg.Held = true
			}
			run := b.start(cfg)
			<-gate.Reached()
			run.Poison()
			out := b.finish(run)
			var failure *actors.Failure
			if !errors.As(out.Err, &failure) || !errors.Is(out.Err, loop.ErrLeft) || out.State != store.Waiting {
				t.Errorf("outcome: %+v", out)
			}
			b.wantTypes("run.started tools.listed model.intent")
			if head, err := b.store.Run(t.Context(), "r1"); err != nil || head.State.Ended() || head.Leased(time.Now()) != job {
				t.Errorf("the run of a job (%v): got %+v, %v", job, head, err)
			}
			time.Sleep(time.Minute)
			if _, again := b.resume(b.config(llmtest.Script(llmtest.Say("ok")))); again != nil {
				if <-again.Ended(); again.Outcome().Text != "ok" {
					t.Errorf("resumed: got %+v", again.Outcome())
				}
			}
		})
	}
}
