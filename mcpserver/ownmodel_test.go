package mcpserver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/sampling"
)

// addAsk adds a tool that asks the model whatever p says.
func addAsk(t testing.TB, s *mcpserver.Server, p *mcp.CreateMessageParams) {
	t.Helper()
	err := mcpserver.AddTool(s, &mcp.Tool{Name: "ask"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
		r, err := req.Sample(ctx, "ask", p)
		if err != nil {
			return "", err
		}
		return r.Content.Text() + " " + r.StopReason, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Request.Sample has the client's model, or the server's own where there is none.
func TestSampleOwnModel(t *testing.T) {
	for caps, want := range map[string]string{`{}`: "Hello endTurn", `{"sampling":{}}`: "Paris "} {
		t.Run(caps, func(t *testing.T) {
			eachLoop(t, mcp.V2024_11_05, mcpserver.Options{Model: sampling.NewModel(llmtest.Loop(llmtest.Say("Hello")), nil)}, caps, func(t *testing.T, s *mcpserver.Server, a *asked) {
				addAsk(t, s, sampleParams("Hi"))
				if got := a.call("ask", `{}`, respondAda); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		})
	}
}

// What the own model is asked is what the question says, within the server's limit.
func TestOwnModelIsAsked(t *testing.T) {
	synctestOnce(t, func(t *testing.T) {
		own := llmtest.Script(llmtest.Say("no call"), llmtest.Call("weather", `{"place":"Oslo"}`))
		s, _ := newServer(t, &mcpserver.Options{Model: sampling.NewModel(own, &sampling.Limits{MaxTokens: 50})})
		p := question()
		p.Tools = []mcp.Tool{{Name: "weather", InputSchema: []byte(`{"type":"object"}`)}}
		p.ToolChoice = &mcp.ToolChoice{Mode: mcp.ToolChoiceRequired}
		addAsk(t, s, p)
		if got := openAsked(t, s, mcp.V2025_11_25, `{}`).call("ask", `{}`, respondAda); got != " toolUse" {
			t.Errorf("got %q", got)
		}
		asked := own.Requests()
		if len(asked) != 2 { // SAMP-06: it is told again, once
			t.Fatalf("got %d requests, want 2", len(asked))
		}
		if r := asked[0]; r.MaxTokens != 50 || r.System != "You plan trips." || r.ToolChoice != llm.ToolChoiceRequired || len(r.Tools) != 1 {
			t.Errorf("got %+v", r)
		}
	})
}

// Errors of the own model are the handler's to handle, and show nothing of a question
// that is wrong but what is wrong with it.
func TestOwnModelFails(t *testing.T) {
	wrong := sampleParams("Hi")
	wrong.Messages[0].Content = mcp.Contents{&mcp.ImageContent{MIMEType: "image/tiff"}}
	tests := map[string]struct {
		p    *mcp.CreateMessageParams
		turn llmtest.Turn
		want string
	}{
		"no model of that name": {sampleParams("Hi"), llmtest.Reply(404, "no such model"), "asking the server's model"},
		"a wrong question":      {wrong, llmtest.Say("x"), "image/tiff"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctestOnce(t, func(t *testing.T) {
				s, _ := newServer(t, &mcpserver.Options{Model: sampling.NewModel(llmtest.Script(tt.turn), nil)})
				addAsk(t, s, tt.p)
				if got := openAsked(t, s, mcp.V2026_07_28, `{}`).call("ask", `{}`, respondAda); !hasAll(got, "isError", tt.want) {
					t.Errorf("got %q, want %q in it", got, tt.want)
				}
			})
		})
	}
}

// One principal can not have all of the model, and no client more tokens than it may.
func TestModelLimits(t *testing.T) {
	t.Run("per principal", func(t *testing.T) {
		synctestOnce(t, func(t *testing.T) {
			gate := llmtest.NewGate()
			own := llmtest.Loop(llmtest.Join(llmtest.Hold(gate), llmtest.Say("Hello")))
			s, _ := newServer(t, &mcpserver.Options{Model: sampling.NewModel(own, &sampling.Limits{PerPrincipal: 2, Concurrency: 3})})
			addAsk(t, s, sampleParams("Hi"))
			greedy, other := openAsked(t, s, mcp.V2025_11_25, `{}`), openAsked(t, s, mcp.V2025_11_25, `{}`)
			for range 5 {
				greedy.send(greedy.tool("ask", `{}`, ""))
			}
			synctest.Wait()
			if n := len(own.Requests()); n != 2 {
				t.Errorf("got %d turns of one client, want 2", n)
			}
			for range 2 {
				other.send(other.tool("ask", `{}`, ""))
			}
			synctest.Wait()
			if n := len(own.Requests()); n != 3 {
				t.Errorf("got %d turns, want 3", n)
			}
			greedy.cancelLast() // one that waits
			gate.Open()
			for range 4 {
				if got := readMessage(t, greedy.receive()).text(); got != "Hello endTurn" {
					t.Errorf("got %q", got)
				}
			}
		})
	})
	t.Run("tokens per hour", func(t *testing.T) {
		synctestOnce(t, func(t *testing.T) {
			own := llmtest.Loop(llmtest.Say("Hello").Usage(60, 40))
			s, _ := newServer(t, &mcpserver.Options{Model: sampling.NewModel(own, &sampling.Limits{TokensPerHour: 250})})
			var last error
			err := mcpserver.AddTool(s, &mcp.Tool{Name: "ask"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
				_, last = req.Sample(ctx, "ask", sampleParams("Hi"))
				return "ok", last
			})
			if err != nil {
				t.Fatal(err)
			}
			a, other := openAsked(t, s, mcp.V2025_11_25, `{}`), openAsked(t, s, mcp.V2025_11_25, `{}`)
			var got []string
			for range 4 {
				got = append(got, a.call("ask", `{}`, respondAda))
			}
			if want := "[ok ok ok isError what this client may use of the server's model is used up, try again later]"; fmt.Sprint(got) != want || !errors.Is(last, sampling.ErrBudget) {
				t.Errorf("got %v, want %s", got, want)
			}
			if r := own.Requests()[2]; r.MaxTokens >= 50 { // what was left bounds the output
				t.Errorf("the last turn may have %d tokens", r.MaxTokens)
			}
			if got := other.call("ask", `{}`, respondAda); got != "ok" {
				t.Errorf("another client: got %q", got)
			}
			time.Sleep(time.Hour)
			if got := a.call("ask", `{}`, respondAda); got != "ok" {
				t.Errorf("an hour later: got %q", got)
			}
		})
	})
	t.Run("negative", func(t *testing.T) {
		_, err := mcpserver.New(mcp.Implementation{Name: "test", Version: "1"}, &mcpserver.Options{Model: sampling.NewModel(llmtest.Script(), &sampling.Limits{MaxTokens: -1})})
		if err == nil {
			t.Error("got no error")
		}
	})
}

// A loop whose conversation is too long for the model ends with that error: its messages
// are kept whole, and nothing is asked again without some of them.
func TestLoopTooLong(t *testing.T) {
	synctestOnce(t, func(t *testing.T) {
		trip := llmtest.Calls(llmtest.Call("weather", `{"place":"Oslo"}`), llmtest.Call("trains", `{"place":"Oslo"}`))
		own := llmtest.Script(trip, trip, trip, llmtest.Fail(&llm.Error{Provider: "own", Err: llm.ErrContextLength}), llmtest.Say("what is left"))
		s, _ := newServer(t, &mcpserver.Options{Model: sampling.NewModel(own, nil)})
		p := addLoop(t, s, nil, nil)
		got := openAsked(t, s, mcp.V2025_11_25, `{}`).call("plan", `{}`, respondAda)
		if err := p.lastError(); !hasAll(got, "isError") || !errors.Is(err, llm.ErrContextLength) || len(own.Requests()) != 4 {
			t.Errorf("got %q and %v after %d requests, want that it is too long after 4", got, err, len(own.Requests()))
		}
	})
}
