package ollama_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/ollama"
)

const key = "very-secret"

// client returns a client of a scripted server on an in-memory network.
func client(t *testing.T, s http.Handler, opts ollama.Options) *ollama.Client {
	t.Helper()
	opts.Host, opts.APIKey = cmp.Or(opts.Host, "llm.test"), key
	opts.HTTPClient = memhttp.Serve(t, s)
	return ollama.New("m", &opts)
}

func hello() *llm.Request { return &llm.Request{Messages: []llm.Message{llm.User("Hello")}} }

// checkServer fails the test if the server found fault with a request.
func checkServer(t *testing.T, s *llmtest.Server) {
	t.Helper()
	if f := s.Failures(); len(f) > 0 {
		t.Errorf("the server found fault with requests: %q", f)
	}
}

// summary writes a response in one line.
func summary(r *llm.Response) string {
	var b strings.Builder
	if r.Thinking != "" {
		fmt.Fprintf(&b, "(%s) ", r.Thinking)
	}
	b.WriteString(r.Text())
	for _, c := range r.Calls() {
		fmt.Fprintf(&b, " %s%s", c.Name, c.Input)
	}
	return strings.TrimSpace(strings.TrimSpace(b.String()) + " " + string(r.Finish))
}

// TestWire runs one turn over every way in which Ollama puts it on the wire.
func TestWire(t *testing.T) {
	talk := llmtest.Join(llmtest.Think("hm, ", "ähem"), llmtest.Say("Grüße, ", "世界 \U0001F30D", " \"x\"\n"))
	calls := llmtest.Join(
		llmtest.Say("Let me see."),
		llmtest.Call("weather", `{"city":"Zürich","day":9007199254740993}`),
		llmtest.Call("clock", nil),
	)
	const said = "(hm, ähem) Grüße, 世界 \U0001F30D \"x\" stop"
	const called = `Let me see. weather{"city":"Zürich","day":9007199254740993} clock{} tool_calls`
	tests := []struct {
		name string
		turn llmtest.Turn
		wire llmtest.Wire
		want string
	}{
		{"plain", talk, llmtest.Wire{}, said},
		{"in single bytes, inside of characters", talk, llmtest.Wire{Piece: 1}, said},
		{"gzip", talk, llmtest.Wire{Gzip: true}, said},
		{"another type", talk, llmtest.Wire{ContentType: "text/plain"}, said},
		{"a JSON document", talk, llmtest.Wire{NotAStream: true}, said},
		{"length", llmtest.Say("so far"), llmtest.Wire{Finish: "length"}, "so far length"},
		{"no done_reason", llmtest.Say("x"), llmtest.Wire{Finish: "none"}, "x stop"},
		{"a line of 100 KB", llmtest.Say(strings.Repeat("a", 100<<10)), llmtest.Wire{}, strings.Repeat("a", 100<<10) + " stop"},
		{"nothing at all", llmtest.Say(), llmtest.Wire{}, "stop"},
		{"calls", calls, llmtest.Wire{}, called},
		{"calls in one line", calls, llmtest.Wire{Calls: llmtest.CallsTogether}, called},
		{"calls without ids", calls, llmtest.Wire{IDs: llmtest.IDNone}, called}, // trap 7
		{"calls with the same id", calls, llmtest.Wire{IDs: llmtest.IDRepeated}, called},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := llmtest.NewServer(tt.turn.Over(tt.wire))
				resp, err := llm.Generate(t.Context(), client(t, s, ollama.Options{}), hello())
				if err != nil {
					t.Fatalf("Generate: %v", err)
				}
				if got := summary(resp); got != tt.want {
					t.Errorf("Generate: got %q, want %q", got, tt.want)
				}
				ids := map[string]bool{}
				for _, c := range resp.Calls() {
					if c.ID == "" || ids[c.ID] {
						t.Errorf("call id %q is empty or used twice", c.ID)
					}
					ids[c.ID] = true
				}
				checkServer(t, s)
			})
		})
	}
}

