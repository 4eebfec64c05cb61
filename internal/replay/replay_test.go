package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/linediff"
	"github.com/troupe-dev/troupe/internal/replay"
	"github.com/troupe-dev/troupe/internal/runfile"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

type in struct {
	N int `json:"n"`
}

// tool answers differently each time: nothing of a replay may come from it.
func tool(name string) agent.Tool {
	var calls atomic.Int64 // they may be made at once
	return agent.Func(name, "Counts.", func(_ context.Context, in in) (string, error) {
		n := calls.Add(1)
		if in.N < 0 {
			return "", errors.New("below zero")
		}
		return strings.Repeat(name, int(n)) + "\nend", nil
	})
}

// program is the program that is recorded.
type program struct {
	rt    *agent.Runtime
	store store.Store
	run   *agent.Run
}

// start runs an agent to its end.
func start(t *testing.T, cfg agent.Config, turns ...llmtest.Turn) *program {
	t.Helper()
	p := &program{store: memstore.New(nil)}
	var err error
	p.rt, err = agent.Open(t.Context(), &agent.Options{Model: llmtest.ByHistory(turns...), Store: p.store, Retry: &llm.RetryOptions{MaxAttempts: 1},
		OnAsk: func(_ context.Context, ask agent.Ask) (agent.Decision, error) {
			switch {
			case ask.Kind == agent.KindLimit:
				return agent.AcceptMore("1"), nil
			case ask.Tool == "no":
				return agent.Decline("not today"), nil
			case ask.Tool == "always":
				return agent.AcceptForRun(), nil
			}
			return agent.Accept(), nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.rt.Close() })
	define := func(name string, cfg *agent.Config) *agent.Agent {
		a, err := p.rt.Agent(name, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	other := define("other", &agent.Config{Instructions: "You are another one.", Tools: []agent.Tool{tool("free")}})
	helper := define("helper", &agent.Config{Model: llmtest.Loop(llmtest.Say("below"))})
	cfg.Tools = append(cfg.Tools, tool("free"), agent.NeedsApproval(tool("asks")), agent.NeedsApproval(tool("no")), agent.NeedsApproval(tool("always")), helper.AsTool("sub", ""))
	cfg.Tools = append(cfg.Tools, agent.HandOff(other)...)
	if p.run, err = define("tested", &cfg).Start(t.Context(), "go", nil); err != nil {
		t.Fatal(err)
	}
	_, _ = p.run.Wait(t.Context())
	return p
}

func (p *program) recording(t *testing.T, run *agent.Run) *runfile.Recording {
	t.Helper()
	all, err := runfile.Load(t.Context(), p.store, run.ID())
	if err != nil {
		t.Fatal(err)
	}
	return &all[0]
}

func again(t *testing.T, rec *runfile.Recording, o *replay.Options) (want, got []string, err error) {
	t.Helper()
	r, err := replay.New(rec)
	if err != nil {
		return nil, nil, err
	}
	return r.Run(t.Context(), memstore.New(nil), o)
}

func difference(want, got []string) string {
	var b strings.Builder
	for _, l := range linediff.Lines(want, got) {
		b.WriteString(string(l.Mark) + " " + l.Text + "\n")
	}
	return b.String()
}

// TestReplay: runs of each kind are replayed without a difference, by their recording alone, also
// when that was redacted.
func TestReplay(t *testing.T) {
	call := func(name, args string) llmtest.Turn { return llmtest.Call(name, args) }
	answer := []byte(`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`)
	tests := map[string]struct {
		cfg   agent.Config
		turns []llmtest.Turn
	}{
		"an answer":      {agent.Config{Instructions: "Be brief."}, []llmtest.Turn{llmtest.Say("ok")}},
		"calls at once":  {agent.Config{}, []llmtest.Turn{llmtest.Calls(call("free", `{"n":1}`), call("free", `{"n":1}`), call("asks", `{"n":2}`)), llmtest.Say("ok")}},
		"refused":        {agent.Config{}, []llmtest.Turn{llmtest.Calls(call("no", `{"n":1}`), call("free", `{"n":"x"}`), call("gone", `{}`)), llmtest.Say("ok")}},
		"an error":       {agent.Config{}, []llmtest.Turn{call("free", `{"n":-1}`), llmtest.Say("ok")}},
		"for the run":    {agent.Config{}, []llmtest.Turn{call("always", `{"n":1}`), call("always", `{"n":2}`), llmtest.Say("ok")}},
		"a hand-off":     {agent.Config{}, []llmtest.Turn{call("free", `{"n":1}`), call("transfer_to_other", `{}`), call("free", `{"n":2}`), llmtest.Say("ok")}},
		"a sub-agent":    {agent.Config{}, []llmtest.Turn{llmtest.Calls(call("sub", `{"prompt":"do it"}`), call("free", `{"n":9}`)), llmtest.Say("ok")}},
		"a form":         {agent.Config{Output: answer}, []llmtest.Turn{llmtest.Say("no JSON"), llmtest.Say(`{"a":1}`)}},
		"a limit":        {agent.Config{Limits: agent.Limits{Steps: 2}}, []llmtest.Turn{call("free", `{"n":1}`), call("free", `{"n":2}`), llmtest.Say("ok")}},
		"more":           {agent.Config{Limits: agent.Limits{Steps: 1, OnLimit: agent.LimitAsk}}, []llmtest.Turn{call("free", `{"n":1}`), call("free", `{"n":2}`), llmtest.Say("ok")}},
		"wrapping up":    {agent.Config{Limits: agent.Limits{Steps: 2, OnLimit: agent.LimitWrapUp}}, []llmtest.Turn{call("free", `{"n":1}`), llmtest.Say("so far")}},
		"a failure":      {agent.Config{}, []llmtest.Turn{call("free", `{"n":1}`), llmtest.Fail(errors.New("the model is down"))}},
		"the same again": {agent.Config{}, []llmtest.Turn{call("free", `{"n":1}`), call("free", `{"n":1}`), call("free", `{"n":1}`), llmtest.Say("ok")}},
		"in circles":     {agent.Config{MaxRepeats: 2}, []llmtest.Turn{call("free", `{"n":1}`), call("free", `{"n":1}`), call("free", `{"n":1}`), call("free", `{"n":1}`), llmtest.Say("so far")}},
		"polls": {agent.Config{MaxRepeats: 1, Tools: []agent.Tool{{Name: "poll", Polls: true, Call: func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: mcp.Contents{mcp.Text("not yet")}}, nil
		}}}}, []llmtest.Turn{call("poll", `{}`), call("poll", `{}`), call("poll", `{}`), llmtest.Say("ok")}},
		"cut results": {agent.Config{MaxResult: 4}, []llmtest.Turn{call("free", `{"n":1}`), llmtest.Say("ok")}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, test.cfg, test.turns...)
				rec := p.recording(t, p.run)
				want, got, err := again(t, rec, nil)
				if err != nil || !slices.Equal(want, got) || len(want) < 3 {
					t.Errorf("got %v\n%s", err, difference(want, got))
				}
				safe, err := runfile.Redact([]runfile.Recording{*rec})
				if err != nil {
					t.Fatal(err)
				}
				if want, got, err = again(t, &safe[0], nil); err != nil || !slices.Equal(want, got) {
					t.Errorf("redacted: got %v\n%s", err, difference(want, got))
				}
				for at := range rec.Events {
					p.forkAt(t, int64(at+1))
				}
			})
		})
	}
}

