package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/sampling"
	"github.com/troupe-dev/troupe/store/memstore"
)

// SAMP-20, SAMP-21, SAMP-24, SAMP-25, SAMP-30: the client's model is asked turn by turn,
// each time with all there was, and no tool runs twice for it.
func TestLoopWithClientsModel(t *testing.T) {
	eachLoop(t, mcp.V2025_11_25, mcpserver.Options{Model: sampling.NewModel(llmtest.Script(), nil)}, withTools, func(t *testing.T, s *mcpserver.Server, a *asked) {
		p := addLoop(t, s, nil, nil)
		m := &clientModel{t: t, turns: []string{tripCalls, tripAnswer}}
		if got := a.call("plan", `{}`, m.respond); got != "Go to Oslo." {
			t.Fatalf("got %q", got)
		}
		if w, tr := p.weather.Load(), p.trains.Load(); w != 1 || tr != 1 {
			t.Errorf("the tools have run %d and %d times, want once each", w, tr)
		}
		if len(m.asked) != 2 {
			t.Fatalf("got %d questions, want 2", len(m.asked))
		}
		first, second := m.asked[0], m.asked[1]
		if first.SystemPrompt != "You plan trips." || first.MaxTokens != 100 || len(first.Tools) != 2 || first.ToolChoice != nil {
			t.Errorf("first question: got %+v", first)
		}
		if schema := string(first.Tools[0].InputSchema); !hasAll(schema, `"place"`, `"required"`) || first.Tools[0].OutputSchema != nil {
			t.Errorf("the tool's schema: got %s, and %s for the output", schema, first.Tools[0].OutputSchema)
		}
		if got, want := toolResults(t, second), []string{`{"sky":"clear over Oslo","warm":true}`, "a train to Oslo at 9:05"}; !slices.Equal(got, want) {
			t.Errorf("results: got %q, want %q", got, want)
		}
		call := second.Messages[1].Content[1].(*mcp.ToolUseContent)
		if call.ID != "c1" || string(call.Meta["com.example/cache"]) != `"hint"` {
			t.Errorf("the call: got %+v, want it as it was", call)
		}
		r := p.result(t)
		if r.Turns != 2 || r.Calls != 2 || r.Own || len(r.Messages) != 4 || r.Answer.Model != "m" || !r.Usage.Estimated || r.Usage.Input == 0 {
			t.Errorf("got %+v", r)
		}
	})
}

// A server that needs a model has its own for clients that have none, or none with
// tools (SAMP-04); with neither the call is refused before anything is done (CAP-06,
// MRTR-04, MRTR-33).
func TestLoopWithoutClientsModel(t *testing.T) {
	for _, caps := range []string{`{}`, `{"sampling":{}}`} {
		t.Run("own model, client with "+caps, func(t *testing.T) {
			var own *llmtest.Model
			opts := mcpserver.Options{Model: sampling.NewModel(&relay{&own}, nil)}
			eachLoop(t, mcp.V2024_11_05, opts, caps, func(t *testing.T, s *mcpserver.Server, a *asked) {
				own = ownTrip()
				p := addLoop(t, s, nil, nil)
				got := a.call("plan", `{}`, func(method string, _ json.RawMessage) string {
					t.Errorf("the client was asked: %s", method)
					return `{}`
				})
				if got != "Go to Oslo." || p.weather.Load() != 1 || p.trains.Load() != 1 || own.Remaining() != 0 {
					t.Errorf("got %q, with %d and %d calls and %d turns left", got, p.weather.Load(), p.trains.Load(), own.Remaining())
				}
				if r := p.result(t); !r.Own || r.Turns != 2 || r.Calls != 2 || r.Usage.Estimated && r.Usage.Input == 0 {
					t.Errorf("got %+v", r)
				}
			})
		})
		t.Run("no model, client with "+caps, func(t *testing.T) {
			eachLoop(t, mcp.V2024_11_05, mcpserver.Options{}, caps, func(t *testing.T, s *mcpserver.Server, a *asked) {
				p := addLoop(t, s, nil, nil)
				got := a.call("plan", `{}`, respondAda)
				want := "isError the client does not support sampling with tools"
				if a.v.Era() == mcp.EraModern {
					want = "error -32021 the client does not support sampling with tools"
				}
				if got != want || p.weather.Load() != 0 {
					t.Errorf("got %q after %d calls, want %q", got, p.weather.Load(), want)
				}
			})
		})
	}
}

