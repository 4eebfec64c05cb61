package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/internal/sse"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// adaAsks answers for a person and a model.
func adaAsks(roots ...mcp.Root) mcpclient.AskOptions {
	return mcpclient.AskOptions{
		Human: mcpclient.HumanFunc(func(_ context.Context, ask *mcpclient.Ask) (*mcpclient.Decision, error) {
			if ask.Kind != mcpclient.AskForm {
				return &mcpclient.Decision{Action: mcp.ActionDecline}, nil
			}
			content := map[string]json.RawMessage{"name": json.RawMessage(`"Ada"`)}
			if strings.Contains(ask.Message, "How many") {
				content = map[string]json.RawMessage{"count": json.RawMessage(`3`)}
			}
			return &mcpclient.Decision{Action: mcp.ActionAccept, Content: content}, nil
		}),
		Sampler: mcpclient.SamplerFunc(func(context.Context, *mcpclient.SampleRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Content: mcp.Contents{mcp.Text("Paris")}, Model: "m"}, nil
		}),
		SampleFreely: true, Roots: roots, RootAvailable: func(string) bool { return true },
	}
}

// MRTR-30, SHL-32, SSE-04: a real client is asked over each transport that has
// connections, and answers on others than it was asked on, for many calls at once.
func TestAskARealClient(t *testing.T) {
	tests := []struct {
		transport string
		v         mcp.Version
	}{
		{"http", mcp.V2025_06_18}, {"http", mcp.V2025_11_25}, {"http", mcp.V2026_07_28},
		{"sse", mcp.V2025_06_18}, {"sse", mcp.V2025_11_25},
	}
	for _, tt := range tests {
		t.Run(tt.transport+" "+string(tt.v), func(t *testing.T) {
			t.Parallel()
			s, c := newAsking(t, nil)
			mux := http.NewServeMux()
			mux.Handle("/http", s.Handler())
			mux.Handle("/sse", s.SSEHandler())
			var mu sync.Mutex
			conns := map[string]bool{}
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				conns[r.RemoteAddr] = true
				mu.Unlock()
				mux.ServeHTTP(w, r)
			}))
			defer web.Close()
			client, err := mcpclient.Dial(t.Context(), mcpclient.Server{
				Name: "server", URL: web.URL + "/" + tt.transport, Transport: tt.transport, Protocol: string(tt.v),
			}, &mcpclient.Options{AskOptions: adaAsks(mcp.Root{URI: "file:///home/ada"})})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			want := map[string]string{"greet": "Hello, Ada!", "sample": "Paris", "roots": "1", "all": `"Ada" Paris file:///home/ada`, "retry": `first {"action":"accept","content":{"name":"Ada"}}`}
			var calls sync.WaitGroup
			for tool, text := range want {
				for range 4 {
					calls.Go(func() {
						res, err := client.CallTool(t.Context(), tool, json.RawMessage(`{}`), nil)
						if err != nil {
							t.Errorf("%s: %v", tool, err)
						} else if got := res.Content.Text(); got != text || res.IsError {
							t.Errorf("%s: got %q, want %q", tool, got, text)
						}
					})
				}
			}
			calls.Wait()
			for range 3 {
				res, err := client.CallTool(t.Context(), "order", json.RawMessage(`{}`), nil)
				if err != nil || !strings.HasPrefix(res.Content.Text(), "3 for Ada, number ") {
					t.Errorf("order: got %+v, %v", res, err)
				}
			}
			if got := c.paid.Load(); got != 3 {
				t.Errorf("paid %d times, want 3", got)
			}
			if len(conns) < 2 {
				t.Errorf("all went over %d connections, want several", len(conns))
			}
		})
	}
}

