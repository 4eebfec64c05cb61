package clients

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/mcp"
)

func afterPatience() <-chan time.Time { return time.After(mcptest.Patience) }

// peer is a client that says whatever it is told to.
type peer struct {
	t testing.TB
	surface
	put   func(text string) error // sends one message; over HTTP it waits for what comes of it
	lines chan string             // what the server says
	last  atomic.Int64            // the newest id
	web   *web                    // nil but for HTTP
	busy  sync.WaitGroup          // posts that were begun
	deaf  sync.Mutex              // held while a pipe is not read
	hang  func()                  // hangs up
}

// said is a message of the server.
type said struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Error  *mcp.Error
	Result *struct {
		ResultType    string
		IsError       bool
		Content       []struct{ Text string }
		RequestState  string
		InputRequests map[string]json.RawMessage
		Task          struct{ TaskID string }
		TaskID        string
	}
	raw string
}

func (m said) text() string {
	switch {
	case m.Error != nil:
		return fmt.Sprintf("error %d %s", m.Error.Code, m.Error.Message)
	case m.Result == nil:
		return "no result"
	}
	out := ""
	if m.Result.IsError {
		out = "isError "
	}
	for _, c := range m.Result.Content {
		out += c.Text
	}
	return out
}

// code is that of an error, 0 of a result.
func (m said) code() int64 {
	if m.Error == nil {
		return 0
	}
	return m.Error.Code
}

// capabilities are those of all clients of these tests.
const capabilities = `{"elicitation":{"form":{}},"sampling":{},"roots":{"listChanged":true}}`

const modernCapabilities = `{"elicitation":{"form":{}},"sampling":{},"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

const meta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + modernCapabilities + `,"io.modelcontextprotocol/clientInfo":{"name":"peer","version":"1"}`

// meta are the members of _meta that a request has on the surface, with a comma behind.
func (s surface) meta() string {
	if s.modern() {
		return meta + ","
	}
	return ""
}

// request returns a request; params are members, without braces.
func (s surface) request(id, method, params string) string {
	if s.modern() {
		if params != "" {
			params += ","
		}
		params += `"_meta":{` + meta + `}`
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, id, method, params)
}

func (s surface) call(id, tool, arguments string) string {
	return s.request(id, mcp.MethodCallTool, fmt.Sprintf(`"name":%q,"arguments":%s`, tool, arguments))
}

// initialize opens a session of the surface's revision.
func (s surface) initialize() string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"peer","version":"1"}}}`, s.version, capabilities)
}

const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// connect returns a client of a server that has said hello. To is nil for stdio, which
// starts a server of its own. The user is what an HTTP client says it is.
func connect(t testing.TB, s surface, to *target, user string) *peer {
	t.Helper()
	p := &peer{t: t, surface: s, lines: make(chan string, 100_000), hang: func() {}}
	switch s.way {
	case "stdio":
		c := startChild(t, "stdio")
		p.pipe(c.in, c.out)
	case "memory":
		p.memory(to)
	case "sse":
		p.web = newWeb(t, to.url+"/sse", user)
		p.openSSE()
	default:
		p.web = newWeb(t, to.url+"/mcp", user)
		p.put = p.post
	}
	if s.modern() {
		return p
	}
	p.say(s.initialize())
	if m := p.await(`"init"`, mcptest.Patience); m.Error != nil {
		t.Fatalf("initialize: %s", m.raw)
	}
	p.say(initialized)
	return p
}

// pipe reads lines, and writes them.
func (p *peer) pipe(in io.WriteCloser, out io.Reader) {
	go func() {
		defer close(p.lines)
		r := bufio.NewReader(out)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			p.lines <- line
			p.hear()
		}
	}()
	p.put = func(text string) error { _, err := io.WriteString(in, text+"\n"); return err }
	p.hang = func() { in.Close() }
}

// hear waits while the pipe is not to be read.
func (p *peer) hear() {
	p.deaf.Lock()
	defer p.deaf.Unlock()
}

// memory is a link in this process.
func (p *peer) memory(to *target) {
	link, err := to.server.Connect(p)
	if err != nil {
		p.t.Fatal(err)
	}
	p.put = func(text string) error { return link.Send(mcp.Outgoing{Frame: []byte(text)}) }
	p.hang = func() { link.Close() }
	p.t.Cleanup(func() { link.Close() })
}

// Frame implements [mcp.Sink].
func (p *peer) Frame(frame []byte) {
	select {
	case p.lines <- string(frame):
	default:
	}
}

// Lost implements [mcp.Sink].
func (p *peer) Lost(error) {}

// say sends one message.
func (p *peer) say(text string) {
	p.t.Helper()
	if err := p.put(text); err != nil {
		p.t.Fatalf("sending %.100q: %v", text, err)
	}
}

// id returns a new one.
func (p *peer) id() string { return fmt.Sprint(p.last.Add(1)) }

// ask sends a request and waits for its answer.
func (p *peer) ask(method, params string) said {
	p.t.Helper()
	id := p.id()
	p.say(p.request(id, method, params))
	return p.await(id, mcptest.Patience)
}

// callTool calls a tool and waits for the outcome.
func (p *peer) callTool(tool, arguments string) said {
	p.t.Helper()
	return p.ask(mcp.MethodCallTool, fmt.Sprintf(`"name":%q,"arguments":%s`, tool, arguments))
}

// await waits for the answer of an id; what else comes is dropped.
func (p *peer) await(id string, bound time.Duration) said {
	p.t.Helper()
	over := time.After(bound)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("waiting for %s: the server has hung up", id)
			}
			if m, ok := read(line); ok && m.Method == "" && string(m.ID) == id {
				return m
			}
		case <-over:
			p.t.Fatalf("no answer to %s within %v", id, bound)
		}
	}
}

// heard waits for any message.
func (p *peer) heard(bound time.Duration) said {
	p.t.Helper()
	select {
	case line, ok := <-p.lines:
		if m, _ := read(line); ok { // an array is raw alone
			return m
		}
		p.t.Fatal("the server has hung up")
	case <-time.After(bound):
		p.t.Fatalf("nothing within %v", bound)
	}
	return said{}
}

func read(line string) (m said, ok bool) {
	m.raw = line
	return m, json.Unmarshal([]byte(line), &m) == nil
}

// good fails unless the next good request is answered in time (ROB-2).
func (p *peer) good(after string) {
	p.t.Helper()
	id := p.id()
	begin := time.Now()
	p.say(p.call(id, "echo", `{"text":"good"}`))
	m := p.await(id, mcptest.Patience)
	if took := time.Since(begin); m.text() != "good" || took > answerBound {
		p.t.Errorf("after %.120q: the next call got %q after %v, want it within %v", after, m.text(), took, answerBound)
	}
}