// relay asks whatever model the test has now.
type relay struct{ to **llmtest.Model }

func (r *relay) Name() string { return "llmtest/relay" }

func (r *relay) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return (*r.to).Stream(ctx, req)
}

// linger lets time pass.
func linger() { time.Sleep(time.Second) }

// SAMP-04: revisions that know no tools in sampling have the server's model for a loop,
// and the client's for a plain question.
func TestOldClientsAndOwnModel(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2024_11_05, mcp.V2025_06_18} {
		synctestOnce(t, func(t *testing.T) {
			s, _ := newServer(t, &mcpserver.Options{Model: sampling.NewModel(ownTrip(), nil)})
			addLoop(t, s, nil, nil, func(ctx context.Context, req *mcpserver.ToolRequest) error {
				r, err := req.Sample(ctx, "plain", sampleParams("Hi"))
				if err == nil && r.Content.Text() != "Paris" {
					err = fmt.Errorf("the model says %q", r.Content.Text())
				}
				return err
			})
			a := openAsked(t, s, v, withTools)
			if got := a.call("plan", `{}`, respondAda); got != "Go to Oslo." {
				t.Errorf("%s: got %q", v, got)
			}
		})
	}
}

// SAMP-31: in the last turn the model may not call, with the tools still there; a client
// of 2026-07-28 is not asked in more rounds than it will go.
func TestLoopLastTurn(t *testing.T) {
	elicit := func(ctx context.Context, req *mcpserver.ToolRequest) error {
		_, err := mcpserver.Elicit[nameForm](ctx, req, "name", "Who?")
		return err
	}
	tests := []struct {
		name           string
		opts           *sampling.Options
		before         []func(context.Context, *mcpserver.ToolRequest) error
		legacy, modern int
	}{
		{"by default", nil, nil, 8, 8},
		{"of three", &sampling.Options{MaxTurns: 3}, nil, 3, 3},
		{"of one", &sampling.Options{MaxTurns: 1}, nil, 1, 1},
		{"of more than a client goes", &sampling.Options{MaxTurns: 12}, nil, 12, 8},
		{"of more that a client goes all the same", &sampling.Options{MaxTurns: 12, MaxRounds: 12}, nil, 12, 12},
		{"after another question", nil, []func(context.Context, *mcpserver.ToolRequest) error{elicit}, 8, 7},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			eachLoop(t, mcp.V2025_11_25, mcpserver.Options{}, withTools, func(t *testing.T, s *mcpserver.Server, a *asked) {
				p := addLoop(t, s, nil, tt.opts, tt.before...)
				want := tt.legacy
				if a.v.Era() == mcp.EraModern {
					want = tt.modern
				}
				m := &clientModel{t: t}
				got := a.call("plan", `{}`, func(method string, raw json.RawMessage) string {
					m.turns = []string{use(fmt.Sprint("c", len(m.asked)), "weather", `{"place":"Oslo"}`)}
					if strings.Contains(string(raw), `"toolChoice":{"mode":"none"}`) {
						m.turns = []string{tripAnswer}
					}
					return m.respond(method, raw)
				})
				if got != "Go to Oslo." || len(m.asked) != want || p.weather.Load() != int64(want-1) {
					t.Errorf("got %q after %d questions and %d calls, want %d questions", got, len(m.asked), p.weather.Load(), want)
				}
				for i, q := range m.asked {
					if last := q.ToolChoice != nil; last != (i == want-1) || len(q.Tools) != 2 {
						t.Errorf("question %d: got toolChoice %v and %d tools", i, q.ToolChoice, len(q.Tools))
					}
				}
			})
		})
	}
}

