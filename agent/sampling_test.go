package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// question is a request for the model.
func question(text string) *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{MaxTokens: 100, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Contents{mcp.Text(text)}}}}
}

// serving is a server with one tool.
func serving(t *testing.T, name, protocol, tool string, do func(context.Context, *mcpserver.ToolRequest) (string, error)) mcpclient.Server {
	t.Helper()
	s, err := mcpserver.New(mcp.Implementation{Name: "Your Bank", Version: "1"}, &mcpserver.Options{Instructions: "Be kind to " + name + "."})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	err = mcpserver.AddTool(s, &mcp.Tool{Name: tool}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) { return do(ctx, req) })
	if err != nil {
		t.Fatal(err)
	}
	srv := mcpclient.InProcess(name, s)
	srv.Protocol = protocol
	return srv
}

// asking is a server whose tool "ask" asks the client's model so many times, and
// returns the answers, or the first error.
func asking(t *testing.T, name, protocol string, times int, p *mcp.CreateMessageParams) mcpclient.Server {
	t.Helper()
	return serving(t, name, protocol, "ask", func(ctx context.Context, req *mcpserver.ToolRequest) (string, error) {
		var answers []string
		for i := range times {
			res, err := req.Sample(ctx, fmt.Sprint(i), p)
			if err != nil {
				return "", fmt.Errorf("after %d answers: %w", i, err)
			}
			raw, err := json.Marshal(res.Content)
			if err != nil {
				return "", err
			}
			answers = append(answers, string(raw)+" "+res.StopReason)
		}
		return strings.Join(answers, "\n"), nil
	})
}

// quiet is a server whose tool "quiet" asks twice and returns nothing of it.
func quiet(t *testing.T, name, protocol string, p *mcp.CreateMessageParams) mcpclient.Server {
	t.Helper()
	return serving(t, name, protocol, "quiet", func(ctx context.Context, req *mcpserver.ToolRequest) (string, error) {
		for _, key := range []string{"a", "b"} {
			if _, err := req.Sample(ctx, key, p); err != nil {
				return "", err
			}
		}
		return "ok", nil
	})
}

// eras are revisions of both eras.
var eras = []string{string(mcp.V2025_11_25), string(mcp.V2026_07_28)}

// inEras runs a test in each.
func inEras(t *testing.T, f func(t *testing.T, protocol string)) {
	t.Helper()
	for _, protocol := range eras {
		t.Run(protocol, func(t *testing.T) { bubble(t, func(t *testing.T) { f(t, protocol) }) })
	}
}

