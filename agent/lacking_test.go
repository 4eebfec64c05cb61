package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/store"
)

// leave starts run "r1" of a runtime and kills its process once it stands still.
func leave(t *testing.T, opts agent.Options, a func(*agent.Runtime) *agent.Agent) *store.Ask {
	t.Helper()
	first := &killed{Store: opts.Store}
	opts.Store = first
	if _, err := a(open(t, &opts)).Start(t.Context(), "go", &agent.RunOptions{ID: "r1"}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	first.dead.Store(true)
	time.Sleep(2 * time.Minute)
	asks, err := first.Store.Asks(t.Context(), store.AskQuery{Status: store.AskPending})
	if err != nil {
		t.Fatal(err)
	}
	if len(asks) == 0 {
		return nil
	}
	return &asks[0]
}

// basic defines the agent whose runs have all tools.
func basic(rt *agent.Runtime) *agent.Agent {
	a, err := rt.Agent("agent", nil)
	if err != nil {
		panic(err)
	}
	return a
}

// TestResumeWithoutTools: a run does not go on without the tool of a call that was decided on, asked about,
// allowed or sent: it stays as it was, and what is missing is named. A call that a person has declined, or that the
// policy wants nothing more of, needs none.
func TestResumeWithoutTools(t *testing.T) {
	work := agent.Func("double", "Doubles.", func(ctx context.Context, in in) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	})
	for _, tt := range []struct {
		name   string
		sent   bool
		answer store.AskStatus // while no process works on it; empty for none
		policy agent.UnknownPolicy
		goesOn bool
	}{
		{name: "asked about"},
		{name: "allowed", answer: store.AskAccepted},
		{name: "declined", answer: store.AskDeclined, goesOn: true},
		{name: "sent", sent: true},
		{name: "sent, again", sent: true, policy: agent.RepeatUnknown},
		{name: "sent, told", sent: true, policy: agent.TellUnknown, goesOn: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, tool := memory(), agent.NeedsApproval(double)
				if tt.sent {
					tool = work
				}
				opts := agent.Options{Store: s, Model: llmtest.ByHistory(call("double", in{2}), llmtest.Say("ok")), Tools: []agent.Tool{tool}}
				ask := leave(t, opts, basic)
				if tt.answer != "" {
					if _, err := s.SettleAsk(t.Context(), ask.ID, store.Decision{Status: tt.answer, By: "ada"}); err != nil {
						t.Fatal(err)
					}
				}
				before, err := s.Run(t.Context(), "r1")
				if err != nil {
					t.Fatal(err)
				}
				bare := opts
				bare.Tools = nil
				run, err := open(t, &bare).Resume(t.Context(), "r1", &agent.ResumeOptions{OnUnknown: tt.policy})
				if tt.goesOn {
					if err != nil {
						t.Fatal(err)
					}
					if res, err := run.Wait(t.Context()); err != nil || res.Text != "ok" {
						t.Errorf("got %+v, %v, want it to go on", res, err)
					}
					return
				}
				refused, ok := errors.AsType[*agent.NotResumableError](err)
				if !ok || !strings.Contains(refused.Why, "the tool double (the program does not give it") {
					t.Fatalf("Resume: got %v, want a refusal that names the tool", err)
				}
				after, err := s.Run(t.Context(), "r1")
				if err != nil || after.Seq != before.Seq || after.Epoch != before.Epoch || after.State != before.State {
					t.Errorf("the run is %+v, %v: want it as it was, %+v", after, err, before)
				}
				if tt.sent {
					return
				}
				run, err = open(t, &opts).Resume(t.Context(), "r1", nil)
				if err != nil {
					t.Fatal(err)
				}
				if ask != nil && tt.answer == "" {
					if _, err := s.SettleAsk(t.Context(), ask.ID, store.Decision{Status: store.AskAccepted, By: "ada"}); err != nil {
						t.Fatal(err)
					}
				}
				if res, err := run.Wait(t.Context()); err != nil || res.ToolCalls != 1 {
					t.Errorf("with the tool: got %+v, %v, want the call made", res, err)
				}
			})
		})
	}
}

