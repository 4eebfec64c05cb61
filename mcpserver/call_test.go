package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// tail is what a result of v has beside its own members.
func tail(v mcp.Version) string {
	if v.Era() == mcp.EraModern {
		return `,"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}}`
	}
	return ""
}

func TestCallTool(t *testing.T) {
	eachVersion(t, nil, func(t *testing.T, v mcp.Version, p *peer, _ *gate) {
		structured := "" // LIFE-09: a session has what its revision has
		if v.Has(mcp.FeatureStructuredContent) {
			structured = `,"structuredContent":{"text":"hi"}`
		}
		for i := range 10 { // on a worker first, then where the pipe is read
			p.expect(call(v, i, "echo", `{"text":"hi"}`), fmt.Sprintf(
				`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"{\"text\":\"hi\"}"}]%s%s}}`, i, structured, tail(v)))
		}
		// TOOL-09: what a tool says went wrong is for the model.
		p.expect(call(v, "f", "fail", `{}`), fmt.Sprintf(
			`{"jsonrpc":"2.0","id":"f","result":{"content":[{"type":"text","text":"the printer is on fire"}],"isError":true%s}}`, tail(v)))
		if e := p.expectError(call(v, 20, "refuse", `{}`), 1234, "20"); e.Message != "not for you" {
			t.Errorf("message: got %q", e.Message)
		}
		if e := p.expectError(call(v, 21, "panic", `{}`), mcp.CodeInternal, "21"); e.Message != "internal error" {
			t.Errorf("a panic tells the client %q", e.Message) // LOG-06
		}
		p.expectError(call(v, 22, "nothing", `{}`), mcp.CodeInvalidParams, "22") // TOOL-08
		p.expectError(request(v, 23, "tools/call", `{"arguments":{}}`), mcp.CodeInvalidParams, "23")
		p.expectError(request(v, 24, "tools/call", `{"name":["echo"]}`), mcp.CodeInvalidParams, "24")
		p.expectError(call(v, 25, "echo", `["hi"]`), mcp.CodeInvalidParams, "25")
	})
}

func TestInvalidArguments(t *testing.T) {
	eachVersion(t, nil, func(t *testing.T, v mcp.Version, p *peer, _ *gate) {
		for i, arguments := range []string{`{}`, `{"text":7}`, `{"text":"a","n":1.5}`, `{"text":"a","more":1}`, `{"text":null}`, `{"text":"a","n":99999999999999999999}`} {
			line := call(v, i, "echo", arguments)
			answer := p.ask(line)
			if v < mcp.V2025_11_25 { // TOOL-09
				if e := p.wantError(line, answer, mcp.CodeInvalidParams, fmt.Sprint(i)); !strings.Contains(e.Message, "echo") {
					t.Errorf("message: got %q", e.Message)
				}
				continue
			}
			var got struct{ Result mcp.CallToolResult }
			if err := json.Unmarshal([]byte(answer), &got); err != nil || !got.Result.IsError || !strings.Contains(got.Result.Content.Text(), "invalid arguments") {
				t.Errorf("arguments %s: got %s", arguments, answer)
			}
		}
	})
}

func TestToolRequest(t *testing.T) {
	eachVersion(t, nil, func(t *testing.T, v mcp.Version, p *peer, _ *gate) {
		answer := p.ask(request(v, 1, "tools/call", `{"name":"who","arguments":{"a":[1,2]},"_meta":{"com.example/x":"y"}}`))
		var got struct{ Result mcp.CallToolResult }
		if err := json.Unmarshal([]byte(answer), &got); err != nil {
			t.Fatal(err)
		}
		form := v.Has(mcp.FeatureElicitation) // capabilities are those of the revision
		want := fmt.Sprintf(`{"arguments":{"a":[1,2]},"client":"peer","form":%v,"name":"who","version":%q,"x":"y"}`, form, v)
		if text := got.Result.Content.Text(); text != want {
			t.Errorf("got %s, want %s", text, want)
		}
	})
}

func TestProgress(t *testing.T) {
	eachVersion(t, nil, func(t *testing.T, v mcp.Version, p *peer, _ *gate) {
		message := ""
		if v.Has(mcp.FeatureProgressMessage) {
			message = `,"message":"step"`
		}
		p.send(request(v, 1, "tools/call", `{"name":"steps","arguments":{"text":"step","n":3},"_meta":{"progressToken":"p1"}}`))
		for i := range 3 {
			want := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p1","progress":%d,"total":3%s}}`, i+1, message)
			if got := p.receive(); got != want {
				t.Errorf("progress: got %s, want %s", got, want)
			}
		}
		if got := p.receive(); !strings.Contains(got, `"text":"done"`) { // PROG-04: the answer is last
			t.Errorf("answer: got %s", got)
		}
		p.send(call(v, 2, "steps", `{"text":"step","n":3}`)) // PROG-01: nobody asked
		if got := p.receive(); !strings.Contains(got, `"text":"done"`) {
			t.Errorf("without a token: got %s", got)
		}
		p.silent()
	})
}

