package mcpserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	calls "github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// TOOL-13: the clients of a server whose tools do not change hear nothing, also when
// they were added a moment ago. LIFE-07: nor does one that is not initialized, even if
// it says so.
func TestNothingHasChanged(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *mcpserver.Server, p *peer, _ *gate) {
		p.initialize(mcp.V2025_11_25) // at the moment in which the tools were added
		hasty := serve(t, s)
		hasty.send(initialized)
		time.Sleep(time.Second)
		p.silent()
		late := serve(t, s)
		late.initialize(mcp.V2024_11_05)
		time.Sleep(time.Second)
		late.silent()
		hasty.ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		if err := mcpserver.AddFunc(s, &mcp.Tool{Name: "new"}, nothing); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		hasty.silent()
		for _, q := range []*peer{p, late} {
			if got := q.receive(); !strings.Contains(got, mcp.NotificationToolsChanged) {
				t.Errorf("after a change: got %s", got)
			}
		}
	})
}

// CAP-05, MOD-06: what one modern request says of its sender holds for no other.
func TestModernRequestsStandAlone(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, p *peer, _ *gate) {
		who := func(id int, caps, more, want string) {
			t.Helper()
			line := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"who","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s%s}}}`, id, caps, more)
			var got struct{ Result mcp.CallToolResult }
			if err := json.Unmarshal([]byte(p.ask(line)), &got); err != nil {
				t.Fatal(err)
			}
			if text := got.Result.Content.Text(); !strings.Contains(text, want) {
				t.Errorf("request %d: got %s, want %s", id, text, want)
			}
		}
		who(1, `{"elicitation":{"form":{}}}`, `,"io.modelcontextprotocol/clientInfo":{"name":"first","version":"1"}`, `"client":"first","form":true`)
		who(2, `{}`, ``, `"client":"","form":false`)
		p.initialize(mcp.V2025_11_25) // declares elicitation
		p.version, p.check = mcp.V2026_07_28, nil
		who(3, `{}`, ``, `"client":"","form":false`)
		line := strings.Replace(request(mcp.V2026_07_28, 4, "tools/list", "{}"), `"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}},`, "", 1)
		p.expectError(line, mcp.CodeInvalidParams, "4") // MOD-01, however often it was said before
	})
}

// BASE-02, BASE-13: every id comes back as it was, and unknown members harm nowhere.
func TestIDsAndUnknownMembers(t *testing.T) {
	eachVersion(t, nil, func(t *testing.T, v mcp.Version, p *peer, _ *gate) {
		p.check = nil // the official schemas know no integers beyond 2^53
		for id, want := range map[string]string{
			`""`: `""`, `" "`: `" "`, `"a\"\\\u0000\n"`: `"a\"\\\u0000\n"`, `"\u0061"`: `"a"`, `"ü\ud83d\ude00"`: `"ü😀"`,
			`0`: `0`, `-1`: `-1`, `-9223372036854775809`: `-9223372036854775809`,
			`123456789012345678901234567890`: `123456789012345678901234567890`,
		} {
			line := strings.Replace(call(v, 0, "fail", "{}"), `"id":0`, `"extra":[{}],"id":`+id, 1)
			line = strings.Replace(line, `"params":{`, `"params":{"unknown":{"a":null},"task":7,"inputResponses":{},`, 1)
			if got := p.ask(line); !strings.Contains(got, `"id":`+want+`,"result"`) {
				t.Errorf("id %s: got %s", id, got)
			}
		}
		for _, id := range []string{`1.0`, `1e3`, `01`, `"\ud800"`, `[1]`, `false`} {
			line := strings.Replace(call(v, 0, "fail", "{}"), `"id":0`, `"id":`+id, 1)
			if got := p.ask(line); !strings.Contains(got, `"error"`) || strings.Contains(got, `"id"`) {
				t.Errorf("id %s: got %s, want an error without id", id, got)
			}
		}
	})
}