// SHL-15, SHL-22, CANC-11: a client that loses its connection while it is asked resumes
// the stream: it is asked once, may answer before or after, and gets its answer once.
func TestResumeWhileAsked(t *testing.T) {
	for _, early := range []bool{false, true} {
		t.Run(fmt.Sprint("answers before it resumes ", early), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := newAsking(t, nil)
				w, a := newWeb(t, memhttp.Serve(t, s.Handler()), mcp.V2025_11_25), frames(t, mcp.V2025_11_25)
				openWebAsked(w)
				ctx, leave := context.WithCancel(t.Context())
				line := a.tool("greet", `{}`, "")
				resp, err := w.start(ctx, http.MethodPost, strings.NewReader(line), w.headers(line))
				if err != nil {
					t.Fatal(err)
				}
				in := sse.NewReader(resp.Body, 0)
				var at, question string
				for question == "" {
					e, err := in.Next()
					if err != nil {
						t.Fatal(err)
					}
					if question = string(e.Data); e.ID != "" && question == "" {
						at = e.ID // of the priming event: the question was not seen
					}
				}
				leave()
				resp.Body.Close()
				wait(time.Minute)
				if len(c.ended) != 0 {
					t.Fatal("the call has ended with its connection")
				}
				answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, readMessage(t, question).ID, accept("Ada"))
				if early {
					if got := w.post(answer); got.status != http.StatusAccepted {
						t.Errorf("the answer: got %v", got)
					}
					synctest.Wait()
				}
				resumed := make(chan reply, 1)
				go func() {
					got, err := w.send(t.Context(), http.MethodGet, nil, w.headers(""), map[string]string{"Last-Event-ID": at, "Accept": "text/event-stream"})
					if err != nil {
						t.Error(err)
					}
					resumed <- got
				}()
				if !early {
					wait(time.Second)
					if got := w.post(answer); got.status != http.StatusAccepted {
						t.Errorf("the answer: got %v", got)
					}
				}
				got := <-resumed
				if len(got.messages) != 2 || got.messages[0] != question || readMessage(t, got.last()).text() != "Hello, Ada!" {
					t.Errorf("the rest of the stream: got %q", got.messages)
				}
				if n := c.ran.Load(); n != 1 {
					t.Errorf("the handler ran %d times, want once", n)
				}
			})
		})
	}
}

// openWebAsked opens a session of a client that can be asked.
func openWebAsked(w *web) {
	w.t.Helper()
	got := w.post(strings.Replace(initialize(w.version), `"capabilities":{}`, `"capabilities":`+allCapabilities, 1))
	if w.session = got.header.Get("Mcp-Session-Id"); w.session == "" {
		w.t.Fatalf("initialize: got %v", got)
	}
	w.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// ELIC-05, SAMP-41: of several questions at once one may fail: the others have their
// answers, in both eras, and what a client answers with an error ends only that one.
func TestAskWithOneThatFails(t *testing.T) {
	tests := []struct {
		name, answer, want string
		legacyOnly         bool
	}{
		{"declined", `{"action":"decline"}`, "declined", false},
		{"dismissed", `{"action":"cancel"}`, "dismissed", false},
		{"refused with an error", `{"code":-32603,"message":"no"}`, "client error", true},
		{"not what was asked for", `{"action":"accept","content":{"age":3}}`, "answer error", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bothWays(t, mcp.V2025_06_18, func(t *testing.T, s *mcpserver.Server, a *asked, _ *counts) {
				if tt.legacyOnly && a.v.Era() == mcp.EraModern {
					return // there it is the retry that is refused (MRTR-07)
				}
				err := mcpserver.AddTool(s, &mcp.Tool{Name: "three"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
					form := mcpserver.FormQuestion("form", &mcp.ElicitParams{Message: "Who?", RequestedSchema: json.RawMessage(nameSchema)})
					model := mcpserver.SampleQuestion("model", sampleParams("Capital of France?"))
					roots := mcpserver.RootsQuestion("roots")
					if err := req.Ask(ctx, form, model, roots); err != nil {
						return "", err
					}
					if model.Err != nil || roots.Err != nil {
						return "", errors.Join(model.Err, roots.Err)
					}
					return fmt.Sprintf("%s %s %s", kindOf(form.Err), model.Sampled.Content.Text(), roots.Roots[0].URI), nil
				})
				if err != nil {
					t.Fatal(err)
				}
				got := a.call("three", `{}`, func(method string, params json.RawMessage) string {
					if method == mcp.MethodElicit {
						return tt.answer
					}
					return respondAda(method, params)
				})
				if want := tt.want + " Paris file:///home/ada"; got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				if a.v.Era() == mcp.EraLegacy {
					a.silent()
				}
			})
		})
	}
}

func kindOf(err error) string {
	_, client := errors.AsType[*mcpserver.ClientError](err)
	_, answer := errors.AsType[*mcpserver.AnswerError](err)
	switch {
	case errors.Is(err, mcpserver.ErrDeclined):
		return "declined"
	case errors.Is(err, mcpserver.ErrDismissed):
		return "dismissed"
	case client:
		return "client error"
	case answer:
		return "answer error"
	}
	return fmt.Sprint(err)
}