// TestFaults holds that no way to fail ends in success, in a wait without end, or in the
// wrong kind of error. Ollama's own client returns nil for the first four.
func TestFaults(t *testing.T) {
	turn := llmtest.Join(llmtest.Say("one ", "two "), llmtest.Call("f", `{"a":1}`))
	tests := []struct {
		name      string
		turn      llmtest.Turn
		want      error
		retryable bool
		text      string // in the error
	}{
		{"cut within the text", turn.Over(llmtest.Wire{Fault: llmtest.Cut, After: 1}), llm.ErrStreamCut, true, ""}, // trap 1
		{"a clean end too early", turn.Over(llmtest.Wire{Fault: llmtest.Stop, After: 2}), llm.ErrStreamCut, true, ""},
		{"a line of 5 MiB", turn.Over(llmtest.Wire{Fault: llmtest.HugeLine, After: 1}), llm.ErrTooLarge, false, ""},
		{"500, empty", llmtest.Reply(500, ``), nil, true, "Internal Server Error"}, // trap 2
		{"cut before the first line", turn.Over(llmtest.Wire{Fault: llmtest.Cut}), llm.ErrStreamCut, true, ""},
		{"an empty answer", turn.Over(llmtest.Wire{Fault: llmtest.Stop}), llm.ErrStreamCut, true, ""},
		{"an end within a line", turn.Over(llmtest.Wire{Fault: llmtest.HalfLine, After: 1}), llm.ErrStreamCut, true, ""},
		{"a last line with done:false", turn.Over(llmtest.Wire{Fault: llmtest.NotDone, After: 2}), llm.ErrStreamCut, true, ""},
		{"only loaded", turn.Over(llmtest.Wire{Fault: llmtest.OnlyLoaded}), llm.ErrBadResponse, true, "load"},
		{"silence", turn.Over(llmtest.Wire{Fault: llmtest.Silence, After: 1}), llm.ErrIdle, true, "1m0s"},
		{"garbage", turn.Over(llmtest.Wire{Fault: llmtest.Garbage, After: 1}), llm.ErrBadResponse, true, ""},
		{"an error line", turn.Over(llmtest.Wire{Fault: llmtest.ErrorString, After: 1}), nil, true, "told to fail"}, // trap 4
		{"an error line first", turn.Over(llmtest.Wire{Fault: llmtest.ErrorString}), nil, true, "told to fail"},
		{"an error line, an object", turn.Over(llmtest.Wire{Fault: llmtest.ErrorBlanks, After: 1}), nil, true, "told to fail"},
		{"HTML with status 200", llmtest.Reply(200, "<html>hello</html>"), llm.ErrBadResponse, true, ""},
		{"an error of the script", llmtest.Join(llmtest.Say("x"), llmtest.Fail(errors.New("boom"))), nil, true, "boom"},

		{"400 JSON", llmtest.Reply(400, `{"error":"invalid character"}`), llm.ErrInvalidRequest, false, "invalid character"},
		{"400 context", llmtest.Reply(400, `{"error":"the input length exceeds the context length"}`), llm.ErrContextLength, false, ""},
		{"400 thinking", llmtest.Reply(400, `{"error":"\"m\" does not support thinking"}`), llm.ErrUnsupported, false, "thinking"},
		{"401", llmtest.Reply(401, `{"error":"unauthorized `+key+`","signin_url":"http://x"}`), llm.ErrAuth, false, "[key]"},
		{"404", llmtest.Reply(404, `{"error":"model 'nope' not found"}`), llm.ErrNotFound, false, "nope"},
		{"500 about an option", llmtest.Reply(500, `{"error":"option \"num_predict\" must be of type integer"}`), llm.ErrInvalidRequest, false, "num_predict"},
		{"500 of the runner", llmtest.Reply(500, `{"error":"model runner has unexpectedly stopped"}`), nil, true, "runner"},
		{"502, HTML", llmtest.Reply(502, "<html>\n<b>Bad gateway</b>"), nil, true, "Bad gateway"},
		{"503", llmtest.Reply(503, `{"error":"server busy, please try again.  maximum pending requests exceeded"}`, "Retry-After", "3"), nil, true, "retry after 3s"},
		{"a redirect", llmtest.Reply(307, ``, "Location", "http://elsewhere.test/"), llm.ErrBadResponse, false, "redirect"}, // ROB-6
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := client(t, llmtest.NewServer(tt.turn), ollama.Options{})
				resp, err := llm.Generate(t.Context(), c, hello())
				e, ok := errors.AsType[*llm.Error](err)
				if !ok {
					t.Fatalf("Generate: got %v and error %v, want an *llm.Error", resp, err)
				}
				if tt.want != nil && !errors.Is(err, tt.want) {
					t.Errorf("Generate: got error %v, want %v", err, tt.want)
				}
				if e.Retryable != tt.retryable {
					t.Errorf("Generate: error %v: got Retryable %v, want %v", err, e.Retryable, tt.retryable)
				}
				if !strings.Contains(err.Error(), tt.text) {
					t.Errorf("Generate: error %q does not tell %q", err, tt.text)
				}
				if len(err.Error()) > 2048 || strings.Contains(err.Error(), key) {
					t.Errorf("Generate: the error is too long or holds the key: %.3000q", err)
				}
			})
		})
	}
}

