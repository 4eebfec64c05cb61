package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/pipe"
)

// by returns options with which every process runs program.
func by(t *testing.T, program func(*fakeProcess) string) *Options {
	t.Helper()
	return &Options{System: newSystem(t), start: func(*Server) (pipe.Process, error) { return start(program), nil }}
}

// handshakeOf is the answer to initialize.
func handshakeOf(id mcp.ID) string {
	return `{"jsonrpc":"2.0","id":` + id.String() + `,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"x","version":"1"}}}`
}

// serving is a legacy server; answer takes what it does not know, "" is no answer.
func serving(answer func(p *fakeProcess, m *mcp.Message) string) func(*fakeProcess) string {
	return func(p *fakeProcess) string {
		for {
			line, ok := p.read()
			if !ok {
				return "exit status 0"
			}
			var m mcp.Message
			if err := mcp.Scan([]byte(line), &m); err != nil {
				return err.Error()
			}
			say := ""
			switch m.Method {
			case mcp.MethodDiscover:
				say = unknownMethod(m.ID.String())
			case mcp.MethodInitialize:
				say = handshakeOf(m.ID)
			default:
				say = answer(p, &m)
			}
			if say == "!exit" {
				return "exit status 1"
			}
			if say != "" {
				p.say(say)
			}
		}
	}
}

func resultOf(m *mcp.Message, result string) string {
	return `{"jsonrpc":"2.0","id":` + m.ID.String() + `,"result":` + result + `}`
}

// ROB-8: a server that always dies is started fewer than ten times in 3 s,
// wherever it dies and however much it is wanted.
func TestRestartsAreFew(t *testing.T) {
	const nowhere = "nowhere"
	tests := map[string]func(*fakeProcess) string{
		"at once": func(*fakeProcess) string { return "exit status 1" },
		"of the first line": func(p *fakeProcess) string {
			p.read()
			return "exit status 1"
		},
		"of the handshake": func(p *fakeProcess) string {
			if line, _ := p.read(); strings.Contains(line, mcp.MethodDiscover) {
				p.say(unknownMethod("1"))
				p.read()
			}
			return "exit status 1"
		},
		"when it is ready": serving(func(*fakeProcess, *mcp.Message) string { return "!exit" }),
	}
	for name, program := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var starts atomic.Int32
				opts := by(t, func(p *fakeProcess) string { starts.Add(1); return program(p) })
				opts.Lazy = true
				c, err := Dial(t.Context(), Command("x"), opts)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				for ctx.Err() == nil {
					_, _ = c.CallTool(ctx, nowhere, nil, nil)
					time.Sleep(10 * time.Millisecond)
				}
				if n := starts.Load(); n < 3 || n >= 10 {
					t.Errorf("%d starts in 3 s, want some and fewer than 10", n)
				}
				closeIn(t, c, time.Minute)
			})
		})
	}
}

// LIFE-08, CANC-04, LIFE-07, LIFE-14: a server that does not answer initialize is
// told nothing more; its process ends with the time limit.
func TestSilentHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var heard []string
		ended := 0
		opts := by(t, func(p *fakeProcess) string {
			for {
				line, ok := p.read()
				mu.Lock()
				if !ok {
					ended++
					mu.Unlock()
					return "exit status 0"
				}
				var m mcp.Message
				_ = mcp.Scan([]byte(line), &m)
				heard = append(heard, m.Method)
				mu.Unlock()
			}
		})
		s := Command("x")
		s.ConnectTimeout = 20 * time.Second
		if _, err := Dial(t.Context(), s, opts); !errors.Is(err, conn.ErrConnectTimeout) {
			t.Errorf("Dial: got %v, want %v", err, conn.ErrConnectTimeout)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if want := []string{mcp.MethodDiscover, mcp.MethodInitialize}; !slices.Equal(heard, want) || ended != 1 {
			t.Errorf("the server heard %v and %d of it ended, want %v and 1", heard, ended, want)
		}
	})
}

