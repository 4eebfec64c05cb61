package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// asking is a tool that asks and gives back how it was decided.
func asking(q loop.Question) loop.Tool {
	t := tool("ask", func(ctx context.Context, call *loop.Call) (string, error) {
		d, err := call.Ask(ctx, q)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s %s", d.Status, d.Answer), nil
	})
	t.Server, t.Origin = "forms", "cmd"
	return t
}

func (b *bench) allowed(model *llmtest.Model, t loop.Tool) *loop.Config {
	cfg := b.config(model, t)
	cfg.Gate = allow
	return cfg
}

func TestQuestion(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		model := llmtest.Script(llmtest.Call("ask", `{}`), llmtest.Say("ok"))
		cfg := b.allowed(model, asking(loop.Question{Kind: runlog.AskForm, Payload: json.RawMessage(`{"message":"Name?"}`), Hash: "h"}))
		cfg.Limits.Wall = time.Minute
		run := b.start(cfg)
		row := <-b.sink.asked
		if row.Kind != runlog.AskForm || row.Server != "forms" || row.Origin != "cmd" || row.Run != "r1" || row.Hash != "h" || string(row.Payload) != `{"message":"Name?"}` {
			t.Errorf("ask: got %+v", row)
		}
		time.Sleep(5 * time.Minute) // TIME-05: longer than the run may take
		d := accept()
		d.Answer = json.RawMessage(`{"name":"Ada"}`)
		if _, err := run.Answer(t.Context(), row.ID, d); err != nil {
			t.Errorf("Answer: %v", err)
		}
		if out := b.finish(run); out.Err != nil {
			t.Fatal(out.Err)
		}
		if got := results(model.Requests()[1]); !slices.Equal(got, []string{`accepted {"name":"Ada"}`}) {
			t.Errorf("result: got %q", got)
		}
		b.wantTypes("run.started tools.listed model.intent model.result i d ask.opened ask.settled r model.intent model.result run.finished")
	})
}

// TestQuestionExpires: nobody answers, and that is no yes.
func TestQuestionExpires(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		model := llmtest.Script(llmtest.Call("ask", `{}`), llmtest.Say("ok"))
		run := b.start(b.allowed(model, asking(loop.Question{Kind: runlog.AskURL, Expires: time.Now().Add(time.Minute)})))
		<-b.sink.asked
		began := time.Now()
		b.finish(run)
		if got := results(model.Requests()[1]); !slices.Equal(got, []string{"expired "}) || time.Since(began) != time.Minute {
			t.Errorf("result: got %q after %v", got, time.Since(began))
		}
	})
}

// TestQuestionWithdrawn: a call that gives up, returns, or dies takes its question
// back, and the run goes on.
func TestQuestionWithdrawn(t *testing.T) {
	gone := errors.New("the server does not want to know any more")
	for name, do := range map[string]func(ctx context.Context, call *loop.Call) (string, error){
		"gives up": func(ctx context.Context, call *loop.Call) (string, error) {
			ctx, cancel := context.WithTimeoutCause(ctx, time.Second, gone)
			defer cancel()
			_, err := call.Ask(ctx, loop.Question{Kind: runlog.AskForm})
			return err.Error(), nil
		},
		"returns": func(_ context.Context, call *loop.Call) (string, error) {
			asked := make(chan struct{})
			go func() {
				defer close(asked)
				_, _ = call.Ask(context.Background(), loop.Question{Kind: runlog.AskForm})
			}()
			synctest.Wait()
			return gone.Error(), nil
		},
		"panics": func(ctx context.Context, call *loop.Call) (string, error) {
			go func() { _, _ = call.Ask(context.Background(), loop.Question{Kind: runlog.AskForm}) }()
			synctest.Wait()
			panic(gone)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				model := llmtest.Script(llmtest.Call("ask", `{}`), llmtest.Say("ok"))
				run := b.start(b.allowed(model, tool("ask", do)))
				row := <-b.sink.asked
				if out := b.finish(run); out.Err != nil || out.Text != "ok" {
					t.Errorf("outcome: got %+v", out)
				}
				if a, err := b.store.Ask(t.Context(), row.ID); err != nil || a.Status != store.AskCancelled {
					t.Errorf("the question: got %+v, %v, want cancelled", a.Decision, err)
				}
			})
		})
	}
}

// TestQuestionOfAnEndedRun: the end of a run withdraws its questions, and the call
// hears of it.
func TestQuestionOfAnEndedRun(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		model := llmtest.Script(llmtest.Call("ask", `{}`))
		run := b.start(b.allowed(model, asking(loop.Question{Kind: runlog.AskForm})))
		row := <-b.sink.asked
		run.Cancel(errors.New("enough"))
		if out := b.finish(run); out.State != store.Cancelled {
			t.Errorf("outcome: got %+v", out)
		}
		if a, err := b.store.Ask(t.Context(), row.ID); err != nil || a.Status != store.AskCancelled {
			t.Errorf("the question: got %+v, %v, want cancelled", a.Decision, err)
		}
	})
}

// TestQuestionsAreBounded: a call can not fill the journal (ROB-9).
func TestQuestionsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		flood := tool("ask", func(ctx context.Context, call *loop.Call) (string, error) {
			for n := 0; ; n++ {
				if _, err := call.Ask(ctx, loop.Question{Kind: runlog.AskForm, Expires: time.Now().Add(time.Second)}); err != nil {
					return fmt.Sprint(n, errors.Is(err, loop.ErrNotAsked)), nil
				}
			}
		})
		model := llmtest.Script(llmtest.Call("ask", `{}`), llmtest.Say("ok"))
		run := b.start(b.allowed(model, flood))
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				select {
				case <-b.sink.asked:
				case <-stop:
					return
				}
			}
		})
		b.finish(run)
		close(stop)
		wg.Wait()
		if got := results(model.Requests()[1]); !slices.Equal(got, []string{"64 true"}) {
			t.Errorf("result: got %q, want 64 questions", got)
		}
	})
}

// TestNotIdleForAQuestion: what a running call asks dies with it, so that run is not idle.
func TestNotIdleForAQuestion(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		model := llmtest.Script(llmtest.Call("ask", `{}`), llmtest.Say("ok"))
		run := b.start(b.allowed(model, asking(loop.Question{Kind: runlog.AskForm})))
		row := <-b.sink.asked
		for _, err := range []error{run.SuspendIdle(t.Context()), run.Idle(t.Context())} {
			if !errors.Is(err, loop.ErrNotWaiting) {
				t.Errorf("SuspendIdle, Idle: got %v, want ErrNotWaiting", err)
			}
		}
		if _, err := run.Answer(t.Context(), row.ID, accept()); err != nil {
			t.Errorf("Answer: %v", err)
		}
		b.finish(run)
	})
}