// SAMP-06: what the first question says of calls is said once, or no loop would end.
func TestLoopToolChoice(t *testing.T) {
	eachLoop(t, mcp.V2025_11_25, mcpserver.Options{}, withTools, func(t *testing.T, s *mcpserver.Server, a *asked) {
		p := &planner{}
		err := mcpserver.AddTool(s, &mcp.Tool{Name: "plan"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			q := question()
			q.ToolChoice = &mcp.ToolChoice{Mode: mcp.ToolChoiceRequired}
			r, err := sampling.Loop(ctx, req, "plan", q, p.tools(), nil)
			if err != nil {
				return "", err
			}
			return r.Text(), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		m := &clientModel{t: t, turns: []string{tripCalls, tripAnswer}}
		if got := a.call("plan", `{}`, m.respond); got != "Go to Oslo." {
			t.Fatalf("got %q", got)
		}
		if m.asked[0].ToolChoice == nil || m.asked[0].ToolChoice.Mode != mcp.ToolChoiceRequired || m.asked[1].ToolChoice != nil {
			t.Errorf("got %v and %v", m.asked[0].ToolChoice, m.asked[1].ToolChoice)
		}
	})
}

// SAMP-20 to SAMP-26: whatever a tool does and a model asks for, each call has one
// result, and the loop goes on.
func TestLoopBalance(t *testing.T) {
	tools := []*sampling.Tool{
		sampling.Func(&mcp.Tool{Name: "ok"}, func(_ context.Context, in placeIn) (string, error) { return in.Place, nil }),
		sampling.Func(&mcp.Tool{Name: "panics"}, func(context.Context, struct{}) (string, error) { panic("the password is hunter2") }),
		sampling.Func(&mcp.Tool{Name: "fails"}, func(context.Context, struct{}) (string, error) { return "", errors.New("no paper") }),
		sampling.Func(&mcp.Tool{Name: "nothing"}, func(context.Context, struct{}) (*mcp.CallToolResult, error) { return nil, nil }),
		sampling.Func(&mcp.Tool{Name: "bytes"}, func(context.Context, struct{}) (string, error) { return "a\xffb", nil }),
		sampling.Func(&mcp.Tool{Name: "long"}, func(context.Context, struct{}) (string, error) { return strings.Repeat("x", 500), nil }),
		sampling.Func(&mcp.Tool{Name: "picture"}, func(context.Context, struct{}) (mcp.Content, error) {
			return &mcp.ImageContent{Data: make([]byte, 1<<20), MIMEType: "image/png"}, nil
		}),
		sampling.Func(&mcp.Tool{Name: "raw", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(_ context.Context, in json.RawMessage) (*mcp.CallToolResult, error) {
				return mcp.ErrorResult("not %s", in), nil
			}),
	}
	call := func(id, name, input string) string {
		return fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s}`, id, name, input)
	}
	turn := func(calls ...string) string {
		return `{"role":"assistant","model":"m","stopReason":"toolUse","content":[` + strings.Join(calls, ",") + `]}`
	}
	turns := []string{
		turn(call("a", "panics", `{}`), call("b", "fails", `{}`), call("c", "nothing", `{}`), call("d", "unheard-of", `{}`)),
		turn(call("a", "ok", `{"place":"x"}`), call("a2", "ok", `{}`)), // a again
		turn(call("b", "bytes", `{}`), call("b2", "long", `{}`), call("b3", "picture", `{}`), call("b4", "raw", `{"n":1}`)),
		tripAnswer,
	}
	wants := [][]string{
		{"isError the tool failed: internal error", "isError no paper", "isError it returned no result",
			`isError there is no tool "unheard-of". Of the 8 tools the nearest are: bytes, fails, nothing, ok, panics`},
		{"x", "isError not called: the arguments do not fit the tool's schema"},
		{"a\uFFFDb", strings.Repeat("x", 100) + "\n[cut here: this text has 500 bytes, 100 of them are shown]", "isError the tool's result is larger than", `isError not {"n":1}`},
	}
	eachLoop(t, mcp.V2025_11_25, mcpserver.Options{}, withTools, func(t *testing.T, s *mcpserver.Server, a *asked) {
		addLoop(t, s, tools, &sampling.Options{MaxResult: 100})
		m := &clientModel{t: t, turns: turns}
		if got := a.call("plan", `{}`, m.respond); got != "Go to Oslo." || len(m.asked) != len(turns) {
			t.Fatalf("got %q after %d questions", got, len(m.asked))
		}
		ids := make(map[string]bool)
		for i, want := range wants {
			got := toolResults(t, m.asked[i+1])
			if len(got) != len(want) {
				t.Fatalf("turn %d: got %q, want %q", i, got, want)
			}
			for j := range want {
				if !strings.HasPrefix(got[j], want[j]) {
					t.Errorf("turn %d: got %q, want %q", i, got[j], want[j])
				}
			}
			for _, c := range m.asked[i+1].Messages[2*i+2].Content {
				id := c.(*mcp.ToolResultContent).ToolUseID
				if ids[id] {
					t.Errorf("the id %q stands for two calls", id)
				}
				ids[id] = true
			}
		}
	})
}

// A tool that hangs hears when its loop ends; one that ignores it is not waited for
// longer than the grace.
func TestLoopParallelTools(t *testing.T) {
	for _, parallel := range []int{0, 1} {
		eachLoop(t, mcp.V2025_11_25, mcpserver.Options{}, withTools, func(t *testing.T, s *mcpserver.Server, a *asked) {
			var mu sync.Mutex
			busy, most := 0, 0
			slow := sampling.Func(&mcp.Tool{Name: "slow"}, func(context.Context, struct{}) (string, error) {
				mu.Lock()
				busy++
				most = max(most, busy)
				mu.Unlock()
				linger()
				mu.Lock()
				busy--
				mu.Unlock()
				return "done", nil
			})
			addLoop(t, s, []*sampling.Tool{slow}, &sampling.Options{Parallel: parallel})
			calls := make([]string, 10)
			for i := range calls {
				calls[i] = fmt.Sprintf(`{"type":"tool_use","id":"c%d","name":"slow","input":{}}`, i)
			}
			m := &clientModel{t: t, turns: []string{`{"role":"assistant","model":"m","content":[` + strings.Join(calls, ",") + `]}`, tripAnswer}}
			want := 8
			if parallel > 0 {
				want = parallel
			}
			if got := a.call("plan", `{}`, m.respond); got != "Go to Oslo." || most != want {
				t.Errorf("got %q with %d tools at once, want %d", got, most, want)
			}
		})
	}
}

// MRTR-09: each round may come to another process. The tools run once in all of them.
func TestLoopInAnyProcess(t *testing.T) {
	for _, large := range []bool{false, true} { // too large for a ticket, so that it is kept
		t.Run(fmt.Sprint("large ", large), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &planner{}
				tools := p.tools()
				if large {
					tools = append(tools, sampling.Func(&mcp.Tool{Name: "book"}, func(context.Context, struct{}) (string, error) {
						p.weather.Add(1)
						return strings.Repeat("All work and no play. ", 4000), nil
					}))
				}
				keys, records := [][]byte{make([]byte, 32)}, memstore.New(nil)
				m := &clientModel{t: t, turns: []string{tripCalls, use("c1", "trains", `{"place":"Rome"}`), use("c1", "book", `{}`), tripAnswer}}
				asks := func(text string) said {
					s, _ := newServer(t, &mcpserver.Options{Rounds: mcpserver.RoundOptions{TicketKeys: keys}, Records: records, Model: sampling.NewModel(llmtest.Script(), nil)})
					addLoop(t, s, tools, &sampling.Options{MaxResult: 100_000})
					a := openAsked(t, s, mcp.V2026_07_28, withTools)
					got := readMessage(t, a.ask(a.tool("plan", `{}`, text)))
					if err := s.Close(); err != nil {
						t.Errorf("Close: %v", err)
					}
					return got
				}
				got := asks("")
				for range m.turns {
					if got.Result == nil || got.Result.ResultType != mcp.ResultInputRequired {
						t.Fatalf("got %s, want a question", got.text())
					}
					a := &asked{peer: &peer{t: t}}
					got = asks(a.retry(got, m.respond))
				}
				if got.text() != "Go to Oslo." {
					t.Errorf("got %q", got.text())
				}
				weather, trains := int64(1), int64(2)
				if large {
					weather = 2
				}
				if p.weather.Load() != weather || p.trains.Load() != trains {
					t.Errorf("the tools have run %d and %d times, want %d and %d", p.weather.Load(), p.trains.Load(), weather, trains)
				}
			})
		})
	}
}

// The server's own model is not asked twice for a handler that runs again.
func TestOwnModelOnce(t *testing.T) {
	var own *llmtest.Model
	eachLoop(t, mcp.V2026_07_28, mcpserver.Options{Model: sampling.NewModel(&relay{&own}, nil)}, `{"elicitation":{"form":{}}}`, func(t *testing.T, s *mcpserver.Server, a *asked) {
		own = llmtest.Script(llmtest.Say("Hi"), llmtest.Call("weather", `{"place":"Oslo"}`), llmtest.Say("Go to Oslo."), llmtest.Say("Bye"))
		p := &planner{}
		err := mcpserver.AddTool(s, &mcp.Tool{Name: "all"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			hi, err := req.Sample(ctx, "hi", sampleParams("Hi"))
			if err != nil {
				return "", err
			}
			who, err := mcpserver.Elicit[nameForm](ctx, req, "who", "Who?")
			if err != nil {
				return "", err
			}
			trip, err := sampling.Loop(ctx, req, "trip", question(), p.tools(), nil)
			if err != nil {
				return "", err
			}
			if _, err := mcpserver.Elicit[nameForm](ctx, req, "again", "Who again?"); err != nil {
				return "", err
			}
			bye, err := req.Sample(ctx, "bye", sampleParams("Bye"))
			if err != nil {
				return "", err
			}
			return fmt.Sprintln(hi.Content.Text(), who.Name, trip.Text(), bye.Content.Text(), len(trip.Messages), trip.Usage.Input > 0), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := a.call("all", `{}`, respondAda), "Hi Ada Go to Oslo. Bye 4 true\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if n := len(own.Requests()); n != 4 || p.weather.Load() != 1 {
			t.Errorf("the model was asked %d times and the tool called %d times, want 4 and 1", n, p.weather.Load())
		}
	})
}

// A client whose capabilities have changed between two rounds has been asked, so its
// answer counts (CAP-05).
func TestSampleWithOtherCapabilities(t *testing.T) {
	eachLoop(t, mcp.V2026_07_28, mcpserver.Options{Model: sampling.NewModel(llmtest.Script(), nil)}, withTools, func(t *testing.T, s *mcpserver.Server, a *asked) {
		addLoop(t, s, nil, nil, func(ctx context.Context, req *mcpserver.ToolRequest) error {
			r, err := req.Sample(ctx, "plain", sampleParams("Hi"))
			if err == nil {
				err = fmt.Errorf("the model says %q", r.Content.Text())
			}
			return err
		})
		m := readMessage(t, a.ask(a.tool("plan", `{}`, "")))
		a.caps = `{}`
		got := readMessage(t, a.ask(a.tool("plan", `{}`, a.retry(m, respondAda)))).text()
		if got != `isError the model says "Paris"` {
			t.Errorf("got %q", got)
		}
	})
}

// A question may be shared by loops: nothing is written to it, nor to its empty slices.
func TestLoopLeavesTheQuestion(t *testing.T) {
	synctestOnce(t, func(t *testing.T) {
		s, _ := newServer(t, &mcpserver.Options{Model: sampling.NewModel(ownTrip(), nil)})
		p := question()
		p.Tools = make([]mcp.Tool, 0, 4)
		err := mcpserver.AddTool(s, &mcp.Tool{Name: "plan"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			r, err := sampling.Loop(ctx, req, "plan", p, new(planner).tools(), nil)
			if err != nil {
				return "", err
			}
			return r.Text(), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := openAsked(t, s, mcp.V2025_11_25, `{}`).call("plan", `{}`, respondAda); got != "Go to Oslo." {
			t.Errorf("got %q", got)
		}
		if all := p.Tools[:cap(p.Tools)]; all[0].Name != "" || len(p.Messages) != 1 {
			t.Errorf("the question has become %+v, with %q in its array", p, all[0].Name)
		}
	})
}