// answered runs an agent that calls the tool of each server once, answers what is asked
// of a human, and returns the text of each result.
func answered(t *testing.T, opts *agent.Options, decide func(*mcpclient.Ask) *mcpclient.Decision, limits agent.Limits) (results []string, err error) {
	t.Helper()
	calls := make([]llmtest.Turn, 0, len(opts.Servers)+1)
	for _, s := range opts.Servers {
		calls = append(calls, call(s.Name+"__ask", nil))
	}
	opts.Model, opts.Approve = llmtest.Script(append(calls, llmtest.Say("done"))...), agent.NeverAsk
	rt := open(t, opts)
	a, err := rt.Agent("agent", &agent.Config{Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	run, err := a.Start(t.Context(), "go", nil)
	if err != nil {
		t.Fatal(err)
	}
	for ev, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		switch ev := ev.(type) {
		case agent.Ask:
			if ev.Question == nil {
				t.Fatalf("ask without a question: %+v", ev)
			}
			d, err := agent.DecideAs(decide(ev.Question))
			if err == nil {
				err = ev.Answer(t.Context(), d)
			}
			if err != nil {
				t.Errorf("Answer: %v", err)
			}
		case agent.ToolResult:
			results = append(results, ev.Result.Content.Text())
		}
	}
	_, err = run.Wait(t.Context())
	return results, err
}

// refused stands for the words of a person's refusal, which the eras have different.
const refused = "declined or rejected"

func says(result, want string) bool {
	if want == refused {
		return strings.Contains(result, "declined") || strings.Contains(result, "user rejected")
	}
	return strings.Contains(result, want)
}

// allow is a policy without a human.
var allow = agent.SamplingPolicy{Mode: mcpclient.SamplingAllow}

// A server's question is answered by the model that was given for it, in both eras; who
// reviews it is whoever answers for the run (SAMP-01, SAMP-10, SAMP-40, SAMP-41).
func TestSamplingReviewed(t *testing.T) {
	edit := func(text string) mcp.Contents { return mcp.Contents{mcp.Text(text)} }
	tests := []struct {
		name    string
		decide  func(*mcpclient.Ask) *mcpclient.Decision
		asked   string // of the model; "" for nothing
		want    string
		reviews int
	}{
		{"approved", func(a *mcpclient.Ask) *mcpclient.Decision {
			return &mcpclient.Decision{Action: mcp.ActionAccept, Hash: a.Hash}
		}, "Capital of France?", `"Paris"`, 2},
		{"edited", func(a *mcpclient.Ask) *mcpclient.Decision {
			d := &mcpclient.Decision{Action: mcp.ActionAccept, Hash: a.Hash}
			if a.Kind == mcpclient.AskSampling {
				d.Sampling = question("Capital of Spain?")
			} else {
				d.Sample = &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "m", Content: edit("a secret")}
			}
			return d
		}, "Capital of Spain?", `"a secret"`, 2},
		{"denied", func(*mcpclient.Ask) *mcpclient.Decision { return &mcpclient.Decision{Action: mcp.ActionDecline} }, "", refused, 1},
		{"the answer is denied", func(a *mcpclient.Ask) *mcpclient.Decision {
			if a.Kind == mcpclient.AskSample {
				return &mcpclient.Decision{Action: mcp.ActionDecline}
			}
			return &mcpclient.Decision{Action: mcp.ActionAccept}
		}, "Capital of France?", refused, 2},
		// SECA-41: a decision about something else is none.
		{"another question was shown", func(*mcpclient.Ask) *mcpclient.Decision {
			return &mcpclient.Decision{Action: mcp.ActionAccept, Hash: "of something else"}
		}, "", refused, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inEras(t, func(t *testing.T, protocol string) {
				model := llmtest.Script(llmtest.Say("Paris"))
				var reviews []*mcpclient.Ask
				results, err := answered(t, &agent.Options{
					Servers:  []mcpclient.Server{asking(t, "bank", protocol, 1, question("Capital of France?"))},
					Sampling: &agent.Sampling{Model: model},
				}, func(a *mcpclient.Ask) *mcpclient.Decision {
					reviews = append(reviews, a)
					return tt.decide(a)
				}, agent.Limits{})
				if err != nil {
					t.Fatal(err)
				}
				if len(results) != 1 || !says(results[0], tt.want) {
					t.Errorf("result: got %q, want %q", results, tt.want)
				}
				var asked string
				for _, req := range model.Requests() {
					asked += req.Messages[0].Content.Text()
				}
				if asked != tt.asked {
					t.Errorf("the model was asked %q, want %q", asked, tt.asked)
				}
				if len(reviews) != tt.reviews {
					t.Fatalf("%d reviews, want %d", len(reviews), tt.reviews)
				}
				// Who asks and what for comes from the configuration (SECA-34), and all of it
				// is shown (SECA-41).
				r := reviews[0]
				if r.Kind != mcpclient.AskSampling || r.Server != "bank" || len(r.Calls) != 1 || r.Calls[0].Name != "ask" ||
					!slices.Equal(r.Path, []string{"agent"}) || r.Sampling.Messages[0].Content.Text() != "Capital of France?" || r.Sampling.MaxTokens != 100 {
					t.Errorf("review: got %+v", r)
				}
			})
		})
	}
}

// Without Sampling, and with deny, it is not declared; where nobody answers, nothing is
// sampled (SAMP-01, CAP-03, SAMP-40).
func TestSamplingDenied(t *testing.T) {
	tests := []struct {
		name     string
		server   mcpclient.SamplingMode // what the server's definition says
		sampling *agent.Sampling
		want     string
		reviews  bool
	}{
		{"none", "", nil, "sampling", false},
		{"deny", "", &agent.Sampling{Default: agent.SamplingPolicy{Mode: mcpclient.SamplingDeny}}, "sampling", false},
		{"ask", "", &agent.Sampling{}, refused, true},
		{"deny by the server's definition", mcpclient.SamplingDeny, &agent.Sampling{Default: allow}, "sampling", false},
		{"a policy without a mode does not widen that", mcpclient.SamplingDeny, &agent.Sampling{Servers: map[string]agent.SamplingPolicy{"bank": {Tokens: 1000}}}, "sampling", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inEras(t, func(t *testing.T, protocol string) {
				if tt.sampling != nil {
					tt.sampling.Model = llmtest.Script()
				}
				reviewed := false
				srv := asking(t, "bank", protocol, 1, question("Hi"))
				srv.Sampling = tt.server
				results, err := answered(t, &agent.Options{Servers: []mcpclient.Server{srv}, Sampling: tt.sampling},
					func(*mcpclient.Ask) *mcpclient.Decision {
						reviewed = true
						return &mcpclient.Decision{Action: mcp.ActionCancel}
					}, agent.Limits{})
				if err != nil || len(results) != 1 || !says(results[0], tt.want) || reviewed != tt.reviews {
					t.Errorf("result: got %q, %v, reviewed %v", results, err, reviewed)
				}
			})
		})
	}
}