// PING-01, LIFE-07: a ping is answered in every state; what else a server asks
// before the handshake is refused, and does no harm (BASE-14).
func TestPingedBeforeTheHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan string, 10)
		c, err := Dial(t.Context(), Command("x"), by(t, func(p *fakeProcess) string {
			for {
				line, ok := p.read()
				if !ok {
					return "exit status 0"
				}
				var m mcp.Message
				_ = mcp.Scan([]byte(line), &m)
				switch m.Method {
				case mcp.MethodDiscover, mcp.MethodInitialize:
					// The ids are also ours: each side has its own (BASE-04).
					p.say(`{"jsonrpc":"2.0","id":` + m.ID.String() + `,"method":"ping"}`)
					p.say(`{"jsonrpc":"2.0","id":"a\u0062","method":"sampling/createMessage","params":{}}`)
					for range 2 {
						line, _ := p.read()
						answers <- line
					}
					if m.Method == mcp.MethodDiscover {
						p.say(unknownMethod(m.ID.String()))
					} else {
						p.say(handshakeOf(m.ID))
					}
				}
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"1", "2"} {
			if got, want := <-answers, `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`; got != want {
				t.Errorf("ping: got %s, want %s", got, want)
			}
			if got := <-answers; !strings.Contains(got, `"id":"ab"`) || !strings.Contains(got, "-32601") {
				t.Errorf("a request that we do not know: got %s", got)
			}
		}
		closeIn(t, c, time.Minute)
	})
}

// SECA-13, BASE-15, CANC-06, BASE-08: answers that nobody waits for, that come twice or
// belong to no request, and a cancelled call that is answered after all.
func TestUnsolicitedAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := Dial(t.Context(), Command("x"), by(t, serving(func(p *fakeProcess, m *mcp.Message) string {
			if m.Kind != mcp.KindRequest {
				return ""
			}
			for _, odd := range []string{
				`{"jsonrpc":"2.0","id":77,"result":{"content":[]}}`,
				`{"jsonrpc":"2.0","id":"` + m.ID.String() + `","result":{"content":[]}}`,
				`{"jsonrpc":"2.0","id":-` + m.ID.String() + `,"error":{"code":1,"message":"x"}}`,
				`{"jsonrpc":"2.0","id":99999999999999999999999999,"result":{}}`,
				`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}`,
				`{"jsonrpc":"2.0","error":{"code":-32600,"message":"what?"}}`,
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"77","progress":1}}`,
				`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`,
			} {
				p.say(odd)
			}
			name, _ := m.NameString()
			if name == "slow" {
				time.Sleep(2 * time.Second)
			}
			good := resultOf(m, `{"content":[{"type":"text","text":"`+name+`"}],"extra":{"kept":1}}`)
			p.say(good)
			return good
		})))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.CallTool(t.Context(), "slow", nil, &CallOptions{Idle: time.Second}); !errors.Is(err, call.ErrTimeout) {
			t.Errorf("the slow call: got %v", err)
		}
		res, err := c.CallTool(t.Context(), "b", nil, nil)
		if err != nil || res.Content.Text() != "b" || res.Extra["extra"] == nil { // BASE-13
			t.Errorf("the next call: got %+v, %v", res, err)
		}
		synctest.Wait()
		if late := c.conn.Stats().Late; late != 2*4+3 { // and one of each call's answers, and the slow one's
			t.Errorf("%d answers were dropped, want 11", late)
		}
		closeIn(t, c, time.Minute)
	})
}

// PAGE-02, PAGE-04: a cursor is sent back as it came, and pages are of any size.
func TestCursorsAreOpaque(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cursors := []string{"", " ", "a b\n\t\"\\ü\u2028", "null", strings.Repeat("x", 10_000)}
		var got []string
		c, err := Dial(t.Context(), Command("x"), by(t, serving(func(_ *fakeProcess, m *mcp.Message) string {
			if m.Method != mcp.MethodListTools {
				return ""
			}
			var p mcp.ListParams
			if m.DecodeParams(&p) == nil && p.Cursor != nil {
				got = append(got, *p.Cursor)
			}
			next := "null" // PAGE-03: also the end
			if len(got) < len(cursors) {
				raw, _ := json.Marshal(cursors[len(got)])
				next = string(raw)
			}
			tool := fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, len(got))
			if len(got) == 2 {
				tool = "" // an empty page is not the end
			}
			return resultOf(m, `{"tools":[`+tool+`],"nextCursor":`+next+`}`)
		})))
		if err != nil {
			t.Fatal(err)
		}
		tools, err := c.ListTools(t.Context())
		if err != nil || len(tools) != len(cursors) {
			t.Errorf("ListTools: got %d tools, %v, want %d", len(tools), err, len(cursors))
		}
		if !slices.Equal(got, cursors) {
			t.Errorf("cursors: got %q, want %q", got, cursors)
		}
		closeIn(t, c, time.Minute)
	})
}

// ROB-3: neither a list without end nor log messages that nobody takes fill the
// memory.
func TestFloodsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := `"` + strings.Repeat("x", 3<<20) + `"`
		pages := 0
		var logged atomic.Int64
		opts := by(t, serving(func(p *fakeProcess, m *mcp.Message) string {
			switch m.Method {
			case mcp.MethodListTools:
				pages++
				return resultOf(m, fmt.Sprintf(`{"tools":[{"name":"t%d","description":%s,"inputSchema":{"type":"object"}}],"nextCursor":"c%d"}`, pages, text, pages))
			case mcp.MethodCallTool:
				for range 10 {
					p.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%s}}`, text))
				}
				return resultOf(m, `{"content":[]}`)
			}
			return ""
		}))
		busy := make(chan struct{})
		opts.OnLog = func(_ string, p mcp.LogParams) { <-busy; logged.Add(int64(len(p.Data))) }
		c, err := Dial(t.Context(), Command("x"), opts)
		if err != nil {
			t.Fatal(err)
		}
		tools, err := c.ListTools(t.Context())
		if err != nil || len(tools) == 0 || len(tools) > 5 {
			t.Errorf("ListTools: got %d tools of 3 MiB, %v, want 16 MiB at most", len(tools), err)
		}
		if _, err := c.CallTool(t.Context(), "flood", nil, nil); err != nil {
			t.Error(err)
		}
		close(busy)
		synctest.Wait()
		if n := logged.Load(); n == 0 || n > 12<<20 {
			t.Errorf("%d bytes of log messages waited, want some, and 8 MiB and one at most", n)
		}
		closeIn(t, c, time.Minute)
	})
}

