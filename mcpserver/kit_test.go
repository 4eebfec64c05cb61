package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	mcpschema "github.com/troupe-dev/troupe/internal/mcptest/schema"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

type (
	echoIn struct {
		Text string `json:"text"`
		N    int    `json:"n,omitempty"`
	}
	echoOut struct {
		Text string `json:"text"`
	}
)

// gate is what the blocking tools of a test server wait for.
type gate struct {
	begun chan context.Context // a handler has begun
	open  chan struct{}        // closed to let those go that do not heed their context
	ended chan error           // the cause of a context that ended
}

// newServer returns a server with the tools of these tests, in a system that must
// be empty when the test ends.
func newServer(t testing.TB, opts *mcpserver.Options) (*mcpserver.Server, *gate) {
	t.Helper()
	sys, err := actors.NewSystem(nil)
	if err != nil {
		t.Fatal(err)
	}
	var o mcpserver.Options
	if opts != nil {
		o = *opts
	}
	o.System = sys
	s, err := mcpserver.New(mcp.Implementation{Name: "test", Version: "1"}, &o)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{begun: make(chan context.Context, 100), open: make(chan struct{}), ended: make(chan error, 100)}
	if err := addTools(s, g); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		select {
		case <-g.open:
		default:
			close(g.open)
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := sys.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if c := sys.Census(); c.Live() != 0 || len(c.Tasks) != 0 {
			t.Errorf("left over: %+v", c)
		}
		time.Sleep(50 * time.Millisecond) // in a bubble no time passes once the test is over: what it left asleep ends
	})
	return s, g
}

// fewer is n, or a tenth of it under the race detector, which makes all of it slow and
// needs no crowd to see a race.
func fewer(n int) int {
	if raceEnabled {
		return max(1, n/10)
	}
	return n
}

// note tells the test something, if it has room for it.
func note[T any](to chan T, value T) {
	select {
	case to <- value:
	default:
	}
}

func addTools(s *mcpserver.Server, g *gate) error {
	return errors.Join(
		mcpserver.AddFunc(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, in echoIn) (echoOut, error) {
			return echoOut{in.Text}, nil
		}),
		mcpserver.AddFunc(s, &mcp.Tool{Name: "fail"}, func(context.Context, struct{}) (string, error) {
			return "", errors.New("the printer is on fire")
		}),
		mcpserver.AddFunc(s, &mcp.Tool{Name: "refuse"}, func(context.Context, struct{}) (string, error) {
			return "", mcp.Errorf(1234, "not for you")
		}),
		mcpserver.AddFunc(s, &mcp.Tool{Name: "panic"}, func(context.Context, struct{}) (string, error) {
			panic("the password is hunter2")
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "steps"}, func(_ context.Context, req *mcpserver.ToolRequest, in echoIn) (string, error) {
			for i := range in.N {
				req.Progress(float64(i+1), float64(in.N), in.Text)
			}
			return "done", nil
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "log"}, func(_ context.Context, req *mcpserver.ToolRequest, in echoIn) (string, error) {
			req.Log(mcp.LogDebug, "test", "details")
			req.Log(mcp.LogWarning, "test", map[string]any{"text": in.Text})
			return "logged", nil
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "block"}, func(ctx context.Context, _ *mcpserver.ToolRequest, _ struct{}) (string, error) {
			note(g.begun, ctx)
			<-ctx.Done()
			note(g.ended, context.Cause(ctx))
			return "", context.Cause(ctx)
		}),
		mcpserver.AddFunc(s, &mcp.Tool{Name: "hang"}, func(ctx context.Context, _ struct{}) (string, error) {
			note(g.begun, ctx)
			<-g.open
			return "late", nil
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "who"}, func(_ context.Context, req *mcpserver.ToolRequest, _ json.RawMessage) (map[string]any, error) {
			c := req.Client()
			return map[string]any{
				"name": req.Name(), "arguments": req.Arguments(), "client": c.Info.Name, "version": c.Version,
				"form": c.Capabilities.ElicitForm(), "x": req.Meta()["com.example/x"],
			}, nil
		}),
	)
}

// peer is a client that speaks raw lines.
type peer struct {
	t     testing.TB
	in    io.WriteCloser
	lines chan string
	ended chan error // what Serve returned
	asked map[string]string

	check   *mcpschema.Schemas // nil where there are none
	version mcp.Version
}