// forkAt forks the run at an event. The fork ends as the run did, and is replayed without a
// difference.
func (p *program) forkAt(t *testing.T, at int64) {
	t.Helper()
	fork, err := p.rt.Fork(t.Context(), p.run.ID(), at, nil)
	if err != nil {
		t.Fatalf("a fork at %d: %v", at, err)
	}
	want, wantErr := p.run.Wait(t.Context())
	res, err := fork.Wait(t.Context())
	if res == nil || res.Text != want.Text || (err == nil) != (wantErr == nil) {
		t.Errorf("a fork at %d: got %+v, %v, want %+v, %v", at, res, err, want, wantErr)
	}
	if want, got, err := again(t, p.recording(t, fork), nil); err != nil || !slices.Equal(want, got) {
		t.Errorf("the replay of a fork at %d: %v\n%s", at, err, difference(want, got))
	}
}

// TestReplayFinds: a definition that does something else is found: a guard, a policy, a limit. One
// whose words differ is not.
func TestReplayFinds(t *testing.T) {
	turns := []llmtest.Turn{llmtest.Call("free", `{"n":1}`), llmtest.Say("ok")}
	guard := agent.Guard{Name: "no-ok", Final: func(context.Context, *agent.GuardAnswer) agent.GuardResult { return agent.Refuse("say more") }}
	for name, test := range map[string]struct {
		cfg  *agent.Config
		want string // a step that only the replay has; empty for no difference
	}{
		"none":   {&agent.Config{}, ""},
		"words":  {&agent.Config{Instructions: "Other words."}, ""},
		"policy": {&agent.Config{Approve: agent.AskAlways}, "+ question tool free: declined"},
		"limit":  {&agent.Config{Limits: agent.Limits{Steps: 1}}, "+ limit of steps reached: stop"},
		"guard":  {&agent.Config{Guards: []agent.Guard{guard}}, "+ guard no-ok"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, agent.Config{}, turns...)
				want, got, err := again(t, p.recording(t, p.run), &replay.Options{Config: test.cfg})
				if d := difference(want, got); err != nil || test.want == "" && !slices.Equal(want, got) || !strings.Contains(d, test.want) {
					t.Errorf("got %v, want %q in\n%s", err, test.want, d)
				}
			})
		})
	}
}
