package loop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/ollama"
	"github.com/troupe-dev/troupe/llm/openai"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// wired plays a script, and compares what two clients would send with what they would send of the same
// request alone.
type wired struct {
	*window
	t       *testing.T
	clients []llm.Model
	sent    string
	kept    []*llm.Encodings // of each request
	tokens  []int            // of each request
}

func newWired(t *testing.T, most int, turns ...llmtest.Turn) *wired {
	w := &wired{window: &window{Model: llmtest.Script(turns...), most: most}, t: t}
	transport := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		if err != nil || int64(len(body)) != r.ContentLength {
			t.Errorf("a body of %d bytes has %d, %v", r.ContentLength, len(body), err)
		}
		w.sent = string(body)
		return nil, io.ErrUnexpectedEOF
	})}
	w.clients = []llm.Model{openai.New("m", &openai.Options{HTTPClient: transport}), ollama.New("m", &ollama.Options{Host: "llm.test", HTTPClient: transport})}
	return w
}

func (w *wired) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	alone := *req
	alone.Encodings = nil
	n := len(w.kept)
	send := func(req *llm.Request) string {
		w.sent = ""
		_, _ = llm.Generate(ctx, w.clients[n/5%2], req)
		return w.sent
	}
	if got, want := send(req), send(&alone); got != want || want == "" {
		w.t.Errorf("request %d: sent %s, want %s", n, got, want)
	}
	w.kept, w.tokens = append(w.kept, req.Encodings), append(w.tokens, llm.EstimateTokens(req))
	return w.window.Stream(ctx, req)
}

// TestHistoryIsKept: what is sent of a conversation, and what is reserved for it, is the same as if it
// was encoded and counted anew for each turn: as it grows, is cut, is summed up and is changed by guards.
func TestHistoryIsKept(t *testing.T) {
	changes := guard.Guard{BeforeModel: func(_ context.Context, g *guard.Turn) guard.Result {
		g.Request.Messages[0] = llm.User(fmt.Sprintf("turn %d", g.Turn))
		return guard.Changed("the time")
	}}
	tests := []struct {
		name string
		most int // tokens that the model takes
		cfg  func(*loop.Config)
	}{
		{"grows", 0, func(*loop.Config) {}},
		{"is cut", 0, func(c *loop.Config) { c.Context = 8000 }},
		{"is summed up", 0, func(c *loop.Config) {
			c.Context = 8000
			c.Summarise = func(context.Context, *loop.Call, string, []llm.Message) (string, error) {
				return "I have read files.", nil
			}
		}},
		{"is too long", 7000, func(*loop.Config) {}},
		{"is changed", 0, func(c *loop.Config) { c.Guards, c.Context = []guard.Guard{changes}, 9000 }},
		{"ends at a limit", 0, func(c *loop.Config) {
			c.Limits = loop.Limits{Tokens: 100_000, OnLimit: runlog.LimitWrapUp}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				model := newWired(t, tt.most, reads(25)...)
				cfg := b.config(model, tool("read", big(500)))
				cfg.MaxTokens = 100
				tt.cfg(cfg)
				out := b.finish(b.start(cfg))
				if out.Err != nil && cfg.Limits.OnLimit == "" {
					t.Fatalf("outcome: %+v", out)
				}
				with := 0
				for i, kept := range model.kept {
					if kept != nil {
						with++
					} else if model.tokens[i] > 5000 {
						t.Errorf("request %d of %d tokens: nothing is kept", i, model.tokens[i])
					}
					if kept != nil && i < 5 {
						t.Errorf("request %d of %d tokens is kept", i, model.tokens[i])
					}
				}
				if with < 5 {
					t.Errorf("%d requests of %d are kept", with, len(model.kept))
				}
				n := 0
				for _, e := range b.events() {
					if in, ok := e.Body.(*runlog.ModelIntent); ok && !in.Last {
						if in.Reserved != model.tokens[n] {
							t.Errorf("turn %d: %d tokens are reserved, want %d", in.Turn, in.Reserved, model.tokens[n])
						}
						n++
					}
				}
			})
		})
	}
}

