package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

func nothing(context.Context, struct{}) (string, error) { return "", nil }

func TestPages(t *testing.T) {
	eachVersion(t, &mcpserver.Options{Lists: mcpserver.ListOptions{PageSize: 4}}, func(t *testing.T, v mcp.Version, p *peer, _ *gate) {
		var names []string
		params, pages := "{}", 0
		for ; pages < 10; pages++ {
			var got struct{ Result mcp.ListToolsResult }
			if err := json.Unmarshal([]byte(p.ask(request(v, pages, "tools/list", params))), &got); err != nil {
				t.Fatal(err)
			}
			for _, tool := range got.Result.Tools {
				names = append(names, tool.Name)
			}
			if got.Result.NextCursor == nil {
				break
			}
			params = fmt.Sprintf(`{"cursor":%q}`, *got.Result.NextCursor)
		}
		want := []string{"block", "echo", "fail", "hang", "log", "panic", "refuse", "steps", "who"} // TOOL-02
		if !slices.Equal(names, want) || pages != 2 {
			t.Errorf("got %v on %d pages, want %v on 3", names, pages+1, want)
		}
		for _, cursor := range []string{"bogus", "", "Zm9v", "!"} { // PAGE-05
			p.expectError(request(v, "c", "tools/list", fmt.Sprintf(`{"cursor":%q}`, cursor)), mcp.CodeInvalidParams, `"c"`)
		}
	})
}

// A cursor holds when tools come and go meanwhile.
func TestCursorAfterAChange(t *testing.T) {
	inBubble(t, &mcpserver.Options{Lists: mcpserver.ListOptions{PageSize: 4}}, func(t *testing.T, s *mcpserver.Server, p *peer, _ *gate) {
		p.modern()
		var got struct{ Result mcp.ListToolsResult }
		if err := json.Unmarshal([]byte(p.ask(request(p.version, 1, "tools/list", "{}"))), &got); err != nil {
			t.Fatal(err)
		}
		s.RemoveTools("echo", "log", "no such tool")
		answer := p.ask(request(p.version, 2, "tools/list", fmt.Sprintf(`{"cursor":%q}`, *got.Result.NextCursor)))
		if err := json.Unmarshal([]byte(answer), &got); err != nil || len(got.Result.Tools) == 0 || got.Result.Tools[0].Name != "panic" {
			t.Errorf("got %s, want the tools behind log", clip(answer))
		}
	})
}

func TestToolsChanged(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *mcpserver.Server, p *peer, _ *gate) {
		p.initialize(mcp.V2025_11_25)
		synctest.Wait()
		other := serve(t, s) // has not said initialize
		for i := range 10 {
			if err := mcpserver.AddFunc(s, &mcp.Tool{Name: fmt.Sprint("new", i)}, nothing); err != nil {
				t.Fatal(err)
			}
		}
		if got := p.receive(); got != `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` { // TOOL-13
			t.Errorf("got %s", got)
		}
		time.Sleep(time.Second)
		p.silent() // one for all
		other.silent()
		if got := p.ask(call(p.version, 1, "new7", "{}")); !strings.Contains(got, "result") {
			t.Errorf("calling a new tool: got %s", got)
		}
		s.RemoveTools("new7")
		p.receive()
		p.expectError(call(p.version, 2, "new7", "{}"), mcp.CodeInvalidParams, "2")
	})
}

