package agent_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// instructed is a model that notes the instructions of its last request.
type instructed struct {
	llm.Model
	last atomic.Pointer[string]
}

func (m *instructed) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	m.last.Store(&req.System)
	return m.Model.Stream(ctx, req)
}

// TestDrift: a run whose agent or tools are not as it has recorded them goes on as the policy says, and
// its journal says what differs.
func TestDrift(t *testing.T) {
	for _, tt := range []struct {
		name    string
		policy  agent.DriftPolicy
		changed bool
		asks    int
		system  string
		says    string // the event, or the refusal; empty for none
	}{
		{"adopted", agent.AdoptDrift, true, 0, "new", "the tool work is defined in another way"},
		{"by default", "", true, 0, "new", "the instructions have changed"},
		{"kept to the record", agent.ContinueDrift, true, 1, "old", "the tool work is defined in another way"},
		{"stopped", agent.StopDrift, true, 0, "", "the instructions have changed; the tool work is defined in another way"},
		{"nothing differs, stopped", agent.StopDrift, false, 0, "old", ""},
		{"nothing differs, kept", agent.ContinueDrift, false, 0, "old", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := memory()
				first := &killed{Store: s}
				model := &instructed{Model: llmtest.ByHistory(call("work", struct{}{}), call("work", struct{}{}), llmtest.Say("ok"))}
				var asked atomic.Int64
				opts := &agent.Options{Store: first, Model: model, OnUnknown: agent.TellUnknown,
					OnAsk: func(context.Context, agent.Ask) (agent.Decision, error) { asked.Add(1); return agent.Accept(), nil }}
				define := func(o *agent.Options, instructions, description string) (*agent.Runtime, *agent.Agent) {
					rt := open(t, o)
					work := agent.Func("work", description, func(context.Context, struct{}) (string, error) {
						first.dead.Store(true)
						return "worked", nil
					})
					a, err := rt.Agent("agent", &agent.Config{Instructions: instructions, Tools: []agent.Tool{work}})
					if err != nil {
						t.Fatal(err)
					}
					return rt, a
				}
				_, a := define(opts, "old", "one")
				if _, err := a.Start(t.Context(), "go", &agent.RunOptions{ID: "r1"}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Minute)
				now := *opts
				now.Store = s
				instructions, description := "old", "one"
				if tt.changed {
					instructions, description = "new", "another"
				}
				rt, _ := define(&now, instructions, description)
				run, err := rt.Resume(t.Context(), "r1", &agent.ResumeOptions{Drift: tt.policy})
				if tt.system == "" {
					if refused, ok := errors.AsType[*agent.NotResumableError](err); !ok || !strings.Contains(refused.Why, tt.says) {
						t.Fatalf("Resume: got %v, want a refusal that says %q", err, tt.says)
					}
					if head, err := s.Run(t.Context(), "r1"); err != nil || head.Owner != "" || head.State.Ended() {
						t.Errorf("the run is %+v, %v: want it as it was", head, err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if res, err := run.Wait(t.Context()); err != nil || res.Text != "ok" || int(asked.Load()) != tt.asks || *model.last.Load() != tt.system {
					t.Errorf("got %+v, %v, asked %d times, instructions %q", res, err, asked.Load(), *model.last.Load())
				}
				entries, err := runlog.Entries(t.Context(), s, "r1")
				if err != nil {
					t.Fatal(err)
				}
				said := ""
				for _, e := range entries {
					if b, ok := e.Body.(*runlog.RunDrifted); ok {
						said += strings.Join(b.What, "; ")
					}
				}
				if said == "" != (tt.says == "") || !strings.Contains(said, tt.says) {
					t.Errorf("the journal says %q, want %q", said, tt.says)
				}
			})
		})
	}
}