// TestResumeWithoutServer: the server of an open call that is not configured, does not start or never
// comes up, keeps the run from going on, and is named with the reason.
func TestResumeWithoutServer(t *testing.T) {
	never := mcpclient.Stream("files", func(ctx context.Context) (io.ReadWriteCloser, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	never.ConnectTimeout = 5 * time.Second
	refuses := mcpclient.Stream("files", func(context.Context) (io.ReadWriteCloser, error) { return nil, errors.New("nothing listens") })
	for _, tt := range []struct {
		name   string
		server []mcpclient.Server
		why    string
	}{
		{"not configured", nil, `there is no server "files"`},
		{"cannot be reached", []mcpclient.Server{refuses}, "nothing listens"},
		{"still connects", []mcpclient.Server{never}, `the server "files": `},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := memory()
				server, err := mcpserver.New(mcp.Implementation{Name: "files", Version: "1"}, nil)
				if err == nil {
					err = mcpserver.AddFunc(server, &mcp.Tool{Name: "write"}, func(context.Context, struct{}) (string, error) { return "written", nil })
				}
				if err != nil {
					t.Fatal(err)
				}
				defer server.Close()
				opts := agent.Options{Store: s, Model: llmtest.ByHistory(call("files__write", struct{}{}), llmtest.Say("ok")), Approve: agent.AskAlways,
					Servers: []mcpclient.Server{mcpclient.InProcess("files", server)}}
				if leave(t, opts, basic) == nil {
					t.Fatal("the call is not asked about")
				}
				before, err := s.Run(t.Context(), "r1")
				if err != nil {
					t.Fatal(err)
				}
				opts.Servers = tt.server
				_, err = open(t, &opts).Resume(t.Context(), "r1", nil)
				if refused, ok := errors.AsType[*agent.NotResumableError](err); !ok || !strings.Contains(refused.Why, "files__write") || !strings.Contains(refused.Why, tt.why) {
					t.Errorf("Resume: got %v, want a refusal that says %q", err, tt.why)
				}
				if head, err := s.Run(t.Context(), "r1"); err != nil || head != before {
					t.Errorf("the run is %+v, %v: want it as it was, %+v", head, err, before)
				}
			})
		})
	}
}

// TestResumeTreeWithoutTool: what a sub-agent's open call lacks keeps the whole tree from going on.
func TestResumeTreeWithoutTool(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		define := func(tools ...agent.Tool) func(*agent.Runtime) *agent.Agent {
			return func(rt *agent.Runtime) *agent.Agent {
				below, err := rt.Agent("below", &agent.Config{Model: llmtest.ByHistory(call("double", in{2}), llmtest.Say("b")), Tools: tools})
				if err != nil {
					t.Fatal(err)
				}
				top, err := rt.Agent("top", &agent.Config{Model: llmtest.ByHistory(call("ask", `{"prompt":"go"}`), llmtest.Say("ok")), Tools: []agent.Tool{below.AsTool("ask", "asks below")}})
				if err != nil {
					t.Fatal(err)
				}
				return top
			}
		}
		leave(t, agent.Options{Store: s, Model: llmtest.ByHistory(llmtest.Say("unused"))}, define(agent.NeedsApproval(double)))
		before, err := s.Runs(t.Context(), store.Query{})
		if err != nil {
			t.Fatal(err)
		}
		rt := open(t, &agent.Options{Store: s, Model: llmtest.ByHistory(llmtest.Say("unused"))})
		define()(rt)
		_, err = rt.Resume(t.Context(), "r1", nil)
		if refused, ok := errors.AsType[*agent.NotResumableError](err); !ok || !strings.Contains(refused.Why, `the tool double (the program does not give it to the agent "below")`) {
			t.Errorf("Resume: got %v, want a refusal that names the tool", err)
		}
		if after, err := s.Runs(t.Context(), store.Query{}); err != nil || len(after) != 2 || !slices.Equal(after, before) {
			t.Errorf("the runs are %+v, %v: want them as they were, %+v", after, err, before)
		}
	})
}