// CANC-04, CANC-06, CANC-07, CANC-14: cancels that can not hold do no harm: of initialize, of what is
// over, answered where it is read, not asked, or said in a wrong way.
func TestPointlessCancels(t *testing.T) {
	eachVersion(t, nil, func(t *testing.T, v mcp.Version, p *peer, g *gate) {
		p.ask(call(v, 1, "fail", "{}"))
		p.send(call(v, 2, "block", "{}"))
		ctx := <-g.begun
		for _, params := range []string{
			`{"requestId":"init"}`, `{"requestId":1}`, `{"requestId":"2"}`, `{"requestId":2.0}`, `{"requestId":null}`,
			`{"reason":"x"}`, `{"requestId":2,"reason":7}`, `[2]`, `null`, `{}`, `7`,
		} {
			p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":` + params + `}`)
		}
		p.send(request(v, 3, mcp.NotificationCancelled, `{"requestId":2}`))
		if got := p.receive(); !strings.Contains(got, `"id":3,"error"`) {
			t.Errorf("a cancel with an id: got %s", got)
		}
		if context.Cause(ctx) != nil {
			t.Errorf("the call was cancelled: %v", context.Cause(ctx))
		}
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"more":1}}`)
		<-ctx.Done()
		p.silent()
	})
}

// PROG-01, PROG-03, PROG-04: tokens of both types come back as they were, others are as
// none; what does not increase is not sent, nor anything after the answer.
func TestProgressTokens(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *mcpserver.Server, p *peer, _ *gate) {
		var after *mcpserver.ToolRequest
		err := mcpserver.AddTool(s, &mcp.Tool{Name: "odd"}, func(_ context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			for _, n := range []float64{1, 1, 0.5, 1.5, -1, 1.5} {
				req.Progress(n, 0, "")
			}
			after = req
			return "done", nil
		})
		if err != nil {
			t.Fatal(err)
		}
		p.modern()
		for token, want := range map[string]string{
			`"a\u0062"`: `"ab"`, `0`: `0`, `""`: `""`, `12345678901234567890123`: `12345678901234567890123`,
			`1.5`: "", `null`: "", `{}`: "", `true`: "",
		} {
			p.check = nil
			p.send(request(p.version, 1, "tools/call", `{"name":"odd","arguments":{},"_meta":{"progressToken":`+token+`}}`))
			for _, n := range []string{"1", "1.5"} {
				if want == "" {
					break
				}
				if got := p.receive(); got != `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+want+`,"progress":`+n+`}}` {
					t.Errorf("token %s: got %s", token, got)
				}
			}
			if got := p.receive(); !strings.Contains(got, "done") {
				t.Errorf("token %s: got %s, want the answer", token, got)
			}
			after.Progress(9, 0, "")
			after.Log(mcp.LogEmergency, "", "x")
			p.silent()
		}
	})
}

// BASE-20 to BASE-23: odd arrays of a session of 2025-03-26, and one before it.
func TestOddBatches(t *testing.T) {
	const ping, note = `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","method":"x"}`
	inBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, p *peer, _ *gate) {
		p.expectError(`[`+ping+`]`, mcp.CodeInvalidRequest, "") // BASE-21, BASE-23: before initialize
		p.expectError(`[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}]`, mcp.CodeInvalidRequest, "")
		p.expectError(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, mcp.CodeInvalidRequest, "2") // it was not carried out
		p.initialize(mcp.V2025_03_26)
		p.check = nil
		for line, want := range map[string]string{
			` [` + ping + `] `:            `[{"jsonrpc":"2.0","id":1,"result":{}}]`,
			`[` + ping + `,` + ping + `]`: `[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":1,"result":{}}]`,
			`[` + note + `,` + note + `]`: "",
			`[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","error":{"code":1,"message":""}}]`: "",
		} {
			p.send(line)
			if want == "" {
				p.silent()
			} else if got := p.receive(); got != want {
				t.Errorf("%s: got %s, want %s", line, got, want)
			}
		}
		for _, line := range []string{`[[` + ping + `]]`, `[[[[]]],null,"x",` + note + `]`} { // each a single bad message
			var got []struct {
				ID    json.RawMessage
				Error *mcp.Error
			}
			answer := p.ask(line)
			if err := json.Unmarshal([]byte(answer), &got); err != nil {
				t.Fatalf("%s: got %s", line, answer)
			}
			for _, one := range got {
				if one.ID != nil || one.Error == nil || one.Error.Code != mcp.CodeInvalidRequest {
					t.Errorf("%s: got %s", line, answer)
				}
			}
		}
		for _, line := range []string{`[]`, `[` + ping, `[` + ping + `]]`, `[` + ping + `,]`} {
			if got := p.ask(line); !strings.HasPrefix(got, `{"jsonrpc":"2.0","error"`) {
				t.Errorf("%s: got %s, want one error", line, got)
			}
		}
	})
}

