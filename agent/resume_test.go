package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// killed is the store of a process that can be killed: from then on nothing of it is written.
type killed struct {
	store.Store
	dead atomic.Bool
}

func (k *killed) alive() error {
	if k.dead.Load() {
		return store.ErrFenced
	}
	return nil
}

func (k *killed) Append(ctx context.Context, a store.Append) (int64, error) {
	if err := k.alive(); err != nil {
		return 0, err
	}
	return k.Store.Append(ctx, a)
}

func (k *killed) Renew(ctx context.Context, run, owner string, epoch int64, ttl time.Duration) error {
	if err := k.alive(); err != nil {
		return err
	}
	return k.Store.Renew(ctx, run, owner, epoch, ttl)
}

func (k *killed) SettleAsk(ctx context.Context, id string, d store.Decision) (store.Ask, error) {
	if err := k.alive(); err != nil {
		return store.Ask{}, err
	}
	return k.Store.SettleAsk(ctx, id, d)
}

// TestResume: a run whose process was killed while a person is asked goes on in another one, by
// Resume as by Start with its ID, with the answer that was given meanwhile. Its question keeps
// its ID, its model is not asked again, its events are read from the first on.
func TestResume(t *testing.T) {
	for _, by := range []string{"Resume", "Start"} {
		for _, away := range []bool{true, false} {
			t.Run(by, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s := memory()
					first := &killed{Store: s}
					start(t, needing(t, &agent.Options{Store: first}), "r1")
					synctest.Wait()
					first.dead.Store(true)
					asks, err := s.Asks(t.Context(), store.AskQuery{Run: "r1", Status: store.AskPending})
					if err != nil || len(asks) != 1 {
						t.Fatalf("the questions: got %+v, %v, want one", asks, err)
					}
					answer := func() {
						if _, err := s.SettleAsk(t.Context(), asks[0].ID, store.Decision{Status: store.AskAccepted, By: "ada"}); err != nil {
							t.Fatal(err)
						}
					}
					if away {
						answer()
					}
					model := llmtest.Script(llmtest.Say("ok"))
					second := open(t, &agent.Options{Store: s, Model: model, Tools: []agent.Tool{agent.NeedsApproval(double)}})
					if _, err := second.Resume(t.Context(), "r1", nil); !errors.Is(err, store.ErrLeased) {
						t.Errorf("Resume while the lease lasts: got %v, want ErrLeased", err)
					}
					time.Sleep(2 * time.Minute)
					var run *agent.Run
					if by == "Resume" {
						run, err = second.Resume(t.Context(), "r1", nil)
					} else {
						run, err = second.Start(t.Context(), "go", &agent.RunOptions{ID: "r1"})
					}
					if err != nil {
						t.Fatalf("%s: %v", by, err)
					}
					again, err := second.Resume(t.Context(), "r1", nil)
					if again != run || err != nil {
						t.Errorf("Resume of a run that works: got %v, %v, want that run", again, err)
					}
					if !away {
						synctest.Wait()
						answer()
					}
					res, err := run.Wait(t.Context())
					if err != nil || res.Text != "ok" || res.Steps != 2 || res.ToolCalls != 1 || model.Remaining() != 0 {
						t.Errorf("got %+v, %v, want the answer of the second turn", res, err)
					}
					if got := strings.Join(transcript(t, run), "\n"); !strings.Contains(got, "result double true \"4\"") || !strings.HasPrefix(got, "run_started") {
						t.Errorf("the events are\n%s", got)
					}
					all, err := s.Asks(t.Context(), store.AskQuery{Run: "r1"})
					if err != nil || len(all) != 1 || all[0].By != "ada" {
						t.Errorf("the questions: got %+v, %v, want the one that ada answered", all, err)
					}
				})
			})
		}
	}
}

// TestResumeOfASuspendedRun: a run that was left to wait goes on in the same process.
func TestResumeOfASuspendedRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := needing(t, &agent.Options{})
		run := start(t, rt, "r1")
		synctest.Wait()
		if err := run.Suspend(t.Context()); err != nil {
			t.Fatal(err)
		}
		again := start(t, rt, "r1")
		for ev, err := range again.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if ask, ok := ev.(agent.Ask); ok {
				if err := ask.Answer(t.Context(), agent.Accept()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if res, err := again.Wait(t.Context()); err != nil || res.Text != "ok" {
			t.Errorf("got %+v, %v, want its answer", res, err)
		}
	})
}

// TestClose: a runtime that closes leaves a run that waits for a person as it is, for another
// process to go on with, if it has a store; with CancelRuns, and without a store, it cancels it.
func TestClose(t *testing.T) {
	for _, tt := range []struct {
		mode  agent.CloseMode
		state store.RunState
	}{{agent.ParkRuns, store.Finished}, {agent.CancelRuns, store.Cancelled}} {
		bubble(t, func(t *testing.T) {
			s := memory()
			rt := needing(t, &agent.Options{Store: s, OnClose: tt.mode})
			run := start(t, rt, "r1")
			synctest.Wait()
			asks, err := s.Asks(t.Context(), store.AskQuery{Run: "r1", Status: store.AskPending})
			if err != nil || len(asks) != 1 {
				t.Fatalf("the questions: got %+v, %v, want one", asks, err)
			}
			if err := rt.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := run.Wait(t.Context()); errors.Is(err, agent.ErrSuspended) != (tt.mode == agent.ParkRuns) {
				t.Errorf("mode %d: the run ended with %v", tt.mode, err)
			}
			_, _ = s.SettleAsk(t.Context(), asks[0].ID, store.Decision{Status: store.AskAccepted, By: "ada"})
			second := open(t, &agent.Options{Store: s, Model: llmtest.Script(llmtest.Say("ok")), Tools: []agent.Tool{agent.NeedsApproval(double)}})
			if _, err := second.Resume(t.Context(), "r1", nil); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if head, err := s.Run(t.Context(), "r1"); err != nil || head.State != tt.state {
				t.Errorf("mode %d: the run is %s in the end, %v, want %s", tt.mode, head.State, err, tt.state)
			}
		})
	}
	bubble(t, func(t *testing.T) {
		rt := needing(t, &agent.Options{})
		run := start(t, rt, "r1")
		synctest.Wait()
		if err := rt.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); !errors.Is(err, agent.ErrClosed) {
			t.Errorf("without a store: the run ended with %v, want ErrClosed", err)
		}
	})
}