// Two servers ask at the same time, and neither pays for the other, nor gets its
// answers (SECA-43).
func TestSamplingTwoServers(t *testing.T) {
	inEras(t, func(t *testing.T, protocol string) {
		echo := modelFunc(func(ctx context.Context, req *llm.Request) (string, error) {
			return "for " + req.Messages[0].Content.Text(), nil
		})
		once := allow
		once.Requests = 1
		model := llmtest.Script(llmtest.Calls(call("ada__ask", nil), call("bob__ask", nil)), llmtest.Say("done"))
		rt := open(t, &agent.Options{Model: model, Approve: agent.NeverAsk,
			Servers:  []mcpclient.Server{asking(t, "ada", protocol, 5, question("ada")), asking(t, "bob", protocol, 5, question("bob"))},
			Sampling: &agent.Sampling{Model: echo, Default: allow, Servers: map[string]agent.SamplingPolicy{"bob": once}}})
		run := start(t, rt, "r")
		got := make(map[string]string)
		for ev, err := range run.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if res, ok := ev.(agent.ToolResult); ok {
				got[res.Server] = res.Result.Content.Text()
			}
		}
		if n := strings.Count(got["ada"], "for ada"); n != 5 || strings.Contains(got["ada"], "bob") {
			t.Errorf("ada: got %q", got["ada"])
		}
		if !strings.Contains(got["bob"], "sampling refused") || strings.Contains(got["bob"], "ada") {
			t.Errorf("bob: got %q", got["bob"])
		}
	})
}

// SECA-43, SAMP-07: what a server would like to see of other conversations it gets only
// if that was granted, and never more.
func TestSamplingContext(t *testing.T) {
	tests := []struct {
		granted, wish string
		sees, not     []string
	}{
		{"", mcp.ContextAllServers, nil, []string{"What has been done", "first answer", "Be kind"}},
		{mcp.ContextThisServer, mcp.ContextThisServer, []string{"Be kind to bob."}, []string{"first answer", "Be kind to ada."}},
		{mcp.ContextThisServer, mcp.ContextAllServers, []string{"Be kind to bob."}, []string{"first answer"}},
		{mcp.ContextAllServers, mcp.ContextAllServers, []string{"Be kind to bob.", "ada__ask", "first answer"}, nil},
		{mcp.ContextAllServers, mcp.ContextNone, nil, []string{"What has been done", "first answer"}},
	}
	for _, tt := range tests {
		t.Run(tt.granted+" "+tt.wish, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				model := llmtest.Script(llmtest.Say("first answer"), llmtest.Say("second"))
				p := question("Hi")
				p.IncludeContext = tt.wish
				policy := allow
				policy.Context = tt.granted
				// 2025-06-18 has no capability for it: the wish comes whether or not it is granted.
				results, err := answered(t, &agent.Options{
					Servers:  []mcpclient.Server{asking(t, "ada", string(mcp.V2025_06_18), 1, question("Hello")), asking(t, "bob", string(mcp.V2025_06_18), 1, p)},
					Sampling: &agent.Sampling{Model: model, Default: policy}}, nil, agent.Limits{})
				if err != nil || len(model.Requests()) != 2 {
					t.Fatalf("got %q, %v", results, err)
				}
				system := model.Requests()[1].System
				for _, want := range tt.sees {
					if !strings.Contains(system, want) {
						t.Errorf("%q is not in %q", want, system)
					}
				}
				for _, not := range tt.not {
					if strings.Contains(system, not) {
						t.Errorf("%q is in %q", not, system)
					}
				}
			})
		})
	}
}

// SAMP-05, SAMP-11, SAMP-30: a server's tools are the server's to call, also where the
// program has one of the same name. The model's calls go to it, and nowhere else.
func TestSamplingToolsAreNotRun(t *testing.T) {
	inEras(t, func(t *testing.T, protocol string) {
		ran := false
		own := agent.Func("double", "Doubles.", func(context.Context, in) (string, error) {
			ran = true
			return "", nil
		})
		p := question("Double 2")
		p.Tools = []mcp.Tool{{Name: "double", InputSchema: json.RawMessage(`{"type":"object"}`)}}
		model := llmtest.Script(call("double", in{2}))
		results, err := answered(t, &agent.Options{Tools: []agent.Tool{own},
			Servers:  []mcpclient.Server{asking(t, "bank", protocol, 1, p)},
			Sampling: &agent.Sampling{Model: model, Default: allow}}, nil, agent.Limits{})
		if err != nil || len(results) != 1 || !strings.Contains(results[0], `"type":"tool_use"`) || !strings.Contains(results[0], mcp.StopToolUse) {
			t.Errorf("result: got %q, %v", results, err)
		}
		if ran {
			t.Error("the program's tool was called")
		}
	})
}