// recallable is a connection that the server takes for a file of the system: its reads can be ended, and begun again.
type recallable struct{ net.Conn }

func (recallable) Fd() uintptr { panic("the server asks for a descriptor") }

// serve connects a peer through a pair of pipes.
func serve(t testing.TB, s *mcpserver.Server) *peer {
	t.Helper()
	return serveWith(t.Context(), t, s)
}

func serveWith(ctx context.Context, t testing.TB, s *mcpserver.Server) *peer {
	t.Helper()
	inR, inW := net.Pipe()
	outR, outW := io.Pipe()
	p := &peer{t: t, in: inW, lines: make(chan string, 10_000), ended: make(chan error, 1), asked: make(map[string]string)}
	go func() { p.ended <- s.Serve(ctx, recallable{inR}, outW) }()
	go func() {
		defer close(p.lines)
		lines := bufio.NewScanner(outR)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			p.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() { inW.Close(); outR.Close() })
	return p
}

// send writes one line.
func (p *peer) send(line string) {
	p.t.Helper()
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if len(line) < 64<<10 && json.Unmarshal([]byte(line), &m) == nil && m.ID != nil { // of long ones only the size matters
		p.asked[string(m.ID)] = m.Method
	}
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatalf("sending: %v", err)
	}
}

// receive returns the next line of the server, which must be a valid message.
func (p *peer) receive() string {
	p.t.Helper()
	select {
	case line, ok := <-p.lines:
		if !ok {
			p.t.Fatal("the server has hung up")
		}
		p.checkMessage(line)
		return line
	case <-time.After(time.Hour):
		p.t.Fatal("no answer")
	}
	return ""
}

// ask sends a line and returns the next one of the server.
func (p *peer) ask(line string) string {
	p.t.Helper()
	p.send(line)
	return p.receive()
}

// expect asks, and compares the answer as JSON.
func (p *peer) expect(line, want string) {
	p.t.Helper()
	if got := p.ask(line); !mcpschema.Equal([]byte(got), []byte(want)) {
		p.t.Errorf("answer to %s\ngot  %s\nwant %s", clip(line), clip(got), want)
	}
}

// expectError asks, and compares code and id of the error; "" means no id.
func (p *peer) expectError(line string, code int64, id string) *mcp.Error {
	p.t.Helper()
	return p.wantError(line, p.ask(line), code, id)
}

