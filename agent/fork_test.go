package agent_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// effects counts the calls of tools.
type effects struct {
	mu   sync.Mutex
	made map[string]int
}

func (e *effects) tool(name string) agent.Tool {
	return agent.Func(name, "Does it.", func(_ context.Context, in in) (string, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.made[fmt.Sprintf("%s %d", name, in.N)]++
		return fmt.Sprintf("%s of %d", name, in.N), nil
	})
}

func (e *effects) take() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	made := e.made
	e.made = make(map[string]int)
	return made
}

// forkable returns a runtime with the run r1, which has ended: two calls at once, one of them
// approved, then one more, then the answer.
func forkable(t *testing.T, s *memstore.Store, e *effects) *agent.Runtime {
	t.Helper()
	e.made = make(map[string]int)
	model := llmtest.ByHistory(llmtest.Calls(call("free", `{"n":1}`), call("asks", `{"n":2}`)), call("free", `{"n":3}`), llmtest.Say("ok"))
	rt := open(t, &agent.Options{Store: s, Model: model, Tools: []agent.Tool{e.tool("free"), agent.NeedsApproval(e.tool("asks"))},
		OnAsk: func(context.Context, agent.Ask) (agent.Decision, error) { return agent.Accept(), nil }})
	if _, err := start(t, rt, "r1").Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return rt
}

// TestForkAtEveryEvent: a fork at any event of a run ends as that run did, makes no call that was
// sent by then, and all others once; what it has spent is what the turns cost.
func TestForkAtEveryEvent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := memory(), new(effects)
		rt := forkable(t, s, e)
		e.take()
		events, err := s.Events(t.Context(), "r1", 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Join(transcript(t, mustFind(t, rt, "r1")), "\n")
		sent := map[string]int{"free 1": 0, "asks 2": 0, "free 3": 0} // by an event of r1
		names := map[string]string{}
		for _, ev := range events {
			switch ev.Type {
			case store.ToolIntent:
				names[ev.Key] = []string{"free 1", "asks 2", "free 3"}[len(names)]
			case store.ToolDispatched:
				sent[names[ev.Key]] = 1
			}
			run, err := rt.Fork(t.Context(), "r1", ev.Seq, nil)
			if err != nil {
				t.Fatalf("a fork at %d (%s): %v", ev.Seq, ev.Type, err)
			}
			res, err := run.Wait(t.Context())
			if err != nil || res.Text != "ok" || res.Steps != 3 || res.ToolCalls != 3 {
				t.Errorf("a fork at %d (%s): got %+v, %v, want the answer after 3 turns and 3 calls", ev.Seq, ev.Type, res, err)
			}
			made := e.take()
			for name, before := range sent {
				if made[name]+before != 1 {
					t.Errorf("a fork at %d (%s): made %v, want each call once that was not sent by then (%v)", ev.Seq, ev.Type, made, sent)
				}
			}
			if got := strings.Join(transcript(t, run), "\n"); ended(got) != ended(want) {
				t.Errorf("a fork at %d (%s): the events are\n%s\nwant\n%s", ev.Seq, ev.Type, got, want)
			}
		}
		if after, err := s.Events(t.Context(), "r1", 0, 0); err != nil || len(after) != len(events) {
			t.Errorf("r1 has %d events, %v, want the %d that it had", len(after), err, len(events))
		}
	})
}