// SAMP-06: a model that must call and does not is told so, once.
func TestSamplingRequired(t *testing.T) {
	tests := []struct {
		name  string
		turns []llmtest.Turn
		want  string
	}{
		{"at the second try", []llmtest.Turn{llmtest.Say("no"), call("t", nil)}, `"tool_use"`},
		{"never", []llmtest.Turn{llmtest.Say("no"), llmtest.Say("no")}, "gave no answer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inEras(t, func(t *testing.T, protocol string) {
				p := question("Call it")
				p.Tools, p.ToolChoice = []mcp.Tool{{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)}}, &mcp.ToolChoice{Mode: mcp.ToolChoiceRequired}
				model := llmtest.Script(tt.turns...)
				results, err := answered(t, &agent.Options{Servers: []mcpclient.Server{asking(t, "bank", protocol, 1, p)},
					Sampling: &agent.Sampling{Model: model, Default: allow}}, nil, agent.Limits{})
				if err != nil || len(results) != 1 || !strings.Contains(results[0], tt.want) {
					t.Errorf("result: got %q, %v, want %q", results, err, tt.want)
				}
				if got := model.Requests(); len(got) != 2 || !strings.Contains(got[1].System, "must call") {
					t.Errorf("the model was asked %d times", len(got))
				}
			})
		})
	}
}

// The end of the run ends the model's turn at once.
func TestSamplingCancel(t *testing.T) {
	inEras(t, func(t *testing.T, protocol string) {
		begun, left := make(chan struct{}), make(chan error, 1)
		slow := modelFunc(func(ctx context.Context, _ *llm.Request) (string, error) {
			close(begun)
			<-ctx.Done()
			left <- context.Cause(ctx)
			return "", context.Cause(ctx)
		})
		rt := open(t, &agent.Options{Model: llmtest.Script(call("bank__ask", nil), llmtest.Say("done")), Approve: agent.NeverAsk,
			Servers: []mcpclient.Server{asking(t, "bank", protocol, 1, question("Hi"))}, Sampling: &agent.Sampling{Model: slow, Default: allow}})
		run := start(t, rt, "r")
		<-begun
		run.Cancel(errTest)
		<-left
		if _, err := run.Wait(t.Context()); !errors.Is(err, errTest) {
			t.Errorf("Wait: got %v, want %v", err, errTest)
		}
	})
}

// What can not work is an error before anything is started.
func TestSamplingRefused(t *testing.T) {
	model := llmtest.Script().Named("ollama/small")
	tests := []struct {
		name     string
		sampling agent.Sampling
		want     string
	}{
		{"a server that there is not", agent.Sampling{Servers: map[string]agent.SamplingPolicy{"bink": {}}}, `"bink"`},
		{"a mode", agent.Sampling{Default: agent.SamplingPolicy{Mode: "perhaps"}}, "perhaps"},
		{"a context", agent.Sampling{Default: agent.SamplingPolicy{Context: "everything"}}, "everything"},
		{"a number", agent.Sampling{Default: agent.SamplingPolicy{Requests: -1}}, "below zero"},
		{"money without a price", agent.Sampling{Default: agent.SamplingPolicy{Cost: llm.Unit}}, "price of ollama/small"},
		{"no such model", agent.Sampling{Default: agent.SamplingPolicy{Models: []string{"big"}}}, `"big"`},
		{"that model", agent.Sampling{Default: agent.SamplingPolicy{Models: []string{"small"}}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				rt, err := agent.Open(t.Context(), &agent.Options{Model: model, Sampling: &tt.sampling, Servers: []mcpclient.Server{asking(t, "bank", "", 1, question("Hi"))}})
				if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
					t.Errorf("Open: got %v, want %q", err, tt.want)
				}
				if rt != nil {
					if err := rt.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// modelFunc is a model that answers by a function.
type modelFunc func(ctx context.Context, req *llm.Request) (string, error)

// Name implements [llm.Model].
func (f modelFunc) Name() string { return "llmtest/func" }

// Stream implements [llm.Model].
func (f modelFunc) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		text, err := f(ctx, req)
		if err != nil {
			yield(nil, err)
			return
		}
		_ = yield(llm.TextDelta{Text: text}, nil) && yield(llm.Usage{Input: 1, Output: 1}, nil) && yield(llm.Finish{Reason: llm.FinishStop, Model: f.Name()}, nil)
	}
}