func TestResults(t *testing.T) {
	type text string
	link := &mcp.ResourceLink{URI: "file:///a", Name: "a"}
	structured := json.RawMessage(`{"a":1}`)
	tests := []struct {
		name string
		add  func(*mcpserver.Server, *mcp.Tool) error
		want string // the members of the result in 2025-11-25
	}{
		{"struct", returns(echoOut{"x"}), `"content":[{"type":"text","text":"{\"text\":\"x\"}"}],"structuredContent":{"text":"x"}`},
		{"string", returns("x"), `"content":[{"type":"text","text":"x"}]`},
		{"named string", returns(text("x")), `"content":[{"type":"text","text":"x"}]`},
		{"nothing", returns[any](nil), `"content":[]`},
		{"any", returns[any](map[string]int{"a": 1}), `"content":[{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"a":1}`},
		{"array", returns([]int{1, 2}), `"content":[{"type":"text","text":"[1,2]"}]`}, // TOOL-11: no object
		{"nil slice", returns([]string(nil)), `"content":[{"type":"text","text":"[]"}]`},
		{"content", returns(link), `"content":[{"type":"resource_link","uri":"file:///a","name":"a"}]`},
		{"contents", returns(mcp.Contents{mcp.Text("a"), mcp.Text("b")}), `"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]`},
		{"result", returns(&mcp.CallToolResult{StructuredContent: structured, IsError: true, Meta: mcp.Meta{"com.example/a": structured}}),
			`"content":[],"structuredContent":{"a":1},"isError":true,"_meta":{"com.example/a":{"a":1}}`},
	}
	inBubble(t, nil, func(t *testing.T, s *mcpserver.Server, p *peer, _ *gate) {
		for i, tt := range tests {
			if err := tt.add(s, &mcp.Tool{Name: fmt.Sprint("t", i)}); err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
		}
		p.initialize(mcp.V2025_11_25)
		for i, tt := range tests {
			p.expect(call(p.version, i, fmt.Sprint("t", i), "{}"), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{%s}}`, i, tt.want))
		}
		p.modern()
		got := p.ask(call(p.version, 99, "t9", "{}")) // META-06 beside the handler's own
		if !strings.Contains(got, `"com.example/a"`) || !strings.Contains(got, `serverInfo`) {
			t.Errorf("_meta: got %s", got)
		}
	})
}

func returns[T any](value T) func(*mcpserver.Server, *mcp.Tool) error {
	return func(s *mcpserver.Server, tool *mcp.Tool) error {
		return mcpserver.AddFunc(s, tool, func(context.Context, struct{}) (T, error) { return value, nil })
	}
}

// TOOL-11: a server does not send what its own schema forbids.
func TestOutputSchema(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *mcpserver.Server, p *peer, _ *gate) {
		p.modern()
		out := json.RawMessage(`{"type":"object","required":["n"]}`)
		for name, result := range map[string]*mcp.CallToolResult{
			"none":  {Content: mcp.Contents{mcp.Text("x")}},
			"bad":   {StructuredContent: json.RawMessage(`{"m":1}`)},
			"nil":   nil,
			"error": mcp.ErrorResult("no"),
			"good":  {StructuredContent: json.RawMessage(`{"n":1}`)},
		} {
			if err := returns(result)(s, &mcp.Tool{Name: name, OutputSchema: out}); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"none", "bad", "nil"} {
			p.expectError(call(p.version, name, name, "{}"), mcp.CodeInternal, `"`+name+`"`)
		}
		for _, name := range []string{"error", "good"} {
			if got := p.ask(call(p.version, name, name, "{}")); !strings.Contains(got, `"result"`) {
				t.Errorf("%s: got %s", name, got)
			}
		}
	})
}

func TestDefaults(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *mcpserver.Server, p *peer, _ *gate) {
		p.modern()
		tool := &mcp.Tool{Name: "d", InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string","default":"anon"},"n":{"type":"integer"}}}`)}
		err := mcpserver.AddFunc(s, tool, func(_ context.Context, in echoIn) (string, error) { return fmt.Sprint(in.Text, in.N), nil })
		if err != nil {
			t.Fatal(err)
		}
		for arguments, want := range map[string]string{`{"n":3}`: "anon3", `{"text":"x"}`: "x0"} {
			if got := p.ask(call(p.version, 1, "d", arguments)); !strings.Contains(got, `"`+want+`"`) {
				t.Errorf("arguments %s: got %s, want %s", arguments, got, want)
			}
		}
	})
}

func TestAddToolErrors(t *testing.T) {
	tests := []struct {
		name string
		tool *mcp.Tool
		add  func(*mcpserver.Server, *mcp.Tool) error
	}{
		{"nil", nil, returns("")},
		{"no name", &mcp.Tool{}, returns("")},
		{"bad name", &mcp.Tool{Name: "a b"}, returns("")}, // TOOL-04
		{"long name", &mcp.Tool{Name: strings.Repeat("a", 129)}, returns("")},
		{"name is taken", &mcp.Tool{Name: "echo"}, returns("")},
		{"schema is no schema", &mcp.Tool{Name: "x", InputSchema: json.RawMessage(`{"type":"nonsense"}`)}, returns("")},
		{"schema is no object", &mcp.Tool{Name: "x", InputSchema: json.RawMessage(`{"type":"string"}`)}, returns("")}, // TOOL-03
		{"output schema", &mcp.Tool{Name: "x", OutputSchema: json.RawMessage(`[`)}, returns("")},
		{"input without a schema", &mcp.Tool{Name: "x"}, func(s *mcpserver.Server, tool *mcp.Tool) error {
			return mcpserver.AddFunc(s, tool, func(context.Context, struct{ C chan int }) (string, error) { return "", nil })
		}},
		{"input is no object", &mcp.Tool{Name: "x"}, func(s *mcpserver.Server, tool *mcp.Tool) error {
			return mcpserver.AddFunc(s, tool, func(context.Context, int) (string, error) { return "", nil })
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newServer(t, nil)
				err := tt.add(s, tt.tool)
				if err == nil {
					t.Fatal("got no error")
				}
				if tt.name == "name is taken" && !errors.Is(err, mcpserver.ErrToolExists) {
					t.Errorf("got %v, want ErrToolExists", err)
				}
			})
		})
	}
}

