package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// TestPolicies: who is asked, by policy and by what is known of the tool (SECA-40).
func TestPolicies(t *testing.T) {
	function := agent.ToolCall{Tool: "f"}
	liar := agent.ToolCall{Server: "s", Tool: "f", ReadOnly: true}
	reads := agent.ToolCall{Server: "s", Tool: "f", ReadOnly: true, Trusted: true}
	writes := agent.ToolCall{Server: "s", Tool: "f", Trusted: true}
	tests := []struct {
		name   string
		policy agent.ApprovePolicy
		call   agent.ToolCall
		want   agent.Verdict
	}{
		{"function", agent.AskBeforeWrites, function, agent.VerdictAllow},
		{"read-only by its own word", agent.AskBeforeWrites, liar, agent.VerdictAsk},
		{"read-only and trusted", agent.AskBeforeWrites, reads, agent.VerdictAllow},
		{"writes and trusted", agent.AskBeforeWrites, writes, agent.VerdictAsk},
		{"function, always", agent.AskAlways, function, agent.VerdictAsk},
		{"read-only and trusted, always", agent.AskAlways, reads, agent.VerdictAsk},
		{"writes, never", agent.NeverAsk, writes, agent.VerdictAllow},
	}
	for _, tt := range tests {
		if got := tt.policy(t.Context(), &tt.call); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestNeedsApproval: what is marked asks under every policy that does not refuse it.
func TestNeedsApproval(t *testing.T) {
	deny := func(context.Context, *agent.ToolCall) agent.Verdict { return agent.VerdictDeny }
	tests := []struct {
		name   string
		policy agent.ApprovePolicy
		answer agent.Decision
		want   []string
	}{
		{"accepted", agent.NeverAsk, agent.Accept(), []string{`ask double {"n":2}`, `settled accepted ""`, `started double {"n":2}`, `result double true "4"`}},
		{"declined", nil, agent.Decline("no"), []string{`ask double {"n":2}`, `settled declined "no"`, `result double false "not called: the user declined it: no"`}},
		{"denied", deny, agent.Accept(), []string{`result double false "not called: the policy of this agent does not allow it"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				rt := open(t, &agent.Options{Model: llmtest.Script(call("double", in{2}), llmtest.Say("ok")), Approve: tt.policy,
					Tools: []agent.Tool{agent.NeedsApproval(double)}})
				run := start(t, rt, "r")
				var got []string
				for ev, err := range run.Events(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					if ask, ok := ev.(agent.Ask); ok {
						if ask.Trust != "program" || ask.Hash == "" || time.Until(ask.Expires) != 10*time.Minute {
							t.Errorf("ask: %+v", ask)
						}
						if err := ask.Answer(t.Context(), agent.Decision{}); err == nil {
							t.Error("the zero Decision: got no error")
						}
						if err := ask.Answer(t.Context(), tt.answer.By("ada")); err != nil {
							t.Errorf("Answer: %v", err)
						}
						if err := ask.Answer(t.Context(), agent.Accept()); !errors.Is(err, agent.ErrSettled) {
							t.Errorf("the second Answer: got %v, want ErrSettled", err)
						}
					}
					if l := line(ev); strings.Contains(l, "double") || strings.HasPrefix(l, "settled") {
						got = append(got, l)
					}
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("events: got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
				}
			})
		})
	}
}

// TestUnansweredApproval: a question without a reader expires, which is no approval.
func TestUnansweredApproval(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		rt := open(t, &agent.Options{Model: llmtest.Script(call("double", in{2}), llmtest.Say("ok")), Store: s,
			Tools: []agent.Tool{agent.NeedsApproval(double)}})
		a, err := rt.Agent("agent", &agent.Config{AskExpiry: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		res, err := a.Run(t.Context(), "go", &agent.RunOptions{ID: "r"})
		if err != nil || res.ToolCalls != 0 || time.Since(began) != time.Hour {
			t.Errorf("Run: got %+v, %v after %v", res, err, time.Since(began))
		}
		asks, err := s.Asks(t.Context(), store.AskQuery{Run: "r"})
		if err != nil || len(asks) != 1 || asks[0].Status != store.AskExpired {
			t.Errorf("asks: %+v, %v", asks, err)
		}
	})
}

// TestAcceptForRun asks once for a tool.
func TestAcceptForRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := open(t, &agent.Options{Model: llmtest.Script(call("double", in{1}), call("double", in{2}), llmtest.Say("ok")),
			Tools: []agent.Tool{agent.NeedsApproval(double)}})
		asks := 0
		for ev, err := range start(t, rt, "r").Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if ask, ok := ev.(agent.Ask); ok {
				asks++
				if err := ask.Answer(t.Context(), agent.AcceptForRun()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if asks != 1 {
			t.Errorf("questions: got %d, want 1", asks)
		}
	})
}

// TestAnswerFromAnotherRuntime: the question of one process is answered in another.
func TestAnswerFromAnotherRuntime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		first := open(t, &agent.Options{Model: llmtest.Script(call("double", in{2}), llmtest.Say("ok")), Store: s,
			Tools: []agent.Tool{agent.NeedsApproval(double)}})
		second := open(t, &agent.Options{Model: llmtest.Script(), Store: s})
		run := start(t, first, "r")
		for ev, err := range start(t, second, "r").Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if ask, ok := ev.(agent.Ask); ok {
				// The row follows its event; until it is there, nobody can answer.
				for err := ask.Answer(t.Context(), agent.Accept()); err != nil; err = ask.Answer(t.Context(), agent.Accept()) {
					if !errors.Is(err, store.ErrNotFound) {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
				}
			}
		}
		if res, err := run.Wait(t.Context()); err != nil || res.ToolCalls != 1 {
			t.Errorf("Wait: got %+v, %v", res, err)
		}
	})
}

// TestAcceptForRunCovers: an answer for the whole run is one to the questions about that tool that are open already, as the store
// has it; those about others stay.
func TestAcceptForRunCovers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := memory(), &effects{made: make(map[string]int)}
		model := llmtest.Script(llmtest.Calls(call("asks", `{"n":1}`), call("asks", `{"n":2}`), call("other", `{"n":3}`), call("asks", `{"n":4}`)), llmtest.Say("ok"))
		rt := open(t, &agent.Options{Store: s, Model: model, Tools: []agent.Tool{agent.NeedsApproval(e.tool("asks")), agent.NeedsApproval(e.tool("other"))}})
		run := start(t, rt, "r1")
		var asks []agent.Ask
		for ev, err := range run.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if ask, ok := ev.(agent.Ask); ok {
				asks = append(asks, ask)
			}
			if len(asks) == 4 {
				break
			}
		}
		if err := asks[1].Answer(t.Context(), agent.AcceptForRun()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if made := e.take(); len(made) != 3 || made["other 3"] != 0 {
			t.Errorf("made %v, want the three calls of the tool that was allowed", made)
		}
		open, err := s.Asks(t.Context(), store.AskQuery{Run: "r1", Status: store.AskPending})
		if err != nil || len(open) != 1 || open[0].Tool != "other" {
			t.Errorf("open are %+v, %v, want that of the other tool", open, err)
		}
		if err := asks[2].Answer(t.Context(), agent.Decline("")); err != nil {
			t.Error(err)
		}
		if res, err := run.Wait(t.Context()); err != nil || res.ToolCalls != 3 {
			t.Errorf("got %+v, %v, want three calls", res, err)
		}
	})
}