// LIFE-01, LIFE-10, LIFE-14, BASE-03: an initialize that can not be read opens nothing, and leaves
// the way open for a good one.
func TestBadInitialize(t *testing.T) {
	const rest = `"capabilities":{},"clientInfo":{"name":"c","version":"1"}`
	inBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, p *peer, _ *gate) {
		for params, code := range map[string]int64{
			``:                         mcp.CodeInvalidParams,
			`,"params":null`:           mcp.CodeInvalidRequest,
			`,"params":[]`:             mcp.CodeInvalidRequest,
			`,"params":{}`:             mcp.CodeInvalidParams,
			`,"params":{` + rest + `}`: mcp.CodeInvalidParams,
			`,"params":{"protocolVersion":20251125,` + rest + `}`:          mcp.CodeInvalidParams,
			`,"params":{"protocolVersion":"2025-11-25","capabilities":[]}`: mcp.CodeInvalidParams,
		} {
			if strings.Count(params, "{") != strings.Count(params, "}") {
				params += "}"
			}
			p.expectError(`{"jsonrpc":"2.0","id":1,"method":"initialize"`+params+`}`, code, "1")
		}
		p.send(`{"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":"2025-11-25",` + rest + `}}`) // a notification
		p.send(initialized)
		p.expectError(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, mcp.CodeInvalidRequest, "2")
		if got := p.ask(`{"jsonrpc":"2.0","id":3,"method":"initialize","more":1,"params":{"more":1,"protocolVersion":"2025-11-25",` + rest + `}}`); !strings.Contains(got, `"result"`) {
			t.Errorf("a good one: got %s", got)
		}
		p.expect(`{"jsonrpc":"2.0","id":4,"method":"ping"}`, `{"jsonrpc":"2.0","id":4,"result":{}}`) // PING-01: before initialized too
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
		p.send(initialized)
		p.send(initialized)
		p.silent()
	})
}

// BASE-17: a handler can not make us say what is not ours to say, in 2026-07-28.
func TestReservedCodes(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *mcpserver.Server, p *peer, _ *gate) {
		p.modern()
		for code, want := range map[int64]int64{
			mcp.CodeResourceNotFound: mcp.CodeInvalidParams, mcp.CodeURLElicitationRequired: mcp.CodeInternal,
			-32050: mcp.CodeInternal, -32023: mcp.CodeInternal, -32099: mcp.CodeInternal,
			-32100: -32100, -31999: -31999, 7: 7,
		} {
			name := fmt.Sprintf("code%d", code)
			err := mcpserver.AddFunc(s, &mcp.Tool{Name: name}, func(context.Context, struct{}) (string, error) { return "", mcp.Errorf(code, "no") })
			if err != nil {
				t.Fatal(err)
			}
			p.expectError(call(p.version, 1, name, "{}"), want, "1")
		}
	})
}

