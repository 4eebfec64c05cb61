package openai_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/openai"
)

const key = "sk-very-secret"

// client returns a client of a scripted server on an in-memory network.
func client(t *testing.T, s http.Handler, opts openai.Options) *openai.Client {
	t.Helper()
	opts.BaseURL, opts.APIKey = cmp.Or(opts.BaseURL, "http://llm.test"), key
	opts.HTTPClient = memhttp.Serve(t, s)
	return openai.New("m", &opts)
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
	out := strings.TrimSpace(strings.TrimSpace(b.String()) + " " + string(r.Finish))
	for _, c := range r.Cut {
		out += fmt.Sprintf(", cut: %s%s", c.Name, c.Arguments)
	}
	return out
}

// TestWire runs one turn over every way in which servers put it on the wire.
func TestWire(t *testing.T) {
	talk := llmtest.Join(llmtest.Think("hm, ", "ähem"), llmtest.Say("Grüße, ", "世界 \U0001F30D", " \"x\"\n"))
	calls := llmtest.Join(
		llmtest.Call("weather", `{"city":"Zürich","day":9007199254740993}`),
		llmtest.Call("clock", ""),
		llmtest.Call("weather", `{"city":"Oslo"}`),
	)
	const said = "(hm, ähem) Grüße, 世界 \U0001F30D \"x\" stop"
	const called = `weather{"city":"Zürich","day":9007199254740993} clock{} weather{"city":"Oslo"} tool_calls`
	tests := []struct {
		name string
		turn llmtest.Turn
		wire llmtest.Wire
		want string
	}{
		{"plain", talk, llmtest.Wire{}, said},
		{"in single bytes, inside of characters", talk, llmtest.Wire{Piece: 1}, said},
		{"gzip", talk, llmtest.Wire{Gzip: true}, said},
		{"CRLF", talk, llmtest.Wire{CRLF: true}, said},
		{"no blank behind data", talk, llmtest.Wire{Tight: true}, said},
		{"event, id and retry lines", talk, llmtest.Wire{Named: true}, said},
		{"more comments than go-openai takes", talk, llmtest.Wire{KeepAlives: 400}, said}, // trap 5
		{"no [DONE]", talk, llmtest.Wire{End: llmtest.EndNothing}, said},                  // trap 3
		{"[DONE] twice", talk, llmtest.Wire{End: llmtest.EndTwice}, said},
		{"bytes behind [DONE]", talk, llmtest.Wire{End: llmtest.EndTrailing}, said},
		{"the connection stays open", talk, llmtest.Wire{End: llmtest.EndOpen}, said},
		{"reasoning in another field", talk, llmtest.Wire{Reasoning: "reasoning"}, said}, // trap 4
		{"an event without choices", talk, llmtest.Wire{Filter: true}, said},
		{"a JSON document", talk, llmtest.Wire{NotAStream: true}, said},
		{"type text/plain", talk, llmtest.Wire{ContentType: "text/plain"}, said},
		{"a refusal", llmtest.Say("I can't."), llmtest.Wire{Refusal: true}, "I can't. refusal"},
		{"length", llmtest.Say("so far"), llmtest.Wire{Finish: "length"}, "so far length"},
		{"filter", llmtest.Say("so far"), llmtest.Wire{Finish: "content_filter"}, "so far content_filter"},
		{"an unknown reason", llmtest.Say("x"), llmtest.Wire{Finish: "tired"}, "x tired"},
		{"nothing at all", llmtest.Say(), llmtest.Wire{}, "stop"},

		{"calls in pieces", calls, llmtest.Wire{}, called},
		{"calls in pieces, bytewise", calls, llmtest.Wire{Piece: 3}, called},
		{"calls whole", calls, llmtest.Wire{Calls: llmtest.CallsWhole}, called},
		{"calls together", calls, llmtest.Wire{Calls: llmtest.CallsTogether}, called},
		{"calls interleaved", calls, llmtest.Wire{Calls: llmtest.CallsInterleaved}, called},
		{"calls without index", calls, llmtest.Wire{NoIndex: true}, called}, // trap 9
		{"calls without index, ids in each piece", calls, llmtest.Wire{NoIndex: true, IDs: llmtest.IDEach}, called},
		{"calls whole without index", calls, llmtest.Wire{NoIndex: true, Calls: llmtest.CallsWhole}, called},
		{"calls all numbered zero", calls, llmtest.Wire{ZeroIndex: true, Calls: llmtest.CallsWhole}, called},
		{"calls without ids", calls, llmtest.Wire{IDs: llmtest.IDNone}, called},
		{"calls with null ids later", calls, llmtest.Wire{IDs: llmtest.IDNull}, called},
		{"calls with the same id", calls, llmtest.Wire{IDs: llmtest.IDRepeated}, called},
		{"calls that end with stop", calls, llmtest.Wire{Finish: "stop"}, called},
		{"calls that end with function_call", calls, llmtest.Wire{Finish: "function_call"}, called},
		{"calls in a JSON document", calls, llmtest.Wire{NotAStream: true}, called},
		{
			"calls cut by the limit",
			llmtest.Join(llmtest.Call("a", `{"x":1}`), llmtest.Call("b", `{"y":`)), llmtest.Wire{Finish: "length"},
			`a{"x":1} length, cut: b{"y":`,
		},
		{
			"calls cut by a filter",
			llmtest.Call("b", `{"y":`), llmtest.Wire{Finish: "content_filter"},
			`content_filter, cut: b{"y":`,
		},
		{
			"a call cut before its arguments", // which would be one without any
			llmtest.Join(llmtest.Call("a", ``), llmtest.Call("b", ``)), llmtest.Wire{Finish: "length"},
			`a{} length, cut: b`,
		},
		{
			"a cut call that a server in between has mended",
			llmtest.Call("a", `{"x":1}`), llmtest.Wire{Finish: "max_tokens", NotAStream: true},
			`length, cut: a{"x":1}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := llmtest.NewServer(tt.turn.Over(tt.wire))
				resp, err := llm.Generate(t.Context(), client(t, s, openai.Options{}), hello())
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
// wrong kind of error.
func TestFaults(t *testing.T) {
	turn := llmtest.Join(llmtest.Say("one ", "two "), llmtest.Call("f", `{"a":1}`))
	tests := []struct {
		name      string
		turn      llmtest.Turn
		want      error
		retryable bool
		text      string // in the error
	}{
		{"cut before the first event", turn.Over(llmtest.Wire{Fault: llmtest.Cut}), llm.ErrStreamCut, true, ""},
		{"cut within the text", turn.Over(llmtest.Wire{Fault: llmtest.Cut, After: 2}), llm.ErrStreamCut, true, ""},
		{"cut within a call", turn.Over(llmtest.Wire{Fault: llmtest.Cut, After: 5}), llm.ErrStreamCut, true, ""},
		{"a clean end too early", turn.Over(llmtest.Wire{Fault: llmtest.Stop, After: 2}), llm.ErrStreamCut, true, ""},
		{"an empty answer", turn.Over(llmtest.Wire{Fault: llmtest.Stop}), llm.ErrStreamCut, true, ""},
		{"an end within an event", turn.Over(llmtest.Wire{Fault: llmtest.HalfLine, After: 2}), llm.ErrStreamCut, true, ""},
		{"silence", turn.Over(llmtest.Wire{Fault: llmtest.Silence, After: 2}), llm.ErrIdle, true, "1m0s"},
		{"silence from the start", turn.Over(llmtest.Wire{Fault: llmtest.Silence}), llm.ErrIdle, true, "10m0s"},
		{"no headers", turn.Over(llmtest.Wire{HeaderDelay: time.Hour}), llm.ErrIdle, true, "10m0s"},
		{"garbage", turn.Over(llmtest.Wire{Fault: llmtest.Garbage, After: 2}), llm.ErrBadResponse, true, ""},
		{"a line of 5 MiB", turn.Over(llmtest.Wire{Fault: llmtest.HugeLine, After: 1}), llm.ErrTooLarge, false, ""},
		{"an error event", turn.Over(llmtest.Wire{Fault: llmtest.ErrorObject, After: 2}), nil, true, "told to fail"},
		{"an error event first", turn.Over(llmtest.Wire{Fault: llmtest.ErrorObject}), nil, true, "told to fail"},
		{"an error event, a string", turn.Over(llmtest.Wire{Fault: llmtest.ErrorString, After: 2}), nil, true, "told to fail"},
		{"an error event with blanks", turn.Over(llmtest.Wire{Fault: llmtest.ErrorBlanks, After: 2}), nil, true, "told to fail"},
		{"an error without data:", turn.Over(llmtest.Wire{Fault: llmtest.ErrorBare, After: 2}), nil, true, "told to fail"},
		{"an error behind comments", turn.Over(llmtest.Wire{Fault: llmtest.ErrorObject, After: 2, KeepAlives: 3}), nil, true, "told to fail"},
		{"a finish reason error", turn.Over(llmtest.Wire{Fault: llmtest.ErrorFinish, After: 2}), llm.ErrBadResponse, true, ""},
		{"HTML with status 200", turn.Over(llmtest.Wire{ContentType: "text/html; charset=utf-8"}), llm.ErrBadResponse, false, "text/html"},
		{"an error of the script", llmtest.Join(llmtest.Say("x"), llmtest.Fail(errors.New("boom"))), nil, true, "boom"},

		{"400 context", llmtest.Reply(400, `{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`), llm.ErrContextLength, false, "8192"},
		{"400 context, llama.cpp", llmtest.Reply(400, `{"error":{"code":400,"message":"request (9000 tokens) exceeds","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":2048}}`), llm.ErrContextLength, false, "9000"},
		{"400 error as string", llmtest.Reply(400, `{"error":"plain"}`), llm.ErrInvalidRequest, false, "plain"}, // trap 2
		{"401", llmtest.Reply(401, `{"error":{"message":"Incorrect API key provided: `+key+`","code":"invalid_api_key"}}`), llm.ErrAuth, false, "[key]"},
		{"403", llmtest.Reply(403, ``), llm.ErrAuth, false, "Forbidden"},
		{"404", llmtest.Reply(404, `{"error":{"message":"no such model","code":"model_not_found"}}`), llm.ErrNotFound, false, ""},
		{"413", llmtest.Reply(413, ``), llm.ErrInvalidRequest, false, ""},
		{"422, detail", llmtest.Reply(422, `{"detail":[{"loc":["body"],"msg":"extra fields"}]}`), llm.ErrInvalidRequest, false, "extra fields"},
		{"429", llmtest.Reply(429, `{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}`), llm.ErrRateLimit, true, "slow down"},
		{"429 quota", llmtest.Reply(429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`), llm.ErrQuota, false, ""},
		{"500, empty", llmtest.Reply(500, ``), nil, true, "Internal Server Error"},
		{"500 about the request", llmtest.Reply(500, `{"error":{"code":500,"message":"image input is not supported - hint: mmproj","type":"server_error"}}`), llm.ErrUnsupported, false, ""},
		{"502, HTML", llmtest.Reply(502, "<html>\n<b>Bad gateway</b>", "Content-Type", "text/html"), nil, true, "Bad gateway"},
		{"503", llmtest.Reply(503, `{"error":{"message":"busy"}}`), nil, true, "busy"},
		{"529", llmtest.Reply(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), nil, true, "overloaded_error"},
		{"a redirect", llmtest.Reply(307, ``, "Location", "http://elsewhere.test/"), llm.ErrBadResponse, false, "redirect"}, // ROB-6
		{"an endless error page", llmtest.Reply(500, strings.Repeat("x", 1<<20)), nil, true, "xxx"},
		{"200 with an error", llmtest.Reply(200, `{"error":{"message":"nope"}}`), nil, true, "nope"},
		{"200 with nothing", llmtest.Reply(200, `{}`), llm.ErrStreamCut, true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := client(t, llmtest.NewServer(tt.turn), openai.Options{})
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

// TestRetryAfter holds that the headers of an error are seen, which go-openai hides (trap 1).
func TestRetryAfter(t *testing.T) {
	tests := []struct {
		header, value string
		want          time.Duration
	}{
		{"Retry-After", "3", 3 * time.Second},
		{"Retry-After", "0.5", 500 * time.Millisecond},
		{"Retry-After", "Sat, 01 Jan 2000 00:01:00 GMT", time.Minute}, // a bubble starts in 2000
		{"Retry-After", "Fri, 31 Dec 1999 00:00:00 GMT", 0},
		{"Retry-After-Ms", "1500", 1500 * time.Millisecond},
		{"Retry-After", "-5", 0},
		{"Retry-After", "soon", 0},
		{"Retry-After", "1e300", 24 * time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.header+" "+tt.value, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := llmtest.NewServer(llmtest.Reply(429, `{}`, tt.header, tt.value))
				_, err := llm.Generate(t.Context(), client(t, s, openai.Options{}), hello())
				e, ok := errors.AsType[*llm.Error](err)
				if !ok || e.RetryAfter != tt.want {
					t.Errorf("Generate: got error %v, want one with RetryAfter %v", err, tt.want)
				}
			})
		})
	}
}