// STDIO-04: what a server writes to stderr is no failure, however much it is.
// META-07: nor does what it calls itself matter.
func TestLoudServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := Dial(t.Context(), Command("x"), by(t, serving(func(p *fakeProcess, m *mcp.Message) string {
			if m.Kind != mcp.KindRequest {
				return ""
			}
			for range 100 {
				_, _ = io.WriteString(p.errW, strings.Repeat("ERROR fatal: ", 1000)+"\n")
			}
			return resultOf(m, `{"content":[]}`)
		})))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := c.CallTool(t.Context(), "a", nil, nil); err != nil {
				t.Error(err)
			}
		}
		if n := len(c.Stderr()); n == 0 || n > 64<<10 {
			t.Errorf("kept %d bytes of stderr", n)
		}
		if s := c.Status(); s.Generation != 1 || s.Err != nil || c.Status().Info.Name != "x" {
			t.Errorf("status: got %+v, want the first process, and our own name for it", s)
		}
		closeIn(t, c, time.Minute)
	})
}

// ROB-2, STDIO-22, STDIO-23: a server that closes one of its pipes and lives on is
// ended and started again; the calls under way fail, the next one works.
func TestHalfOpenPipes(t *testing.T) {
	for name, close := range map[string]func(*fakeProcess){
		"stdin":  func(p *fakeProcess) { p.inR.Close() },
		"stdout": func(p *fakeProcess) { p.outW.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				half := false
				c, err := Dial(t.Context(), Command("x"), by(t, serving(func(p *fakeProcess, m *mcp.Message) string {
					if m.Method == mcp.MethodCallTool && !half {
						half = true
						close(p)
						<-p.over
					}
					if m.Method != mcp.MethodCallTool {
						return ""
					}
					return resultOf(m, `{"content":[]}`)
				})))
				if err != nil {
					t.Fatal(err)
				}
				if name == "stdin" { // nobody knows until something is written
					go func() { time.Sleep(time.Second); _, _ = c.CallTool(t.Context(), "b", nil, nil) }()
				}
				if _, err := c.CallTool(t.Context(), "a", nil, nil); !errors.Is(err, call.ErrConnectionLost) {
					t.Errorf("the call under way: got %v, want the connection lost", err)
				}
				if _, err := c.CallTool(t.Context(), "a", nil, nil); err != nil {
					t.Errorf("the next call: got %v", err)
				}
				if g := c.Status().Generation; g != 2 {
					t.Errorf("generation: got %d, want 2", g)
				}
				closeIn(t, c, time.Minute)
			})
		})
	}
}