// TOOL-01, LOG-01, CAP-08, CAP-07: what we offer is declared, and what is declared
// answers, also without a tool. BASE-19: errors are one short sentence.
func TestDeclared(t *testing.T) {
	for _, v := range mcp.Versions() {
		inBubble(t, nil, func(t *testing.T, s *mcpserver.Server, p *peer, _ *gate) {
			s.RemoveTools("block", "echo", "fail", "hang", "log", "panic", "refuse", "steps", "who")
			var got struct {
				Result struct{ Capabilities mcp.ServerCapabilities }
			}
			opening := request(v, 1, "server/discover", "{}")
			if v.Era() == mcp.EraLegacy {
				opening = fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, v)
			}
			if err := json.Unmarshal([]byte(p.ask(opening)), &got); err != nil || got.Result.Capabilities.Tools == nil || got.Result.Capabilities.Logging == nil {
				t.Errorf("%s: got %+v, %v, want tools and logging", v, got, err)
			}
			if answer := p.ask(request(v, 2, "tools/list", "{}")); !strings.Contains(answer, `"tools":[]`) {
				t.Errorf("%s: the list: got %s", v, answer)
			}
			for _, method := range []string{"resources/list", "prompts/list", "completion/complete", "tasks/list", "roots/list", strings.Repeat("x", fewer(1<<20))} {
				e := p.expectError(request(v, 3, method, "{}"), mcp.CodeMethodNotFound, "3")
				if len(e.Message) > 200 || strings.ContainsAny(e.Message, "\n") {
					t.Errorf("%s: a message of %d bytes", v, len(e.Message))
				}
			}
			e := p.expectError(call(v, 4, strings.Repeat("x", fewer(1<<20)), "{}"), mcp.CodeInvalidParams, "4")
			if len(e.Message) > 200 {
				t.Errorf("%s: a message of %d bytes", v, len(e.Message))
			}
		})
	}
}

// CANC-10, STDIO-06, LIFE-12: the end of a server is said to nobody: the calls in
// flight are answered, and no notification is sent.
func TestShutdownIsQuiet(t *testing.T) {
	eachVersion(t, nil, func(t *testing.T, v mcp.Version, p *peer, g *gate) {
		for i := range 3 {
			p.send(call(v, i, "hang", "{}"))
			<-g.begun
		}
		p.in.Close()
		if err := <-p.ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
		for line := range p.lines {
			if !strings.Contains(line, `"error"`) || strings.Contains(line, `"method"`) {
				t.Errorf("the server said %s", line)
			}
		}
	})
}

// ROB-3, SECA-9: nor can a client fill the memory with the ids, tokens and _meta of its calls.
func TestLargeEnvelopesInFlight(t *testing.T) {
	tests := []struct {
		name string
		size int
		line func(i int, large string) string
		sent int
		most int // that may run: 16 MiB of what they keep
	}{
		{"id", 2<<20 - 1000, func(i int, large string) string {
			return request(mcp.V2026_07_28, fmt.Sprint(i, large), "tools/call", `{"name":"hang","arguments":{}}`)
		}, 10, 8},
		{"token and the _meta it is in", 250 << 10, func(i int, large string) string {
			return request(mcp.V2026_07_28, i, "tools/call", fmt.Sprintf(`{"name":"hang","arguments":{},"_meta":{"progressToken":"%d%s"}}`, i, large))
		}, 25, 17},
		{"meta", 250 << 10, func(i int, large string) string {
			return request(mcp.V2026_07_28, i, "tools/call", fmt.Sprintf(`{"name":"hang","arguments":{},"_meta":{"com.example/x":"%d%s"}}`, i, large))
		}, 25, 22},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, p *peer, g *gate) {
				large := strings.Repeat("a", tt.size)
				for i := range tt.sent {
					p.send(tt.line(i, large))
					synctest.Wait()
				}
				if n := len(g.begun); n < 1 || n > tt.most || n+len(p.lines) != tt.sent {
					t.Errorf("%d calls run and %d were refused, want at most %d of %d to run", n, len(p.lines), tt.most, tt.sent)
				}
			})
		})
	}
}

