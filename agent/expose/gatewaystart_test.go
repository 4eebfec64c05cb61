package expose

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// lateServer is a server with one tool that answers the handshake only after a while.
func lateServer(t *testing.T, name string, after time.Duration) mcpclient.Server {
	return rawServer(t, name, map[string]func(string, string) string{
		mcp.MethodInitialize: func(id, params string) string {
			time.Sleep(after)
			return result(greets)(id, params)
		},
		mcp.MethodListTools:             result(`{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`),
		mcp.MethodListResources:         result(`{"resources":[]}`),
		mcp.MethodListResourceTemplates: result(`{"resourceTemplates":[]}`),
		mcp.MethodListPrompts:           result(`{"prompts":[]}`),
		mcp.MethodCallTool:              result(`{"content":[{"type":"text","text":"ok"}]}`),
	})
}

// deadServer is a server that ends when it is started.
func deadServer(name string) mcpclient.Server {
	return mcpclient.Stream(name, func(context.Context) (io.ReadWriteCloser, error) { return nil, errors.New("no such thing") })
}

// noticed counts the notices of a method that a client got.
type noticed struct{ atomic.Int64 }

func (n *noticed) of(wanted string) func(string, string, json.RawMessage) {
	return func(_, method string, _ json.RawMessage) {
		if method == wanted {
			n.Add(1)
		}
	}
}

// countTools asks for the list anew and returns how many tools are on its only page.
func countTools(t *testing.T, c *mcpclient.Client) int {
	t.Helper()
	raw, err := c.Request(t.Context(), mcp.MethodListTools, nil, nil)
	must(t, err)
	var l mcp.ListToolsResult
	must(t, json.Unmarshal(raw, &l))
	if l.NextCursor != nil {
		t.Errorf("tools/list: got a cursor, want one page")
	}
	return len(l.Tools)
}

// The first list waits for a server that starts, as long as it has not failed, and for no
// server that has; a call of a tool that is there waits for no other server.
func TestFirstListWaitsForStartingServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startGateway(t, &Options{}, deadServer("dead"), lateServer(t, "slow", 25*time.Second), lateServer(t, "fast", 0))
		var changed noticed
		c := dialFront(t, f, mcpclient.ProtocolLegacy, &mcpclient.Options{Observers: mcpclient.Observers{OnNotification: changed.of(mcp.NotificationToolsChanged)}})
		begun := time.Now()
		res, err := c.Request(t.Context(), mcp.MethodCallTool, json.RawMessage(`{"name":"fast__t"}`), nil) // CallTool asks for the list first
		if err != nil || !strings.Contains(string(res), `"ok"`) {
			t.Fatalf("tools/call: got %s and error %v", res, err)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("a call of a server that is there took %v, want no wait for another", took)
		}
		if n := countTools(t, c); n != 2 {
			t.Errorf("tools: got %d, want those of both servers that work", n)
		}
		if took := time.Since(begun); took < 25*time.Second || took > 26*time.Second {
			t.Errorf("the first list took %v, want the 25 s that the server took", took)
		}
		time.Sleep(time.Minute)
		if n := changed.Load(); n != 0 {
			t.Errorf("told %d times of changes that were on the first list, want never", n)
		}
	})
}

// Beyond ListWait the client is served without the server, and told when it is there.
func TestFirstListGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startGateway(t, &Options{ListWait: 40 * time.Second}, lateServer(t, "slow", 45*time.Second), lateServer(t, "fast", 0))
		var changed noticed
		c := dialFront(t, f, mcpclient.ProtocolLegacy, &mcpclient.Options{Observers: mcpclient.Observers{OnNotification: changed.of(mcp.NotificationToolsChanged)}})
		begun := time.Now()
		if n := countTools(t, c); n != 1 {
			t.Errorf("tools: got %d, want that of the server that is there", n)
		}
		if took := time.Since(begun); took < 40*time.Second || took > 41*time.Second {
			t.Errorf("the first list took %v, want 40 s", took)
		}
		time.Sleep(time.Minute)
		if n := changed.Load(); n != 1 {
			t.Errorf("told %d times, want once", n)
		}
		if n := countTools(t, c); n != 2 {
			t.Errorf("tools: got %d, want both", n)
		}
	})
}

// TOOL-13: while many servers start a client hears nothing before it has a list, and then
// once a second at most, of the last change too.
func TestFewNoticesWhileServersStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var servers []mcpclient.Server
		for i := range 20 {
			servers = append(servers, lateServer(t, fmt.Sprint("s", i), time.Duration(i)*310*time.Millisecond))
		}
		f := startGateway(t, &Options{ListWait: 2 * time.Second}, servers...)
		var changed noticed
		c := dialFront(t, f, mcpclient.ProtocolLegacy, &mcpclient.Options{Observers: mcpclient.Observers{OnNotification: changed.of(mcp.NotificationToolsChanged)}})
		if _, err := c.Request(t.Context(), mcp.MethodCallTool, json.RawMessage(`{"name":"s0__t"}`), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1900 * time.Millisecond)
		if n := changed.Load(); n != 0 {
			t.Errorf("before the first list: told %d times, want never", n)
		}
		countTools(t, c)
		time.Sleep(time.Minute)
		if n := changed.Load(); n < 1 || n > 6 {
			t.Errorf("told %d times in 5 s, want once a second at most", n)
		}
		if n := countTools(t, c); n != 20 {
			t.Errorf("tools: got %d, want all 20", n)
		}
	})
}