// ended is what a transcript says of results and of the end, in order of their texts.
func ended(transcript string) string {
	lines := slices.DeleteFunc(strings.Split(transcript, "\n"), func(l string) bool {
		return !strings.HasPrefix(l, "result") && !strings.HasPrefix(l, "run_finished")
	})
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func mustFind(t *testing.T, rt *agent.Runtime, id string) *agent.Run {
	t.Helper()
	run, err := rt.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// TestForkChanges: a fork has another prompt, other results, one more message, other limits or
// another agent, and its model reads them.
func TestForkChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := memory(), new(effects)
		rt := forkable(t, s, e)
		run, err := rt.Fork(t.Context(), "r1", 1, &agent.ForkOptions{Limits: agent.Limits{Steps: 1}})
		if err != nil {
			t.Fatal(err)
		}
		var limit *agent.LimitError
		if _, err := run.Wait(t.Context()); !errors.As(err, &limit) || limit.Limit != "steps" {
			t.Errorf("with one step: got %v, want that limit", err)
		}
		key := ""
		for ev, err := range store.Replay(t.Context(), s, "r1", 0) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Type == store.ToolResult && strings.Contains(string(ev.Body), "free of 1") {
				key = ev.Key
			}
		}
		var read string
		reads := llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
			read = ""
			for _, m := range req.Messages {
				read += string(m.Role) + ": " + m.Content.Text() + "\n"
			}
			read += strings.Join(llmtest.Results(req), "\n")
			return llmtest.Say("another")
		}))
		other, err := rt.Agent("agent", &agent.Config{Model: reads})
		if err != nil {
			t.Fatal(err)
		}
		turn2 := int64(0)
		for ev, err := range store.Replay(t.Context(), s, "r1", 0) {
			if err == nil && ev.Type == "model.intent" && turn2 < 2 {
				if turn2++; turn2 == 2 {
					turn2 = ev.Seq
				}
			}
		}
		tests := map[string]struct {
			at   int64
			o    agent.ForkOptions
			want []string
		}{
			"prompt":  {1, agent.ForkOptions{Prompt: "do it"}, []string{"user: do it\n"}},
			"result":  {turn2, agent.ForkOptions{Results: map[string]string{key: "nothing"}}, []string{"nothing", "asks of 2"}},
			"message": {0, agent.ForkOptions{Say: "and now?"}, []string{"assistant: ok\nuser: and now?\n"}},
		}
		for _, name := range slices.Sorted(maps.Keys(tests)) {
			test := tests[name]
			test.o.Agent = other
			run, err := rt.Fork(t.Context(), "r1", test.at, &test.o)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if res, err := run.Wait(t.Context()); err != nil || res.Text != "another" {
				t.Errorf("%s: got %+v, %v, want the other model's answer", name, res, err)
			}
			for _, want := range test.want {
				if !strings.Contains(read, want) {
					t.Errorf("%s: the model read\n%s\nwant %q in it", name, read, want)
				}
			}
		}
	})
}

// TestForkRefuses: what cannot be forked is said, and leaves nothing behind.
func TestForkRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := memory(), new(effects)
		rt := forkable(t, s, e)
		at := int64(0) // between the calls of the first turn and their results
		for ev, err := range store.Replay(t.Context(), s, "r1", 0) {
			if err == nil && at == 0 && ev.Type == store.ModelResult {
				at = ev.Seq
			}
		}
		tests := map[string]struct {
			run  string
			at   int64
			o    agent.ForkOptions
			want string
		}{
			"no such run":   {"r2", 0, agent.ForkOptions{}, "not found"},
			"no such event": {"r1", 999, agent.ForkOptions{}, "no event 999: want 1 to"},
			"no such call":  {"r1", 1, agent.ForkOptions{Results: map[string]string{"x": ""}}, `no call "x" has a result by then; there are none`},
			"a message":     {"r1", at, agent.ForkOptions{Say: "hello"}, "waits for the results of its calls"},
			"a taken ID":    {"r1", 1, agent.ForkOptions{ID: "r1"}, "exists"},
		}
		for name, test := range tests {
			if run, err := rt.Fork(t.Context(), test.run, test.at, &test.o); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: got %v, %v, want an error with %q", name, run, err, test.want)
			}
		}
		if all, err := s.Runs(t.Context(), store.Query{}); err != nil || len(all) != 1 {
			t.Errorf("the store has %d runs, %v, want one", len(all), err)
		}
	})
}

// TestForkInPart: a copy whose process ended before it was whole is not resumed.
func TestForkInPart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := memory(), new(effects)
		rt := forkable(t, s, e)
		fork, err := rt.Fork(t.Context(), "r1", 3, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fork.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		entries, err := runlog.Entries(t.Context(), s, fork.ID())
		if err != nil {
			t.Fatal(err)
		}
		whole := slices.IndexFunc(entries, func(e runlog.Entry) bool { return e.Type == runlog.RunForkedType })
		head, err := runlog.Write(t.Context(), s, store.Run{ID: "part", Agent: "agent"}, "o", time.Minute, entries[:whole], nil)
		if err == nil {
			err = s.Release(t.Context(), head.ID, "o", head.Epoch)
		}
		if err != nil {
			t.Fatal(err)
		}
		var refused *agent.NotResumableError
		if run, err := rt.Resume(t.Context(), "part", nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), "not copied whole") {
			t.Errorf("got %v, %v, want a NotResumableError", run, err)
		}
	})
}