// TestPatience holds that a request may be queued without headers for as long as its
// context lasts.
func TestPatience(t *testing.T) {
	turn := llmtest.Say("at last").Over(llmtest.Wire{HeaderDelay: 5 * time.Hour})
	tests := []struct {
		name     string
		deadline time.Duration
		want     error
	}{
		{"patient", 6 * time.Hour, nil},
		{"impatient", 4 * time.Hour, context.DeadlineExceeded},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := client(t, llmtest.NewServer(turn), ollama.Options{})
				ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
				defer cancel()
				if _, err := llm.Generate(ctx, c, hello()); !errors.Is(err, tt.want) {
					t.Errorf("Generate: got error %v, want %v", err, tt.want)
				}
			})
		})
	}
}

// TestDeadline holds that a context that ends within a stream is its error, which Ollama's
// client takes for success (trap 1), and that leaving the loop frees the server.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := llmtest.Join(llmtest.Say("a"), llmtest.Slow(30*time.Second), llmtest.Say("b"))
		s := llmtest.NewServer(turn, turn)
		c := client(t, s, ollama.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := llm.Generate(ctx, c, hello()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Generate: got error %v, want %v", err, context.DeadlineExceeded)
		}
		for _, err := range c.Stream(t.Context(), hello()) {
			if err != nil {
				t.Errorf("Stream: %v", err)
			}
			break
		}
		synctest.Wait()
		if n := s.Active(); n != 0 {
			t.Errorf("the server still answers %d requests", n)
		}
	})
}

func TestUsage(t *testing.T) {
	s := llmtest.NewServer(
		llmtest.Say("tokens").Usage(12, 3),
		llmtest.Say("tokens").Over(llmtest.Wire{Usage: llmtest.UsageNone}),
	)
	c := client(t, s, ollama.Options{})
	for _, want := range []llm.Usage{{Input: 12, Output: 3}, {Input: 10, Output: 2, Estimated: true}} {
		resp, err := llm.Generate(t.Context(), c, hello())
		if err != nil || resp.Usage != want {
			t.Errorf("Generate: got %+v and error %v, want usage %+v", resp, err, want)
		}
	}
}

// TestSmallBuffers holds that a turn costs kilobytes: Ollama's client takes 8 MB (trap 3).
func TestSmallBuffers(t *testing.T) {
	s := llmtest.NewServer(llmtest.Say("x")).Loop()
	c := client(t, s, ollama.Options{})
	result := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			if _, err := llm.Generate(b.Context(), c, hello()); err != nil {
				b.Fatal(err)
			}
		}
	})
	if got := result.AllocedBytesPerOp(); got > 256<<10 {
		t.Errorf("a turn allocates %d bytes, want at most 256 KiB", got)
	}
}

// TestConnectionIsKept holds that a turn leaves its connection for the next, also where the
// end of the body comes a little behind the end of the turn.
func TestConnectionIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := llmtest.NewServer(llmtest.Say("a", "b")).Loop()
		hc := memhttp.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.ServeHTTP(w, r)
			time.Sleep(50 * time.Millisecond)
		}))
		dials, transport := 0, hc.Transport.(*http.Transport)
		dial := transport.DialContext
		transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials++
			return dial(ctx, network, addr)
		}
		c := ollama.New("m", &ollama.Options{Host: "llm.test", HTTPClient: hc})
		for range 5 {
			if _, err := llm.Generate(t.Context(), c, hello()); err != nil {
				t.Fatalf("Generate: %v", err)
			}
			synctest.Wait() // until the connection is back in the pool
		}
		if dials != 1 {
			t.Errorf("5 turns used %d connections, want 1", dials)
		}
	})
}