func TestLog(t *testing.T) {
	eachVersion(t, nil, func(t *testing.T, v mcp.Version, p *peer, _ *gate) {
		const warning = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","logger":"test","data":{"text":"a"}}}`
		logs := func(id int, meta string, want ...string) {
			t.Helper()
			p.send(request(v, id, "tools/call", `{"name":"log","arguments":{"text":"a"},"_meta":{`+meta+`}}`))
			for _, w := range want {
				if got := p.receive(); !strings.Contains(got, w) {
					t.Errorf("log: got %s, want %s", got, w)
				}
			}
			if got := p.receive(); !strings.Contains(got, "logged") {
				t.Errorf("answer: got %s", got)
			}
		}
		if v.Era() == mcp.EraModern { // LOG-05
			logs(1, `"com.example/x":1`)
			logs(2, `"io.modelcontextprotocol/logLevel":"warning"`, warning)
			logs(3, `"io.modelcontextprotocol/logLevel":"debug"`, "details", warning)
			logs(4, `"io.modelcontextprotocol/logLevel":"error"`)
			return
		}
		logs(1, `"com.example/x":1`, warning) // LOG-03
		p.ask(request(v, 2, "logging/setLevel", `{"level":"error"}`))
		logs(3, `"com.example/x":1`)
		p.ask(request(v, 4, "logging/setLevel", `{"level":"debug"}`))
		logs(5, `"com.example/x":1`, "details", warning)
	})
}