// TestIdleOnlyWhileReading holds that a reader may take its time between events.
func TestIdleOnlyWhileReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := client(t, llmtest.NewServer(llmtest.Say("a", "b", "c")), openai.Options{})
		var texts []string
		for ev, err := range c.Stream(t.Context(), hello()) {
			if err != nil {
				t.Fatalf("Stream: %v", err)
			}
			if text, ok := ev.(llm.TextDelta); ok {
				texts = append(texts, text.Text)
				time.Sleep(time.Hour) // of the bubble's clock
			}
		}
		if want := []string{"a", "b", "c"}; !slices.Equal(texts, want) {
			t.Errorf("Stream: got texts %q, want %q", texts, want)
		}
	})
}

// TestCancel holds that ending the context or leaving the loop ends the request, and that
// the error is the context's cause.
func TestCancel(t *testing.T) {
	cause := errors.New("the user went home")
	t.Run("context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			gate := llmtest.NewGate()
			s := llmtest.NewServer(llmtest.Join(llmtest.Say("a"), llmtest.Hold(gate), llmtest.Say("b")))
			c := client(t, s, openai.Options{})
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				<-gate.Reached()
				cancel(cause)
			}()
			_, err := llm.Generate(ctx, c, hello())
			if !errors.Is(err, cause) {
				t.Errorf("Generate: got error %v, want %v", err, cause)
			}
			synctest.Wait()
			if n := s.Active(); n != 0 {
				t.Errorf("the server still answers %d requests", n)
			}
		})
	})
	t.Run("leaving", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := llmtest.NewServer(llmtest.Join(llmtest.Say("a"), llmtest.Hold(llmtest.NewGate())))
			for ev, err := range client(t, s, openai.Options{}).Stream(t.Context(), hello()) {
				if err != nil {
					t.Fatalf("Stream: %v", err)
				}
				if _, ok := ev.(llm.TextDelta); ok {
					break
				}
			}
			synctest.Wait()
			if n := s.Active(); n != 0 {
				t.Errorf("the server still answers %d requests", n)
			}
		})
	})
}