// A run that waits for a person keeps no second copy of its conversation.
func TestHistoryIsLetGo(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		turns := append([]llmtest.Turn{llmtest.Call("read", `{}`), llmtest.Call("read", `{"n":1}`)}, llmtest.Call("write", `{}`), llmtest.Say("ok"))
		model := newWired(t, 0, turns...)
		cfg := b.config(model, tool("read", big(5000)), tool("write", echo))
		cfg.Gate = func(_ context.Context, tool *loop.Tool, _ json.RawMessage) guard.Verdict {
			if tool.Name == "write" {
				return guard.Ask
			}
			return guard.Allow
		}
		run := b.start(cfg)
		row := <-b.sink.asked
		if _, err := run.Answer(t.Context(), row.ID, accept()); err != nil {
			t.Fatal(err)
		}
		if out := b.finish(run); out.Text != "ok" {
			t.Fatalf("outcome: %+v", out)
		}
		k := model.kept
		if len(k) != 4 || k[0] != nil || k[1] == nil || k[2] != k[1] || k[3] == nil || k[3] == k[2] {
			t.Errorf("kept for the requests: %v, want none, one, the same, another", k)
		}
	})
}

// BenchmarkHistory is a whole run of so many turns, each with a call whose result is a kilobyte
// long, by a client of OpenAI's API and without a network.
func BenchmarkHistory(b *testing.B) {
	for _, turns := range []int{3, 10, 100, 300} {
		b.Run(fmt.Sprintf("turns=%d", turns), func(b *testing.B) { benchmarkHistory(b, turns) })
	}
}

// silent is a sink that keeps nothing.
type silent struct{ loop.Sink }

func (silent) Journalled([]runlog.Entry) {}
func (silent) Text(int, string)          {}
func (silent) Closed(loop.Outcome)       {}

func benchmarkHistory(b *testing.B, turns int) {
	result := strings.Repeat("A line of what was found: \"1\".\n", 32)
	turn := 0
	answer := func() string {
		turn++
		if turn == turns {
			return `{"content":"done"},"finish_reason":"stop"`
		}
		return fmt.Sprintf(`{"tool_calls":[{"index":0,"id":"call_%d","function":{"name":"read","arguments":"{\"file\":%d,\"from\":1,\"to\":100}"}}]},"finish_reason":"tool_calls"`, turn, turn)
	}
	buf := make([]byte, 32<<10)
	model := openai.New("m", &openai.Options{HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		for {
			if _, err := r.Body.Read(buf); err != nil {
				break
			}
		}
		return &http.Response{StatusCode: http.StatusOK, Request: r, Body: io.NopCloser(strings.NewReader(
			`data: {"model":"m","choices":[{"index":0,"delta":` + answer() + `}],"usage":{"prompt_tokens":90000,"completion_tokens":9}}` + "\n\ndata: [DONE]\n\n"))}, nil
	})}})
	sys, err := actors.NewSystem(nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = sys.Shutdown(context.Background()) }()
	agents, err := sys.Spawn(actors.Spec{Kind: actors.KindAgents, Name: "agents", New: func() actors.Actor { return parent{} }})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		turn = 0
		run, err := loop.New(&loop.Config{Own: loop.Own{ID: "r1", Nonce: "nonce", Gate: allow, Sink: silent{},
			Tools:  tools{tool("read", func(context.Context, *loop.Call) (string, error) { return result, nil })},
			Origin: &loop.Origin{InputHash: "in", Input: []llm.Message{llm.User("go")}}},
			Agent: "tester", Model: model, System: strings.Repeat("Answer well. ", 160), Context: 1 << 20, Repeats: -1, Limits: loop.Limits{Steps: turns, ToolCalls: turns}})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := actors.Ask(b.Context(), agents, func(r *actors.Reply[struct{}]) any { return startRun{run, r} }); err != nil {
			b.Fatal(err)
		}
		<-run.Stopped()
		if out := run.Outcome(); out.Err != nil || turn != turns {
			b.Fatalf("outcome: %+v after %d turns", out, turn)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*turns), "ns/turn")
}