// ROB-3: nor with calls of a tool that has proved quick before.
func TestLargeCallsOfAQuickTool(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *mcpserver.Server, p *peer, g *gate) {
		p.modern()
		err := mcpserver.AddFunc(s, &mcp.Tool{Name: "moody"}, func(ctx context.Context, in echoIn) (string, error) {
			if in.N > 0 {
				note(g.begun, ctx)
				<-g.open
			}
			return "ok", nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			p.ask(call(p.version, i, "moody", `{"text":""}`))
		}
		large := fmt.Sprintf(`{"n":1,"text":%q}`, strings.Repeat("a", 4<<20-1000))
		for i := range 6 {
			p.send(call(p.version, i, "moody", large))
			synctest.Wait()
		}
		if n := len(g.begun); n != 4 || len(p.lines) != 2 {
			t.Errorf("%d calls run and %d were refused, want 4 and 2", n, len(p.lines))
		}
	})
}

// A message too long for the link, and one for which there is no room, are refused
// as such: the connection goes on.
func TestLinkRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, nil)
		to := &stuckSink{open: make(chan struct{})}
		link, err := s.Connect(to)
		if err != nil {
			t.Fatal(err)
		}
		if err := link.Send(mcp.Outgoing{Frame: make([]byte, 5<<20)}); !errors.Is(err, calls.ErrTooLong) {
			t.Errorf("Send of 5 MiB: got %v, want %v", err, calls.ErrTooLong)
		}
		for range 10 {
			if err = link.Send(mcp.Outgoing{Frame: []byte(`"` + strings.Repeat("x", 3<<20) + `"`)}); err != nil {
				break
			}
			synctest.Wait()
		}
		if !errors.Is(err, calls.ErrBusy) {
			t.Errorf("Send without end: got %v, want %v", err, calls.ErrBusy)
		}
		close(to.open)
		synctest.Wait()
		if err := link.Send(mcp.Outgoing{Frame: []byte(call(mcp.V2026_07_28, 1, "fail", "{}"))}); err != nil {
			t.Errorf("Send afterwards: %v", err)
		}
		link.Close()
	})
}

// stuckSink holds up the server until it is open, against the rules of a sink.
type stuckSink struct {
	sink
	open chan struct{}
}

func (s *stuckSink) Frame(frame []byte) { <-s.open; s.sink.Frame(frame) }

// Nothing is left of connections that have ended, in whatever way.
func TestConnectionsLeaveNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	s, g := newServer(t, nil)
	for i := range 60 {
		p := serve(t, s)
		p.modern()
		p.ask(call(p.version, 1, "fail", "{}"))
		if i%3 > 0 {
			p.send(call(p.version, 2, "block", "{}"))
			<-g.begun
			p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		}
		p.in.Close()
		if err := <-p.ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
		for range p.lines {
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > before+20; runtime.Gosched() { // idle workers
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

// WIRE-02: any stream of bytes will do, with the framing of stdio. CANC-12: why a call
// was cancelled is logged.
func TestServeASocket(t *testing.T) {
	var log logged
	s, g := newServer(t, &mcpserver.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ended := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = s.Serve(t.Context(), c, c)
		}
		ended <- err
	}()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(c)
	for i := range 3 {
		fmt.Fprintln(c, call(mcp.V2026_07_28, i, "fail", "{}"))
		if !lines.Scan() || !strings.Contains(lines.Text(), "on fire") {
			t.Fatalf("got %s, %v", lines.Text(), lines.Err())
		}
	}
	fmt.Fprintln(c, call(mcp.V2026_07_28, "x", "block", "{}"))
	<-g.begun
	fmt.Fprintln(c, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x","reason":"had enough"}}`)
	<-g.ended
	c.Close()
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if text := log.String(); !strings.Contains(text, "had enough") {
		t.Errorf("the log says %s", text)
	}
}

// logged is a buffer for many goroutines.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