func (p *peer) wantError(line, answer string, code int64, id string) *mcp.Error {
	p.t.Helper()
	var got struct {
		ID    json.RawMessage
		Error *mcp.Error
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil || got.Error == nil || got.Error.Code != code || string(got.ID) != id {
		p.t.Errorf("answer to %s\ngot  %s\nwant error %d for id %q", clip(line), clip(answer), code, id)
		return &mcp.Error{}
	}
	return got.Error
}

func clip(s string) string {
	if len(s) > 300 {
		return s[:300] + "…"
	}
	return s
}

// silent fails if the server says anything. It needs a synctest bubble.
func (p *peer) silent() {
	p.t.Helper()
	synctest.Wait()
	select {
	case line := <-p.lines:
		p.t.Errorf("got %s, want silence", clip(line))
	default:
	}
}

// initialize opens a legacy session.
func (p *peer) initialize(v mcp.Version) {
	p.t.Helper()
	p.version, p.check = v, official(p.t, v)
	p.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":%q,"capabilities":{"elicitation":{}},"clientInfo":{"name":"peer","version":"1"}}}`, v))
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// modern says that all of the traffic is 2026-07-28.
func (p *peer) modern() { p.version, p.check = mcp.V2026_07_28, official(p.t, mcp.V2026_07_28) }

// open is initialize or modern.
func (p *peer) open(v mcp.Version) {
	p.t.Helper()
	if v.Era() == mcp.EraModern {
		p.modern()
		return
	}
	p.initialize(v)
}

// request returns a request as v has it: with _meta in 2026-07-28.
func request(v mcp.Version, id any, method, params string) string {
	rawID, _ := json.Marshal(id)
	if v.Era() == mcp.EraModern {
		if strings.Contains(params, `"_meta":{`) {
			params = strings.Replace(params, `"_meta":{`, `"_meta":{`+modernMeta+`,`, 1)
		} else {
			params = strings.TrimSuffix(params, "}")
			if params != "{" {
				params += ","
			}
			params += `"_meta":{` + modernMeta + `}}`
		}
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, rawID, method, params)
}

const modernMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}},"io.modelcontextprotocol/clientInfo":{"name":"peer","version":"1"}`

func call(v mcp.Version, id any, tool, arguments string) string {
	return request(v, id, mcp.MethodCallTool, fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
}

// results are the definitions of the official schemas.
var results = map[string]string{
	mcp.MethodInitialize: "InitializeResult", mcp.MethodDiscover: "DiscoverResult",
	mcp.MethodListTools: "ListToolsResult", mcp.MethodCallTool: "CallToolResult",
	mcp.MethodListResources: "ListResourcesResult", mcp.MethodListResourceTemplates: "ListResourceTemplatesResult",
	mcp.MethodReadResource: "ReadResourceResult", mcp.MethodListPrompts: "ListPromptsResult",
	mcp.MethodGetPrompt: "GetPromptResult", mcp.MethodComplete: "CompleteResult",
	mcp.MethodListen: "SubscriptionsListenResult",
}

// checkMessage holds what the server says against the official schema.
func (p *peer) checkMessage(line string) {
	p.t.Helper()
	if p.check == nil {
		return
	}
	var m struct {
		ID     json.RawMessage
		Method string
		Result json.RawMessage
		Error  json.RawMessage
	}
	var batch []json.RawMessage
	if json.Unmarshal([]byte(line), &batch) == nil {
		for _, one := range batch {
			p.checkMessage(string(one))
		}
		return
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		p.t.Errorf("got %s: %v", clip(line), err)
		return
	}
	if m.Error != nil && m.ID == nil && p.version < mcp.V2025_11_25 {
		return // earlier schemas have no error without an id (BASE-08)
	}
	def := results[p.asked[string(m.ID)]]
	if strings.Contains(string(m.Result), `"resultType":"input_required"`) {
		def = "InputRequiredResult"
	}
	if def != "" && m.Result != nil && p.check.Has(def) {
		p.check.Check(p.t, def, m.Result)
	}
	switch def := "ServerNotification"; {
	case m.Method == "" || m.Method == mcp.NotificationTask: // that is an extension's
	case m.ID != nil:
		p.check.Check(p.t, "ServerRequest", []byte(line))
	case p.check.Has(def):
		p.check.Check(p.t, def, []byte(line))
	}
	p.check.CheckMessage(p.t, []byte(line))
}

var officials struct {
	sync.Mutex
	loaded map[mcp.Version]*mcpschema.Schemas
}

// official returns the official schema of a revision, nil if it is not here.
func official(t testing.TB, v mcp.Version) *mcpschema.Schemas {
	t.Helper()
	dir := os.Getenv("MCP_SCHEMA_DIR")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "spec", "schema")
	}
	if _, err := os.Stat(filepath.Join(dir, string(mcp.Latest)+".json")); err != nil && os.Getenv("REQUIRE_SCHEMAS") == "" || !v.Known() {
		return nil
	}
	officials.Lock()
	defer officials.Unlock()
	if officials.loaded == nil {
		officials.loaded = make(map[mcp.Version]*mcpschema.Schemas)
	}
	if officials.loaded[v] == nil {
		officials.loaded[v] = mcpschema.Load(t, v)
	}
	return officials.loaded[v]
}

// eachVersion runs f in a bubble for each revision, with a peer that has opened it.
func eachVersion(t *testing.T, opts *mcpserver.Options, f func(t *testing.T, v mcp.Version, p *peer, g *gate)) {
	t.Helper()
	for _, v := range mcp.Versions() {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, g := newServer(t, opts)
				p := serve(t, s)
				p.open(v)
				f(t, v, p, g)
			})
		})
	}
}

// inBubble runs f in a bubble with a peer that has said nothing.
func inBubble(t *testing.T, opts *mcpserver.Options, f func(t *testing.T, s *mcpserver.Server, p *peer, g *gate)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, g := newServer(t, opts)
		f(t, s, serve(t, s), g)
	})
}
