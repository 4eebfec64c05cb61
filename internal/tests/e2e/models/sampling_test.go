package models

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/tests/modelservers"
	"github.com/troupe-dev/troupe/internal/tests/modelservers/tinygguf"
	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/sampling"
)

// lent is a model that calls the tools which ask a model, and then is that model.
func lent() *tinygguf.Spec {
	spec := modelservers.Behaviour()
	spec.Routes["#ask"] = modelservers.Call("everything__trigger-sampling-request", `{"prompt":"who are you? #inner","maxTokens":50}`)
	spec.Routes["#inner"] = "Nobody, said the model."
	spec.Routes["#plan"] = modelservers.Call("planner__plan", `{}`)
	spec.Routes["#trip"] = "Let me see.\n" + modelservers.Calls(modelservers.Call("weather", `{"place":"Oslo"}`), modelservers.Call("trains", `{"place":"Bergen"}`))
	return spec
}

// planner is a server of ours whose one tool runs a loop with a model and two tools.
type planner struct {
	url    string
	called atomic.Int64

	mu    sync.Mutex
	loops []*sampling.Result
}

type place struct {
	Place string `json:"place"`
}

func newPlanner(t *testing.T, own llm.Model) *planner {
	t.Helper()
	s, err := mcpserver.New(mcp.Implementation{Name: "planner", Version: "1"}, &mcpserver.Options{Model: sampling.NewModel(own, nil)})
	if err != nil {
		t.Fatal(err)
	}
	p := new(planner)
	tools := []*sampling.Tool{
		sampling.Func(&mcp.Tool{Name: "weather"}, func(_ context.Context, in place) (string, error) {
			p.called.Add(1)
			return "clear over " + in.Place, nil
		}),
		sampling.Func(&mcp.Tool{Name: "trains"}, func(_ context.Context, in place) (string, error) {
			p.called.Add(1)
			return "a train to " + in.Place, nil
		}),
	}
	err = mcpserver.AddTool(s, &mcp.Tool{Name: "plan"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
		question := &mcp.CreateMessageParams{MaxTokens: 200, SystemPrompt: "You plan trips.", Messages: []mcp.SamplingMessage{
			{Role: mcp.RoleUser, Content: mcp.Contents{mcp.Text("Where to? #trip")}},
		}}
		r, err := sampling.Loop(ctx, req, "plan", question, tools, nil)
		if err != nil {
			return "", err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.loops = append(p.loops, r)
		return "The plan: " + r.Text(), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		if err := s.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	p.url = web.URL
	return p
}

// seen is what a run has shown.
type seen struct {
	tools   []string
	results []string // of calls
	asks    []string // kinds of questions
	err     error
}

// lend runs an agent that may lend its model to the server; answer is what the person
// says to a kind of question.
func lend(t *testing.T, m llm.Model, server mcpclient.Server, mode mcpclient.SamplingMode, prompt string, answer func(kind string) string) seen {
	t.Helper()
	ctx := soon(t)
	rt, err := agent.Open(ctx, &agent.Options{
		Model: m, Servers: []mcpclient.Server{server},
		Sampling: &agent.Sampling{Default: agent.SamplingPolicy{Mode: mode}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	a, err := rt.Agent("agent", &agent.Config{Approve: agent.NeverAsk})
	if err != nil {
		t.Fatal(err)
	}
	run, err := a.Start(ctx, prompt, nil)
	if err != nil {
		t.Fatal(err)
	}
	var s seen
	for ev, err := range run.Events(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		switch ev := ev.(type) {
		case agent.Ask:
			s.asks = append(s.asks, ev.Kind)
			if ev.Server != server.Name {
				t.Errorf("a question is said to come from %q, want %q", ev.Server, server.Name)
			}
			d, err := agent.DecideAs(&mcpclient.Decision{Action: answer(ev.Kind)})
			if err == nil {
				err = ev.Answer(ctx, d)
			}
			if err != nil {
				t.Errorf("Answer: %v", err)
			}
		case agent.ToolsListed:
			s.tools = ev.Tools
		case agent.ToolResult:
			text := ev.Result.Content.Text()
			if ev.Result.IsError {
				text = "isError " + text
			}
			s.results = append(s.results, text)
		}
	}
	_, s.err = run.Wait(ctx)
	return s
}

// manner is how a person and a policy take a server's question.
type manner struct {
	name    string
	mode    mcpclient.SamplingMode
	answer  func(kind string) string
	samples bool // the server gets an answer
}

func always(a string) func(string) string { return func(string) string { return a } }

var manners = []manner{
	{"allowed", mcpclient.SamplingAllow, always(mcp.ActionCancel), true},
	{"reviewed", mcpclient.SamplingAsk, always(mcp.ActionAccept), true},
	{"declined", mcpclient.SamplingAsk, always(mcp.ActionDecline), false},
	{"answer withheld", mcpclient.SamplingAsk, func(kind string) string {
		if kind == "sample" {
			return mcp.ActionDecline
		}
		return mcp.ActionAccept
	}, false},
	{"denied", mcpclient.SamplingDeny, always(mcp.ActionAccept), false},
}

// TestEverythingSamples: the tool of server-everything that asks for a model is answered by
// a real one, once a person has seen question and answer (SAMP-01, SAMP-40, SAMP-41). Where
// sampling is denied the server does not hear of it, and has no such tool.
func TestEverythingSamples(t *testing.T) {
	t.Parallel()
	s := native.scripted(t, lent())
	for _, m := range manners {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			line := peers.Require(t, peers.Everything)
			server := mcpclient.Command(line[0], line[1:]...)
			server.Name, server.Protocol = "everything", string(mcp.V2025_11_25)
			got := lend(t, s.client(), server, m.mode, "#ask", m.answer)
			checkAsks(t, m, got.asks, 1)
			denied := m.mode == mcpclient.SamplingDeny
			if offered := slices.Contains(got.tools, "everything__trigger-sampling-request"); offered == denied || !slices.Contains(got.tools, "everything__echo") {
				t.Errorf("the tools are %q", got.tools)
			}
			if denied { // the model calls what is not there, which Ollama leaves out
				if got.err != nil || len(got.results) > 0 {
					t.Errorf("got results %q, error %v", got.results, got.err)
				}
				return
			}
			if got.err != nil || len(got.results) != 1 {
				t.Fatalf("got results %q, error %v", got.results, got.err)
			}
			has := strings.Contains(got.results[0], "Nobody, said the model.") && strings.Contains(got.results[0], `"model": "`+s.model+`"`)
			if has != m.samples || !m.samples && !strings.HasPrefix(got.results[0], "isError ") {
				t.Errorf("the call of the tool: got %q, want an answer: %v", got.results[0], m.samples)
			}
		})
	}
}

// checkAsks holds the questions to what the manner is, for so many turns of a model.
func checkAsks(t *testing.T, m manner, asks []string, turns int) {
	t.Helper()
	var want []string
	switch m.name {
	case "reviewed":
		for range turns {
			want = append(want, "sampling", "sample")
		}
	case "declined":
		want = []string{"sampling"}
	case "answer withheld":
		want = []string{"sampling", "sample"}
	}
	if !slices.Equal(asks, want) {
		t.Errorf("the person was asked %q, want %q", asks, want)
	}
}

// TestPlannerSamples: a server of ours runs a loop with the host's real model and tools of
// its own, in both eras (SAMP-20, SAMP-24, SAMP-30); where it may not, with its own real
// model, and without one it says so (SAMP-04).
func TestPlannerSamples(t *testing.T) {
	t.Parallel()
	for _, b := range []backend{native, llama} {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			s := b.scripted(t, lent())
			for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
				for _, m := range manners {
					t.Run(fmt.Sprint(v, " ", m.name), func(t *testing.T) {
						t.Parallel()
						p := newPlanner(t, nil)
						got := lend(t, s.client(), p.server(v), m.mode, "#plan", m.answer)
						checkAsks(t, m, got.asks, 2)
						if !m.samples {
							if len(got.results) != 1 || strings.Contains(got.results[0], "The plan") || p.called.Load() > 0 {
								t.Errorf("got results %q after %d calls, want a refusal", got.results, p.called.Load())
							}
							return
						}
						p.check(t, got, s.model, false)
					})
				}
				t.Run(fmt.Sprint(v, " its own"), func(t *testing.T) {
					t.Parallel()
					p := newPlanner(t, s.client())
					got := lend(t, s.client(), p.server(v), mcpclient.SamplingDeny, "#plan", always(mcp.ActionAccept))
					p.check(t, got, s.model, true)
				})
			}
		})
	}
}

// server is how a host reaches the planner in a revision.
func (p *planner) server(v mcp.Version) mcpclient.Server {
	return mcpclient.Server{Name: "planner", URL: p.url, Transport: mcpclient.TransportHTTP, Protocol: string(v)}
}

// check holds a run, and the loop in it, to having worked.
func (p *planner) check(t *testing.T, got seen, model string, own bool) {
	t.Helper()
	if want := "The plan: " + modelservers.Behaviour().Tool; got.err != nil || !slices.Equal(got.results, []string{want}) {
		t.Errorf("got results %q, error %v, want %q", got.results, got.err, want)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.loops) != 1 {
		t.Fatalf("got %d loops, want 1", len(p.loops))
	}
	r := p.loops[0]
	if r.Own != own || r.Turns != 2 || r.Calls != 2 || p.called.Load() != 2 || r.Answer.Model != model || len(r.Messages) != 4 || r.Usage.Input == 0 {
		t.Errorf("the loop: got %+v after %d calls of tools", r, p.called.Load())
	}
}