func TestCancel(t *testing.T) {
	eachVersion(t, nil, func(t *testing.T, v mcp.Version, p *peer, g *gate) {
		for _, line := range []string{ // CANC-06, CANC-07
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[1]}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
		} {
			p.send(line)
		}
		for _, tool := range []string{"block", "hang"} {
			p.send(call(v, 1, tool, `{}`))
			ctx := <-g.begun
			p.send(call(v, 2, tool, `{}`))
			<-g.begun
			p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}`)
			<-ctx.Done()
			if err := context.Cause(ctx); !errors.Is(err, context.Canceled) || err.Error() != `cancelled by the peer: "enough"` {
				t.Errorf("cause: got %v", context.Cause(ctx))
			}
			p.silent() // CANC-03, CANC-09
			p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
			p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		}
		p.silent()
		close(g.open)
		p.silent() // nor when the handler ends at last
		p.expectError(call(v, 1, "nothing", `{}`), mcp.CodeInvalidParams, "1")
	})
}

func TestDuplicateID(t *testing.T) {
	eachVersion(t, nil, func(t *testing.T, v mcp.Version, p *peer, g *gate) {
		p.send(call(v, 1, "block", `{}`))
		<-g.begun
		p.expectError(call(v, 1, "echo", `{"text":"a"}`), mcp.CodeInvalidRequest, "1") // BASE-04, BASE-05
		p.ask(call(v, "1", "echo", `{"text":"a"}`))                                    // BASE-02
	})
}

func TestDeadline(t *testing.T) {
	inBubble(t, &mcpserver.Options{Limits: mcpserver.Limits{CallTimeout: time.Minute, MaxInFlight: 1}}, func(t *testing.T, _ *mcpserver.Server, p *peer, g *gate) {
		p.modern()
		start := time.Now()
		p.expectError(call(p.version, 1, "hang", `{}`), mcp.CodeInternal, "1")
		if took := time.Since(start); took != time.Minute {
			t.Errorf("answered after %v, want 1m", took)
		}
		if ctx := <-g.begun; !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			t.Errorf("cause: got %v", context.Cause(ctx))
		}
		// The handler still hangs, and takes the only place.
		if e := p.expectError(call(p.version, 2, "echo", `{"text":"a"}`), mcp.CodeInternal, "2"); !strings.Contains(e.Message, "too many") {
			t.Errorf("busy: got %q", e.Message)
		}
		p.ask(request(p.version, 3, "tools/list", "{}"))
		close(g.open)
		synctest.Wait()
		if got := p.ask(call(p.version, 4, "echo", `{"text":"a"}`)); !strings.Contains(got, "result") {
			t.Errorf("afterwards: got %s", got)
		}
	})
}

// ROB-3: a client can not fill the memory with calls that do not end.
func TestLargeCallsInFlight(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *mcpserver.Server, p *peer, g *gate) {
		p.modern()
		err := mcpserver.AddFunc(s, &mcp.Tool{Name: "large"}, func(context.Context, echoIn) (string, error) { <-g.open; return "ok", nil })
		if err != nil {
			t.Fatal(err)
		}
		arguments := fmt.Sprintf(`{"text":%q}`, strings.Repeat("a", 4<<20-1000))
		for i := range 4 {
			p.send(call(p.version, i, "large", arguments))
		}
		p.silent()
		p.expectError(call(p.version, 4, "large", arguments), mcp.CodeInternal, "4")
		close(g.open)
		for range 4 {
			p.receive()
		}
		synctest.Wait()
		p.ask(call(p.version, 5, "large", arguments))
	})
}

// A tool that has proved quick runs where the pipe is read. When it is slow for
// once, reading goes on elsewhere.
func TestQuickToolTurnsSlow(t *testing.T) {
	for _, open := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		inBubble(t, nil, func(t *testing.T, s *mcpserver.Server, p *peer, _ *gate) {
			p.open(open)
			gates := make(chan chan struct{}, 10)
			err := mcpserver.AddFunc(s, &mcp.Tool{Name: "moody"}, func(_ context.Context, in echoIn) (string, error) {
				switch in.Text {
				case "slow":
					release := make(chan struct{})
					gates <- release
					<-release
				case "panic":
					panic(in.Text)
				}
				return in.Text, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			for len(p.lines) > 0 {
				<-p.lines // that the list has changed
			}
			for round := range 3 {
				for i := range 5 {
					p.ask(call(open, i, "moody", `{"text":"quick"}`))
				}
				p.expectError(call(open, 5, "moody", `{"text":"panic"}`), mcp.CodeInternal, "5")
				start := time.Now()
				p.send(call(open, 10, "moody", `{"text":"slow"}`))
				release := <-gates
				p.ask(call(open, 11, "echo", `{"text":"meanwhile"}`))
				if held := time.Since(start); held > 3*time.Millisecond || (round == 0 && held == 0) {
					t.Errorf("a slow tool held up another call for %v, want 1 to 3 ms", held)
				}
				p.send(call(open, 12, "moody", `{"text":"quick"}`)) // it has lost its place
				p.receive()
				close(release)
				if got := p.receive(); !strings.Contains(got, `"id":10`) || !strings.Contains(got, "slow") {
					t.Errorf("the slow call: got %s", got)
				}
			}
		})
	}
}

func TestBatch(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, p *peer, g *gate) {
		v := mcp.V2025_03_26
		p.initialize(v)
		batch := func(lines ...string) string { return "[" + strings.Join(lines, ",") + "]" }
		ids := func(answer string) (out []string) {
			t.Helper()
			var all []struct {
				ID    json.RawMessage
				Error *mcp.Error
			}
			if err := json.Unmarshal([]byte(answer), &all); err != nil {
				t.Fatalf("got %s: %v", answer, err)
			}
			for _, m := range all {
				id := string(m.ID)
				if m.Error != nil {
					id += fmt.Sprint(m.Error.Code)
				}
				out = append(out, id)
			}
			slices.Sort(out)
			return out
		}
		answer := p.ask(batch( // BASE-20, BASE-22
			request(v, 1, "ping", "{}"), call(v, 2, "echo", `{"text":"a"}`), `{"jsonrpc":"2.0","method":"notifications/x"}`,
			`{"jsonrpc":"2.0","id":3}`, `7`, call(v, 4, "nothing", `{}`), call(v, 5, "fail", `{}`),
			`{"jsonrpc":"2.0","id":6,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, // BASE-21
		))
		want := []string{"-32600", "1", "2", "3-32600", "4-32602", "5", "6-32600"}
		if got := ids(answer); !slices.Equal(got, want) {
			t.Errorf("ids: got %v, want %v", got, want)
		}
		p.expectError(`[]`, mcp.CodeInvalidRequest, "")
		p.expectError(`[{"jsonrpc":"2.0","id":1,"method":"ping"},`, mcp.CodeParse, "")
		p.expectError(batch(slices.Repeat([]string{request(v, 1, "ping", "{}")}, 101)...), mcp.CodeInvalidRequest, "")
		p.send(batch(`{"jsonrpc":"2.0","method":"notifications/x"}`)) // no answer to nothing but notifications
		p.silent()
		// A cancelled call is left out; the others are answered.
		p.send(batch(call(v, 30, "block", `{}`), request(v, 31, "ping", "{}")))
		<-g.begun
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":30}}`)
		if got := ids(p.receive()); !slices.Equal(got, []string{"31"}) {
			t.Errorf("with a cancelled call: got %v", got)
		}
	})
	for _, v := range []mcp.Version{mcp.V2024_11_05, mcp.V2025_06_18, mcp.V2025_11_25} { // BASE-23
		inBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, p *peer, _ *gate) {
			p.initialize(v)
			p.expectError(`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, mcp.CodeInvalidRequest, "")
		})
	}
}

// ROB-2, SECA-8, SECA-9: whatever comes, the next good line is answered.
func TestHostileInput(t *testing.T) {
	const good = `{"jsonrpc":"2.0","id":"good","method":"ping"}`
	tests := []struct {
		name, line string
		code       int64 // 0: no answer
		id         string
	}{
		{"garbage", "hello", mcp.CodeParse, ""}, // BASE-16
		{"nul bytes", "\x00\x00\x00", mcp.CodeParse, ""},
		{"blank", " \t ", 0, ""}, // STDIO-02
		{"cut off", `{"jsonrpc":"2.0","id":1,"method":"pi`, mcp.CodeParse, "1"},
		{"two values", `{"jsonrpc":"2.0","id":1,"method":"ping"} {}`, mcp.CodeParse, "1"},
		{"duplicate keys", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}`, mcp.CodeParse, "1"}, // ROB-4
		{"duplicate keys below", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a","text":"b"}}}`, mcp.CodeParse, "1"},
		{"deep", strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), mcp.CodeInvalidRequest, ""}, // an array: no batches here
		{"deep params", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}}`, mcp.CodeParse, "1"},
		{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\xff\"}", mcp.CodeParse, "1"},
		{"nul in a string", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\x00ng\"}", mcp.CodeParse, "1"},
		{"id null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, mcp.CodeInvalidRequest, ""}, // BASE-02
		{"id fraction", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, mcp.CodeInvalidRequest, ""},
		{"id object", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, mcp.CodeInvalidRequest, ""},
		{"id boolean", `{"jsonrpc":"2.0","id":true,"method":"ping"}`, mcp.CodeInvalidRequest, ""},
		{"no version", `{"id":1,"method":"ping"}`, mcp.CodeInvalidRequest, "1"},                                     // BASE-01
		{"wrong case", `{"jsonrpc":"2.0","ID":1,"method":"ping"}`, 0, ""},                                           // then it is a notification
		{"positional params", `{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}`, mcp.CodeInvalidRequest, "1"}, // BASE-03
		{"method number", `{"jsonrpc":"2.0","id":1,"method":7}`, mcp.CodeInvalidRequest, "1"},
		{"request and response", `{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`, mcp.CodeInvalidRequest, "1"},
		{"a bad notification", `{"jsonrpc":"1.0","method":"ping"}`, 0, ""}, // BASE-09
		{"a bad response", `{"jsonrpc":"2.0","id":1,"result":7}`, 0, ""},
		{"an object", `{}`, mcp.CodeInvalidRequest, ""},
		{"a number", `7`, mcp.CodeInvalidRequest, ""},
		{"5 MiB", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"` + strings.Repeat("a", 5<<20) + `"}}`, mcp.CodeInvalidRequest, "1"}, // WIRE-04
		{"5 MiB, id last", `{"method":"ping","params":{"a":"` + strings.Repeat("a", 5<<20) + `"},"jsonrpc":"2.0","id":"z"}`, mcp.CodeInvalidRequest, `"z"`},
		{"5 MiB of a notification", `{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"` + strings.Repeat("a", 5<<20) + `"}}`, 0, ""},
		{"5 MiB of garbage", strings.Repeat("\x01", 5<<20), mcp.CodeInvalidRequest, ""},
	}
	inBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, p *peer, _ *gate) {
		p.initialize(mcp.V2025_11_25)
		for _, tt := range tests {
			if tt.code != 0 {
				p.expectError(tt.line, tt.code, tt.id)
			} else {
				p.send(tt.line)
			}
			if got := p.ask(good); got != `{"jsonrpc":"2.0","id":"good","result":{}}` {
				t.Errorf("%s: then got %s", tt.name, clip(got))
			}
		}
	})
}

// An error of AddTool is Serve's, but not once clients are served. Absent arguments may be
// written as null: there are clients whose nil map is that (ROB-1).
func TestAddWhileServing(t *testing.T) {
	eachVersion(t, nil, func(t *testing.T, v mcp.Version, p *peer, g *gate) {
		p.ask(request(v, 1, "tools/list", "{}"))
		got := p.ask(request(v, 2, "tools/call", `{"name":"who","arguments":null}`))
		if !strings.Contains(got, "who") || strings.Contains(got, `"error"`) {
			t.Errorf("null arguments: got %s", clip(got))
		}
	})
	inBubble(t, nil, func(t *testing.T, s *mcpserver.Server, p *peer, _ *gate) {
		p.initialize(mcp.LatestLegacy)
		err := mcpserver.AddFunc(s, &mcp.Tool{Name: "echo"}, func(context.Context, struct{}) (string, error) { return "", nil })
		if !errors.Is(err, mcpserver.ErrToolExists) {
			t.Errorf("AddFunc: got %v, want ErrToolExists", err)
		}
		serve(t, s).initialize(mcp.LatestLegacy)
	})
}