func TestNewErrors(t *testing.T) {
	for name, opts := range map[string]*mcpserver.Options{
		"unknown version": {Versions: []mcp.Version{"2030-01-01"}},
		"no version":      {Versions: []mcp.Version{}},
	} {
		if _, err := mcpserver.New(mcp.Implementation{Name: "x", Version: "1"}, opts); err == nil {
			t.Errorf("New with %s: got no error", name)
		}
	}
	if _, err := mcpserver.New(mcp.Implementation{}, nil); err == nil {
		t.Error("New without a name: got no error")
	}
}

func TestClientHangsUp(t *testing.T) {
	tests := []struct {
		tool string
		took time.Duration
		says string
	}{
		{"echo", 0, "hi"},
		{"block", 2 * time.Second, ""}, // until the grace is over
		{"nap", time.Second, "awake"},  // within it, the answer is still written
	}
	for _, tt := range tests {
		t.Run(tt.tool, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, s *mcpserver.Server, p *peer, g *gate) {
				err := mcpserver.AddTool(s, &mcp.Tool{Name: "nap"}, func(context.Context, *mcpserver.ToolRequest, echoIn) (string, error) {
					time.Sleep(time.Second)
					return "awake", nil
				})
				if err != nil {
					t.Fatal(err)
				}
				p.modern()
				arguments := `{"text":"hi"}`
				if tt.tool == "block" {
					arguments = "{}"
				}
				p.send(call(p.version, 1, tt.tool, arguments))
				synctest.Wait()
				start := time.Now()
				p.in.Close() // STDIO-21
				if err := <-p.ended; err != nil {
					t.Errorf("Serve: got %v, want nil", err)
				}
				if took := time.Since(start); took != tt.took {
					t.Errorf("Serve returned after %v, want %v", took, tt.took)
				}
				if tt.says != "" {
					if got := p.receive(); !strings.Contains(got, tt.says) {
						t.Errorf("answer: got %s", got)
					}
				} else if cause := <-g.ended; cause == nil {
					t.Error("the handler's context did not end")
				}
			})
		})
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := newServer(t, nil)
		why := errors.New("that will do")
		ctx, cancel := context.WithCancelCause(t.Context())
		p := serveWith(ctx, t, s)
		p.modern()
		p.send(call(p.version, 1, "block", "{}"))
		<-g.begun
		cancel(why)
		if err := <-p.ended; err != why {
			t.Errorf("Serve: got %v, want %v", err, why)
		}
		if cause := <-g.ended; !errors.Is(cause, why) {
			t.Errorf("the handler's cause: got %v, want %v", cause, why)
		}
	})
}

func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := newServer(t, nil)
		quick, stuck := serve(t, s), serve(t, s)
		quick.modern()
		stuck.modern()
		stuck.send(call(stuck.version, 1, "block", "{}"))
		<-g.begun
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("Shutdown took %v, want what it was given", took)
		}
		for _, p := range []*peer{quick, stuck} {
			if err := <-p.ended; !errors.Is(err, mcpserver.ErrClosed) {
				t.Errorf("Serve: got %v, want ErrClosed", err)
			}
		}
		if cause := <-g.ended; !errors.Is(cause, mcpserver.ErrClosed) {
			t.Errorf("the handler's cause: got %v", cause)
		}
		if err := <-serve(t, s).ended; !errors.Is(err, mcpserver.ErrClosed) {
			t.Errorf("Serve afterwards: got %v", err)
		}
		if _, err := s.Connect(new(sink)); !errors.Is(err, mcpserver.ErrClosed) {
			t.Errorf("Connect afterwards: got %v", err)
		}
	})
}

// A client that does not read its answers is let go; others do not notice.
func TestClientDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, nil)
		blocked := &deafWriter{closed: make(chan struct{})}
		ended := make(chan error, 1)
		lines := &endless{line: []byte(call(mcp.V2026_07_28, 1, "fail", "{}") + "\n"), stop: make(chan struct{})}
		go func() { ended <- s.Serve(t.Context(), lines, blocked) }()
		if err := <-ended; err == nil {
			t.Error("Serve: got nil, want that the client does not read")
		}
		p := serve(t, s)
		p.modern()
		p.ask(request(p.version, 1, "tools/list", "{}"))
	})
}

// endless repeats a line until it is closed.
type endless struct {
	line []byte
	stop chan struct{}
}

func (e *endless) Read(b []byte) (int, error) {
	select {
	case <-e.stop:
		return 0, os.ErrClosed
	default:
		return copy(b, e.line), nil
	}
}

func (e *endless) Close() error { close(e.stop); return nil }

// deafWriter blocks until it is closed.
type deafWriter struct{ closed chan struct{} }

func (d *deafWriter) Write([]byte) (int, error) { <-d.closed; return 0, os.ErrClosed }
func (d *deafWriter) Close() error              { close(d.closed); return nil }