// TOOL-02: a client sees all that a server has listed, or nothing of it.
func TestServersListAtOnce(t *testing.T) {
	var b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&b, `,{"name":"t%d","inputSchema":{"type":"object"}}`, i)
	}
	listed := make(chan struct{})
	def := rawServer(t, "many", map[string]func(string, string) string{
		mcp.MethodInitialize:            result(greets),
		mcp.MethodListTools:             func(id, p string) string { <-listed; return result(`{"tools":[`+b.String()[1:]+`]}`)(id, p) },
		mcp.MethodListResources:         result(`{"resources":[]}`),
		mcp.MethodListResourceTemplates: result(`{"resourceTemplates":[]}`),
		mcp.MethodListPrompts:           result(`{"prompts":[]}`),
	})
	f := startGateway(t, &Options{ListWait: time.Millisecond}, def)
	c := dialFront(t, f, mcpclient.ProtocolLegacy, nil)
	if n := countTools(t, c); n != 0 {
		t.Fatalf("tools: got %d, want none yet", n)
	}
	close(listed)
	for {
		switch n := countTools(t, c); n {
		case 0:
		case 2000:
			return
		default:
			t.Fatalf("tools: got %d, want none or all 2000", n)
		}
	}
}

// A server that declares a list and does not know the request has none: that is no reason
// to ask again and again.
func TestGatewayDeclaredAndUnknownLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		def := rawServer(t, "claims", map[string]func(string, string) string{
			mcp.MethodInitialize: result(greets),
			mcp.MethodListTools:  result(`{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`),
			mcp.MethodListResources: func(id, _ string) string {
				asked.Add(1)
				return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32601,"message":"Method not found"}}`
			},
		})
		f := startGateway(t, &Options{}, def)
		c := dialFront(t, f, mcpclient.ProtocolLegacy, nil)
		if n := countTools(t, c); n != 1 {
			t.Errorf("tools: got %d, want 1", n)
		}
		listed, err := c.ListResources(t.Context())
		if err != nil || len(listed) != 0 {
			t.Errorf("ListResources: got %v and error %v, want none", listed, err)
		}
		time.Sleep(10 * time.Minute)
		if n := asked.Load(); n > 2 { // twice if the connection's event is late
			t.Errorf("resources/list was asked for %d times, want it not to be tried again", n)
		}
	})
}

// logged keeps what a log says.
type logged struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), s)
}

// TOOL-03: schemas that are not quite valid do not cost a tool: what clients need is added,
// the rest is for the server to check, and a warning comes once, not for each client.
func TestGatewayKeepsToolsWithOddSchemas(t *testing.T) {
	tools := `{"tools":[
		{"name":"notype","inputSchema":{"properties":{"a":{"type":"string"}}}},
		{"name":"nothing","inputSchema":{}},
		{"name":"enum","inputSchema":{"type":"object","properties":{"a":{"enum":[]}}}},
		{"name":"email","inputSchema":{"type":"object","properties":{"a":{"type":"string","pattern":"^(?!\\.)(?!.*\\.\\.).+$"}}}},
		{"name":"list","inputSchema":{"type":["object","null"],"properties":{}}},
		{"name":"required","inputSchema":{"type":"object","required":true,"properties":[]}},
		{"name":"string","inputSchema":{"type":"string"}}]}`
	var args atomic.Value
	def := rawServer(t, "odd", map[string]func(string, string) string{
		mcp.MethodInitialize: result(greets), mcp.MethodListTools: result(tools), mcp.MethodListResources: result(`{"resources":[]}`),
		mcp.MethodListResourceTemplates: result(`{"resourceTemplates":[]}`), mcp.MethodListPrompts: result(`{"prompts":[]}`),
		mcp.MethodCallTool: func(id, params string) string {
			args.Store(params)
			return result(`{"content":[]}`)(id, params)
		},
	})
	log := new(logged)
	f := startGateway(t, &Options{Logger: slog.New(slog.NewTextHandler(log, nil))}, def)
	for range 3 {
		c := dialFront(t, f, mcpclient.ProtocolLegacy, nil)
		all, err := c.ListTools(t.Context())
		must(t, err)
		if len(all) != 6 {
			t.Errorf("tools: got %q, want all but the one for a string", toolNames(all))
		}
		for _, tool := range all {
			var schema struct {
				Type       string
				Properties map[string]any
				Required   []string
			}
			if err := json.Unmarshal(tool.InputSchema, &schema); err != nil || schema.Type != "object" {
				t.Errorf("%s: got the input schema %s, error %v", tool.Name, tool.InputSchema, err)
			}
			if _, err := c.CallTool(t.Context(), tool.Name, json.RawMessage(`{"a":"x..y"}`), nil); err != nil {
				t.Errorf("CallTool %s: %v", tool.Name, err)
			}
		}
		if got, _ := args.Load().(string); !strings.Contains(got, `"a":"x..y"`) {
			t.Errorf("the server got %s, want the arguments as they were", got)
		}
	}
	for what, want := range map[string]int{"changed input schema": 4, "leaving out": 1, "name=string": 1} {
		if n := log.count(what); n != want {
			t.Errorf("%q was logged %d times, want %d", what, n, want)
		}
	}
}