// TestApprovalOfAnotherAgent: with other instructions, or another model, no approval counts that was given before that was
// known. The question says what differs, and its answer counts then, after another restart too.
func TestApprovalOfAnotherAgent(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cfg   agent.Config
		notes string
	}{
		{"the same", agent.Config{Instructions: "old"}, ""},
		{"instructions", agent.Config{Instructions: "new"}, "the instructions have changed"},
		{"model", agent.Config{Instructions: "old", Model: renamed{llmtest.ByHistory(call("double", in{2}), llmtest.Say("ok")), "other"}}, "the model is other"},
	} {
		for _, decided := range []bool{true, false} {
			t.Run(tt.name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s := memory()
					opts := agent.Options{Store: s, Model: llmtest.ByHistory(call("double", in{2}), llmtest.Say("ok")), Tools: []agent.Tool{agent.NeedsApproval(double)}}
					define := func(cfg agent.Config) func(*agent.Runtime) *agent.Agent {
						return func(rt *agent.Runtime) *agent.Agent {
							a, err := rt.Agent("agent", &cfg)
							if err != nil {
								t.Fatal(err)
							}
							return a
						}
					}
					accept := func(ask *store.Ask) {
						if _, err := s.SettleAsk(t.Context(), ask.ID, store.Decision{Status: store.AskAccepted, By: "ada"}); err != nil {
							t.Fatal(err)
						}
					}
					ask := leave(t, opts, define(agent.Config{Instructions: "old"}))
					if decided {
						accept(ask)
					}
					resume := func() *agent.Run {
						rt := open(t, &opts)
						define(tt.cfg)(rt)
						run, err := rt.Resume(t.Context(), "r1", nil)
						if err != nil {
							t.Fatal(err)
						}
						synctest.Wait()
						return run
					}
					run := resume()
					if tt.notes != "" {
						asks, err := s.Asks(t.Context(), store.AskQuery{Status: store.AskPending})
						if err != nil || len(asks) != 1 || asks[0].ID == ask.ID {
							t.Fatalf("got the questions %+v, %v, want a new one", asks, err)
						}
						var p runlog.ApprovalPayload
						if err := json.Unmarshal(asks[0].Payload, &p); err != nil || !strings.Contains(p.Note, tt.notes) {
							t.Errorf("the question says %q, %v, want %q", p.Note, err, tt.notes)
						}
						if err := run.Suspend(t.Context()); err != nil {
							t.Fatal(err)
						}
						ask = &asks[0]
						accept(ask)
						run = resume()
					} else if !decided {
						accept(ask)
					}
					if res, err := run.Wait(t.Context()); err != nil || res.Text != "ok" || res.ToolCalls != 1 {
						t.Errorf("got %+v, %v, want the call made once", res, err)
					}
				})
			})
		}
	}
}

// renamed is a model by another name.
type renamed struct {
	llm.Model
	name string
}

func (m renamed) Name() string { return m.name }

// TestStartedWith: what a program keeps of how it started a run is in the journal, of a fork too, until one that
// goes on with the run keeps something else.
func TestStartedWith(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		opts := agent.Options{Store: s, Model: llmtest.ByHistory(call("double", in{2}), llmtest.Say("ok")), Tools: []agent.Tool{agent.NeedsApproval(double)},
			StartedWith: json.RawMessage(`{"a":1}`)}
		ask := leave(t, opts, basic)
		want := func(rt *agent.Runtime, id, with string) {
			t.Helper()
			if got, err := rt.StartedWith(t.Context(), id); err != nil || string(got) != with {
				t.Errorf("StartedWith of %s: got %s, %v, want %s", id, got, err, with)
			}
		}
		opts.StartedWith = nil
		rt := open(t, &opts)
		want(rt, "r1", `{"a":1}`)
		if _, err := s.SettleAsk(t.Context(), ask.ID, store.Decision{Status: store.AskAccepted, By: "ada"}); err != nil {
			t.Fatal(err)
		}
		run, err := rt.Resume(t.Context(), "r1", &agent.ResumeOptions{StartedWith: json.RawMessage(`{"a":2}`)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(rt, "r1", `{"a":2}`)
		fork, err := rt.Fork(t.Context(), "r1", 0, &agent.ForkOptions{ID: "f", Say: "again"})
		if err != nil {
			t.Fatal(err)
		}
		want(rt, "f", `{"a":2}`)
		fork.Cancel(nil)
		for _, bad := range []string{`[1]`, `null`, `{`, `{"a":"` + strings.Repeat("x", 64<<10) + `"}`} {
			if _, err := rt.Start(t.Context(), "go", &agent.RunOptions{StartedWith: json.RawMessage(bad)}); err == nil || !strings.Contains(err.Error(), "StartedWith") {
				t.Errorf("%.20s: got %v, want it refused", bad, err)
			}
		}
	})
}
