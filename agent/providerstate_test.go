package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/ollama"
	"github.com/troupe-dev/troupe/llm/openai"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/store"
)

// services are those that want back what they attach to an answer.
var services = []llmtest.Service{llmtest.OpenAI, llmtest.DeepSeek, llmtest.Gemini, llmtest.OpenRouter, llmtest.Thinking}

// refusing returns a model of a service that plays turns, and refuses a conversation without what it has attached.
func refusing(t *testing.T, service llmtest.Service, turns ...llmtest.Turn) (llm.Model, *llmtest.Server) {
	t.Helper()
	script := llmtest.NewServer(turns...)
	script.Service = service
	srv := httptest.NewServer(script)
	t.Cleanup(srv.Close)
	if service == llmtest.Thinking {
		return ollama.New("m", &ollama.Options{Host: srv.URL}), script
	}
	return openai.New("m", &openai.Options{Provider: string(service), BaseURL: srv.URL}), script
}

// twoCalls is a turn with two calls.
func twoCalls(a, b string) llmtest.Turn {
	return llmtest.Calls(call("double", `{"n":`+a+`}`), call("double", `{"n":`+b+`}`))
}

// What a service has attached to its answers comes back to it as long as the run goes on: turn by turn, after a kill and in
// another process, and in the next prompt of a conversation.
func TestProviderState(t *testing.T) {
	for _, service := range services {
		t.Run(string(service), func(t *testing.T) {
			t.Parallel()
			s := memory()
			model, script := refusing(t, service, twoCalls("1", "2"), twoCalls("3", "4"), twoCalls("5", "6"), llmtest.Say("ok"), twoCalls("7", "8"), llmtest.Say("again"))
			needs := []agent.Tool{agent.NeedsApproval(double)}
			var asked atomic.Int32
			second := make(chan struct{})
			first := open(t, &agent.Options{Store: s, Model: model, Tools: needs, OnAsk: func(ctx context.Context, _ agent.Ask) (agent.Decision, error) {
				if n := asked.Add(1); n <= 2 { // the calls of the first turn
					return agent.Accept(), nil
				} else if n == 3 {
					close(second)
				}
				<-ctx.Done()
				return agent.Decision{}, context.Cause(ctx)
			}})
			run := start(t, first, "r1")
			<-second
			if err := run.Suspend(t.Context()); err != nil {
				t.Fatal(err)
			}
			accepts := func(context.Context, agent.Ask) (agent.Decision, error) { return agent.Accept(), nil }
			other := open(t, &agent.Options{Store: s, Model: model, Tools: needs, OnAsk: accepts})
			run, err := other.Resume(t.Context(), "r1", nil)
			if err != nil {
				t.Fatal(err)
			}
			if res, err := run.Wait(t.Context()); err != nil || res.Text != "ok" {
				t.Fatalf("got %+v, %v", res, err)
			}
			history, err := other.Conversation(t.Context(), "r1")
			if err != nil {
				t.Fatal(err)
			}
			run, err = other.Start(t.Context(), "once more", &agent.RunOptions{History: history})
			if err != nil {
				t.Fatal(err)
			}
			if res, err := run.Wait(t.Context()); err != nil || res.Text != "again" {
				t.Fatalf("the next prompt: got %+v, %v", res, err)
			}
			if f := script.Failures(); len(f) > 0 {
				t.Errorf("requests that the API does not have: %q", f)
			}
		})
	}
}

// A service takes a conversation that another one has begun: it gets nothing of the other's, and what it documents for calls that it has not made.
func TestProviderStateOfAnother(t *testing.T) {
	for _, from := range append(services, "") {
		for _, to := range services {
			if from == to {
				continue
			}
			t.Run(string(from+" to "+to), func(t *testing.T) {
				t.Parallel()
				s := memory()
				before, _ := refusing(t, from, twoCalls("1", "2"), twoCalls("3", "4"), llmtest.Say("no"))
				after, script := refusing(t, to, twoCalls("5", "6"), twoCalls("7", "8"), llmtest.Say("ok"))
				rt := open(t, &agent.Options{Store: s, Model: before, Tools: []agent.Tool{double}})
				if _, err := start(t, rt, "r1").Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				at, results := int64(0), 0
				for ev, err := range store.Replay(t.Context(), s, "r1", 0) {
					if err != nil {
						t.Fatal(err)
					}
					if ev.Type == store.ToolResult {
						if results++; results == 4 {
							at = ev.Seq
						}
					}
				}
				other, err := rt.Agent("agent", &agent.Config{Model: after})
				if err != nil {
					t.Fatal(err)
				}
				run, err := rt.Fork(t.Context(), "r1", at, &agent.ForkOptions{Agent: other})
				if err != nil {
					t.Fatal(err)
				}
				if res, err := run.Wait(t.Context()); err != nil || res.Text != "ok" {
					t.Errorf("got %+v, %v", res, err)
				}
				for i, r := range script.Requests() {
					if strings.Contains(string(r.Body), "Turn 2 needs a tool") && i == 0 {
						t.Error("the thinking of another service went to it")
					}
				}
				if f := script.Failures(); len(f) > 0 {
					t.Errorf("requests that the API does not have: %q", f)
				}
			})
		}
	}
}

// SAMP-24, SAMP-25: a server that drives a loop of its own sends the history back, and with it, sealed, what the service of the model wants.
func TestProviderStateOfAServersLoop(t *testing.T) {
	for _, protocol := range eras {
		for _, service := range services {
			t.Run(protocol+" "+string(service), func(t *testing.T) {
				t.Parallel()
				loop := func(ctx context.Context, req *mcpserver.ToolRequest) (string, error) {
					p := question("Double 1 and 2")
					p.Tools = []mcp.Tool{{Name: "double", InputSchema: json.RawMessage(`{"type":"object"}`)}}
					for round := range 5 {
						res, err := req.Sample(ctx, fmt.Sprint(round), p)
						if err != nil || res.StopReason != mcp.StopToolUse {
							return res.Content.Text(), err
						}
						var results mcp.Contents
						for _, c := range res.Content {
							if call, ok := c.(*mcp.ToolUseContent); ok {
								results = append(results, &mcp.ToolResultContent{ToolUseID: call.ID, Content: mcp.Contents{mcp.Text("done")}})
							}
						}
						p.Messages = append(p.Messages, mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: res.Content}, mcp.SamplingMessage{Role: mcp.RoleUser, Content: results})
					}
					return "", errors.New("it does not end")
				}
				model, script := refusing(t, service, twoCalls("1", "2"), twoCalls("3", "4"), llmtest.Say("ok"))
				results, err := answered(t, &agent.Options{Servers: []mcpclient.Server{serving(t, "bank", protocol, "ask", loop)},
					Sampling: &agent.Sampling{Model: model, Default: allow}}, nil, agent.Limits{})
				if err != nil || len(results) != 1 || results[0] != "ok" || script.Remaining() != 0 {
					t.Errorf("got %q, %v", results, err)
				}
			})
		}
	}
}