// WIRE-01: a transport carries messages as they are, in both directions; STDIO-02:
// one a line; WIRE-03: on stdio too.
func TestStdioCarriesMessagesUnchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys, sink := newSystem(t), new(mailbox)
		opts := pipeOptions(sys, sink)
		opts.MaxMessage = DefaultMaxMessage
		l := pipe.NewStdio(start(func(p *fakeProcess) string {
			for {
				line, ok := p.read()
				if !ok {
					return "exit status 0"
				}
				p.say(line)
			}
		}), opts)
		want := []string{
			`{"jsonrpc":"2.0","id":1e2,"odd" : [1.0, null] , "method":"\u0061"}`, `{}`, `[{"a":1},{"a":1}]`,
			`{"a":1,"a":2}`, "{\"x\":\"\xff ü\u2028\"}", `{"x":"` + strings.Repeat("y", 1<<20) + `"}`,
		}
		for _, frame := range want {
			if err := l.Send(mcp.Outgoing{Frame: []byte(frame)}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if got, _ := sink.all(); !slices.Equal(got, want) {
			t.Errorf("got %.300q, want %.300q", got, want)
		}
		l.Close()
	})
}

// STDIO-07: calls share the pipe, and each gets its own answer in whatever order they come.
func TestAnswersInAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 20
		var asked []string
		c, err := Dial(t.Context(), Command("x"), by(t, serving(func(p *fakeProcess, m *mcp.Message) string {
			if m.Method != mcp.MethodCallTool {
				return ""
			}
			name, _ := m.NameString()
			asked = append(asked, resultOf(m, `{"content":[{"type":"text","text":"`+name+`"}]}`))
			if len(asked) == calls {
				for _, answer := range slices.Backward(asked) {
					p.say(answer)
				}
			}
			return ""
		})))
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i := range calls {
			all.Go(func() {
				name := fmt.Sprint("tool", i)
				if res, err := c.CallTool(t.Context(), name, nil, nil); err != nil || res.Content.Text() != name {
					t.Errorf("%s: got %+v, %v", name, res, err)
				}
			})
		}
		all.Wait()
		closeIn(t, c, time.Minute)
	})
}

// STDIO-25: consent that takes longer than an attempt starts nothing for it, and does
// not pile up attempts.
func TestLateConsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked, starts atomic.Int32
		opts := by(t, func(p *fakeProcess) string { starts.Add(1); return good(p) })
		answer := make(chan struct{})
		opts.Consent = func(context.Context, Server) error { asked.Add(1); <-answer; return nil }
		opts.Lazy = true
		s := Command("x")
		s.File, s.ConnectTimeout = "f.json", 10*time.Second
		c, err := Dial(t.Context(), s, opts)
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if err := c.conn.Connect(ctx); err == nil {
				t.Error("Connect: got no error before the consent")
			}
			cancel()
		}
		if asked.Load() != 1 || starts.Load() != 0 {
			t.Errorf("asked %d times, %d starts, want one question and no start", asked.Load(), starts.Load())
		}
		synctest.Wait() // the last attempt is over too
		close(answer)
		if err := c.Ping(t.Context()); err != nil {
			_ = c.Ping(t.Context()) // the attempt that was under way
		}
		synctest.Wait()
		if s := c.Status().State; s != conn.Ready || starts.Load() != 1 {
			t.Errorf("afterwards: %v and %d starts, want ready and 1", s, starts.Load())
		}
		closeIn(t, c, time.Minute)
	})
}

// Close does not wait for the reason of an end that is being found out.
func TestCloseWhileAServerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys, sink := newSystem(t), new(mailbox)
		p := start(func(p *fakeProcess) string { p.outW.Close(); p.untilEOF(); return "exit status 0" })
		l := pipe.NewStdio(p, pipeOptions(sys, sink))
		synctest.Wait() // its end was noticed, and it lives on
		begin := time.Now()
		l.Close()
		if took := time.Since(begin); took != 0 {
			t.Errorf("Close took %v", took)
		}
		time.Sleep(time.Minute)
		if _, lost := sink.all(); len(lost) != 1 {
			t.Errorf("Lost: got %v, want one", lost)
		}
	})
}