// TestNotResumable: what cannot be resumed says why, and stays as it was.
func TestNotResumable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		first := &killed{Store: s}
		rt := open(t, &agent.Options{Store: first, Model: llmtest.Loop(call("hang", nil)), Tools: []agent.Tool{hang}})
		child, err := rt.Agent("child", nil)
		if err != nil {
			t.Fatal(err)
		}
		parent, err := rt.Agent("parent", &agent.Config{Model: llmtest.Loop(call("child", `{"prompt":"go"}`)), Tools: []agent.Tool{child.AsTool("child", "")}})
		if err != nil {
			t.Fatal(err)
		}
		start(t, rt, "r1")
		if _, err := parent.Start(t.Context(), "go", &agent.RunOptions{ID: "r2"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		first.dead.Store(true)
		time.Sleep(2 * time.Minute)
		second := open(t, &agent.Options{Store: s, Model: llmtest.Script(llmtest.Say("ok")), Tools: []agent.Tool{hang}})
		if _, err := second.Resume(t.Context(), "r1", &agent.ResumeOptions{OnUnknown: "never"}); err == nil || !strings.Contains(err.Error(), "OnUnknown") {
			t.Errorf("Resume with a policy that does not exist: got %v", err)
		}
		for id, want := range map[string]string{"r2": `there is no agent "parent"`} {
			var refused *agent.NotResumableError
			if _, err := second.Resume(t.Context(), id, nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
				t.Errorf("Resume of %s: got %v, want %q", id, err, want)
			}
			if head, err := s.Run(t.Context(), id); err != nil || head.State.Ended() || head.Leased(time.Now()) {
				t.Errorf("%s: got %+v, %v, want it open and free", id, head, err)
			}
		}
		if _, err := second.Agent("parent", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := second.Resume(t.Context(), "none", nil); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Resume of no run: got %v, want ErrNotFound", err)
		}
	})
}

// TestResumeAsks: a call that may have had its effect is a question of the run, as the program sees
// and answers it; a policy of the runtime stands in place of the question.
func TestResumeAsks(t *testing.T) {
	for _, tt := range []struct {
		policy agent.UnknownPolicy
		answer agent.Decision
		says   string
		err    error
		start  bool
	}{
		{policy: agent.TellUnknown, says: "is unknown", start: true},
		{policy: agent.EndUnknown, err: agent.ErrOutcomeUnknown, start: true},
		{answer: agent.Happened("the line is there"), says: "the line is there"},
		{answer: agent.CallAgain(), says: "4"},
		{answer: agent.TellModel("ask again"), says: "ask again"},
		{answer: agent.EndRun(), err: agent.ErrOutcomeUnknown},
		{policy: agent.TellUnknown, says: "is unknown"},
		{policy: agent.RepeatUnknown, says: "4"},
		{policy: agent.EndUnknown, err: agent.ErrOutcomeUnknown},
	} {
		bubble(t, func(t *testing.T) {
			s := memory()
			first := &killed{Store: s}
			blocks := agent.Func("double", "Doubles a number.", func(ctx context.Context, _ in) (string, error) {
				<-ctx.Done()
				return "", ctx.Err()
			})
			rt := open(t, &agent.Options{Store: first, Model: llmtest.Script(call("double", `{"n":2}`)), Tools: []agent.Tool{blocks}})
			start(t, rt, "r1")
			synctest.Wait()
			first.dead.Store(true)
			time.Sleep(2 * time.Minute)
			human, model := oneAnswer{answer: tt.answer}, llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
				return llmtest.Say(fmt.Sprint(req.Messages[len(req.Messages)-1].Content[0].(*mcp.ToolResultContent).Content.Text()))
			}))
			opts := &agent.Options{Store: s, Model: model, Tools: []agent.Tool{double}, OnAsk: human.onAsk}
			if !tt.start {
				opts.OnUnknown = tt.policy
			}
			second := open(t, opts)
			var run *agent.Run
			var err error
			if tt.start { // the same ID goes on by the policy of its caller
				run, err = second.Start(t.Context(), "go", &agent.RunOptions{ID: "r1", OnUnknown: tt.policy})
			} else {
				run, err = second.Resume(t.Context(), "r1", nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			res, err := run.Wait(t.Context())
			if !errors.Is(err, tt.err) || tt.err == nil && !strings.Contains(res.Text, tt.says) {
				t.Errorf("policy %q, %+v: got %+v, %v, want %q", tt.policy, tt.answer, res, err, tt.says)
			}
			if q := human.asked; (q == nil) != (tt.policy != "") || q != nil && (q.Kind != agent.KindOutcome || q.Tool != "double" || string(q.Arguments) != `{"n":2}` || q.Sent.IsZero()) {
				t.Errorf("policy %q: the question: got %+v", tt.policy, q)
			}
		})
	}
}

// oneAnswer gives one answer.
type oneAnswer struct {
	answer agent.Decision
	asked  *agent.Ask
}

func (h *oneAnswer) onAsk(_ context.Context, ask agent.Ask) (agent.Decision, error) {
	h.asked = &ask
	return h.answer, nil
}
