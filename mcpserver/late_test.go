package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// filledLate is a server whose middleware waits for a second, and adds what it serves only
// then.
func filledLate(t *testing.T, o mcpserver.Options) *mcpserver.Server {
	t.Helper()
	var s *mcpserver.Server
	var once sync.Once
	o.LetMiddlewareWait(true).Lists.DeclareAll = true
	o.Middleware = []mcpserver.Middleware{func(ctx context.Context, in *mcpserver.Incoming, next mcpserver.Next) (json.RawMessage, error) {
		switch in.Method {
		case mcp.MethodInitialize, mcp.MethodDiscover, mcp.MethodPing, mcp.MethodSetLevel:
			return next(ctx)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		var err error
		once.Do(func() {
			if err = addPrompts(s); err == nil {
				err = addResources(s)
			}
			if err == nil {
				err = mcpserver.AddTool(s, &mcp.Tool{Name: "greet"}, func(ctx context.Context, req *mcpserver.ToolRequest, in struct {
					Who string `json:"who,omitempty"`
				}) (string, error) {
					name, err := mcpserver.Elicit[struct {
						Name string `json:"name"`
					}](ctx, req, "name", "What is your name?")
					return "hello " + name.Name + in.Who, err
				})
			}
		})
		if err != nil {
			return nil, err
		}
		return next(ctx)
	}}
	s, _ = newServer(t, &o)
	return s
}

// answerTo asks, and returns the answer, without what the server tells meanwhile.
func (p *peer) answerTo(line string) string {
	p.t.Helper()
	got := p.ask(line)
	for !strings.Contains(got, `"id":`) {
		got = p.receive()
	}
	return got
}

// A middleware may wait before it goes on, in lists too: meanwhile others are answered,
// and what it adds is found. ARCH: nothing waits where a pipe is read.
func TestWaits(t *testing.T) {
	for _, v := range mcp.Versions() {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := filledLate(t, mcpserver.Options{})
				p := serve(t, s)
				p.open(v)
				p.asked[`2`] = mcp.MethodListTools
				p.send(request(v, 2, mcp.MethodListTools, "{}"))
				if v.Era() == mcp.EraLegacy { // 2026-07-28 has no ping
					p.expect(request(v, 3, mcp.MethodPing, "{}"), `{"jsonrpc":"2.0","id":3,"result":{}}`)
				}
				if got := p.receive(); !strings.Contains(got, `"greet"`) || !strings.Contains(got, `"id":2`) {
					t.Errorf("tools: got %s", got)
				}
				tests := []struct{ line, want string }{
					{request(v, 10, mcp.MethodListPrompts, "{}"), `"simple"`},
					{request(v, 11, mcp.MethodListResources, "{}"), `"test://text"`},
					{request(v, 12, mcp.MethodListResourceTemplates, "{}"), `"resourceTemplates":`},
					{get(v, 13, "greet", `{"name":"Ada"}`), `greet map[name:Ada]`},
					{read(v, 14, "test://text"), `"text":"hello"`},
					{call(v, 15, "unknown", `{}`), `unknown tool \"unknown\"`},
					{request(v, 16, mcp.MethodGetPrompt, `{"name":"unknown"}`), `unknown prompt`},
					{request(v, 17, mcp.MethodCallTool, `{"name":1}`), `a tool call takes a name`},
					{request(v, 18, mcp.MethodListTools, `{"cursor":"nonsense"}`), `cursor`},
				}
				for _, tt := range tests {
					if got := p.answerTo(tt.line); !strings.Contains(got, tt.want) {
						t.Errorf("answer to %s: got %s, want %s", tt.line, clip(got), tt.want)
					}
				}
			})
		})
	}
}