func TestUnreachable(t *testing.T) {
	refuse := &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		return nil, errors.New("connection refused")
	})}
	c := openai.New("m", &openai.Options{BaseURL: "http://user:" + key + "@llm.test", APIKey: key, HTTPClient: refuse})
	_, err := llm.Generate(t.Context(), c, hello())
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || !errors.Is(err, llm.ErrUnreachable) || !e.Retryable {
		t.Errorf("Generate: got error %v, want a retryable %v", err, llm.ErrUnreachable)
	}
	for _, s := range []string{err.Error(), c.String(), fmt.Sprintf("%v %+v %#v", c, c, c)} {
		if strings.Contains(s, key) {
			t.Errorf("the key is in %q", s)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestUsage holds that tokens are told once, whichever way the server tells them.
func TestUsage(t *testing.T) {
	tests := []struct {
		style llmtest.UsageStyle
		want  llm.Usage
	}{
		{llmtest.UsageLast, llm.Usage{Input: 12, Output: 3}},
		{llmtest.UsageEach, llm.Usage{Input: 12, Output: 3}},
		{llmtest.UsageNone, llm.Usage{Input: 10, Output: 2, Estimated: true}},
	}
	for _, tt := range tests {
		t.Run(string(tt.style), func(t *testing.T) {
			s := llmtest.NewServer(llmtest.Say("tokens").Usage(12, 3).Over(llmtest.Wire{Usage: tt.style}))
			resp, err := llm.Generate(t.Context(), client(t, s, openai.Options{}), hello())
			if err != nil || resp.Usage != tt.want {
				t.Errorf("Generate: got %+v and error %v, want usage %+v", resp, err, tt.want)
			}
		})
	}
}

// TestToolChoiceNone holds that calls of a model that ignores the choice are passed on: who has asked answers them, or leaves them out.
func TestToolChoiceNone(t *testing.T) {
	s := llmtest.NewServer(llmtest.Join(llmtest.Say("x"), llmtest.Call("f", nil)))
	req := hello()
	req.Tools, req.ToolChoice = []llm.Tool{{Name: "f"}}, llm.ToolChoiceNone
	resp, err := llm.Generate(t.Context(), client(t, s, openai.Options{}), req)
	if err != nil {
		t.Fatalf("Generate: %v", err)
	}
	if got := summary(resp); got != "x f{} tool_calls" {
		t.Errorf("Generate: got %q, want %q", got, "x f{} tool_calls")
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(s.Requests()[0].Body, &body); err != nil {
		t.Fatal(err)
	}
	if _, ok := body["tools"]; ok {
		t.Errorf("tools were sent although none may be called: %s", body["tools"])
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
		c := openai.New("m", &openai.Options{BaseURL: "http://llm.test", HTTPClient: hc})
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

// TestOddUsage holds that numbers of another form cost no turn.
func TestOddUsage(t *testing.T) {
	for _, usage := range []string{`null`, `{"prompt_tokens":12.5,"completion_tokens":3}`, `"none"`, `{}`, `{"prompt_tokens":null}`, `[]`} {
		body := `{"model":"m","choices":[{"index":0,"message":{"content":"tokens"},"finish_reason":"stop"}],"usage":` + usage + `}`
		resp, err := llm.Generate(t.Context(), client(t, llmtest.NewServer(llmtest.Reply(200, body)), openai.Options{}), hello())
		want := llm.Usage{Input: 10, Output: 2, Estimated: true}
		if err != nil || resp.Usage != want {
			t.Errorf("Generate with usage %s: got %+v and error %v, want %+v", usage, resp, err, want)
		}
	}
}