// A handler whose work was found late asks its client as any other does, and a client of
// 2026-07-28 that comes back finds it (MRTR-10, MRTR-11): each round waits for the
// middleware.
func TestWaitsAsks(t *testing.T) {
	for _, parks := range []bool{true, false} {
		t.Run(fmt.Sprint("parks ", parks), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := filledLate(t, mcpserver.Options{Rounds: mcpserver.RoundOptions{NoParking: !parks}})
				p := serve(t, s)
				p.modern()
				const v = mcp.V2026_07_28
				got := p.ask(call(v, 2, "greet", `{"who":"!"}`))
				var first struct {
					Result struct {
						ResultType   string `json:"resultType"`
						RequestState string `json:"requestState"`
					} `json:"result"`
				}
				if err := json.Unmarshal([]byte(got), &first); err != nil || first.Result.ResultType != mcp.ResultInputRequired {
					t.Fatalf("first round: got %s", got)
				}
				state, _ := json.Marshal(first.Result.RequestState)
				got = p.ask(request(v, 3, mcp.MethodCallTool, fmt.Sprintf(
					`{"name":"greet","arguments":{"who":"!"},"inputResponses":{"name":{"action":"accept","content":{"name":"Ada"}}},"requestState":%s}`, state)))
				if !strings.Contains(got, "hello Ada!") {
					t.Errorf("second round: got %s", got)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // CANC-05: cancelled while the middleware waits
		s := filledLate(t, mcpserver.Options{})
		p := serve(t, s)
		p.open(mcp.V2025_11_25)
		p.send(request(mcp.V2025_11_25, 2, mcp.MethodListTools, "{}"))
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		time.Sleep(time.Minute)
		p.silent()
	})
}

// SHL-10, RES-10: over HTTP too, subscriptions among it; a panic of the middleware is one
// request's.
func TestWaitsOverHTTP(t *testing.T) {
	var s *mcpserver.Server
	wait := func(ctx context.Context, in *mcpserver.Incoming, next mcpserver.Next) (json.RawMessage, error) {
		if in.Method == mcp.MethodSubscribe {
			if in.Name != "test://text" {
				panic("for the test")
			}
			time.Sleep(time.Second)
		}
		return next(ctx)
	}
	opts := (&mcpserver.Options{Middleware: []mcpserver.Middleware{wait}}).LetMiddlewareWait(true)
	webBubble(t, opts, func(t *testing.T, own *mcpserver.Server, client *http.Client, _ *gate) {
		s = own
		if err := addResources(s); err != nil {
			t.Fatal(err)
		}
		post := func(session, body string) (*http.Response, string) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			if session != "" {
				req.Header.Set("Mcp-Session-Id", session)
				req.Header.Set("MCP-Protocol-Version", "2025-11-25")
			}
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			text, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			return res, string(text)
		}
		res, _ := post("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		session := res.Header.Get("Mcp-Session-Id")
		post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		for uri, want := range map[string]string{"test://text": `"result":{}`, "test://other": `"error":`} {
			if _, got := post(session, fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":%q}}`, uri)); !strings.Contains(got, want) {
				t.Errorf("subscribe to %s: got %s, want %s", uri, got, want)
			}
		}
	})
}

// TASK-03, TASK-09: a tool that was found late becomes a task where it is called as one.
func TestWaitsTasks(t *testing.T) {
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprint(waits), func(t *testing.T) { testLateTask(t, waits) })
	}
}

func testLateTask(t *testing.T, waits bool) {
	synctest.Test(t, func(t *testing.T) {
		var s *mcpserver.Server
		var once sync.Once
		middleware := func(ctx context.Context, in *mcpserver.Incoming, next mcpserver.Next) (json.RawMessage, error) {
			if in.Method == mcp.MethodCallTool {
				once.Do(func() {
					err := mcpserver.AddFunc(s, &mcp.Tool{Name: "long", Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskRequired}},
						func(context.Context, struct{}) (string, error) { time.Sleep(time.Minute); return "at last", nil })
					if err != nil {
						t.Error(err)
					}
				})
			}
			return next(ctx)
		}
		s, _ = newServer(t, (&mcpserver.Options{Lists: mcpserver.ListOptions{DeclareAll: true}, Tasks: new(mcpserver.TaskOptions), Middleware: []mcpserver.Middleware{middleware}}).LetMiddlewareWait(waits))
		if !waits { // then it must be there before
			_, _ = middleware(t.Context(), &mcpserver.Incoming{Method: mcp.MethodCallTool}, func(context.Context) (json.RawMessage, error) { return nil, nil })
		}
		p := serve(t, s)
		const v = mcp.V2025_11_25
		p.open(v)
		p.check = nil // which knows results by their method
		p.expectError(call(v, 2, "long", `{}`), mcp.CodeMethodNotFound, "2")
		got := p.answerTo(request(v, 3, mcp.MethodCallTool, `{"name":"long","arguments":{},"task":{}}`))
		var created struct {
			Result struct{ Task struct{ TaskID string } }
		}
		if err := json.Unmarshal([]byte(got), &created); err != nil || created.Result.Task.TaskID == "" {
			t.Fatalf("creation: got %s", got)
		}
		if got := p.answerTo(request(v, 4, mcp.MethodTaskResult, fmt.Sprintf(`{"taskId":%q}`, created.Result.Task.TaskID))); !strings.Contains(got, "at last") {
			t.Errorf("result: got %s", got)
		}
	})
}
