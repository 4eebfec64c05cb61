package mcpclient

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/negotiate"
	"github.com/troupe-dev/troupe/mcpclient/internal/pipe"
)

// legacyServer answers the handshake, and the probe with what probe says: "" is
// silence. It echoes tools/call.
func legacyServer(probe func(id string) string) func(*fakeProcess) string {
	return func(p *fakeProcess) string {
		for {
			line, ok := p.read()
			if !ok {
				return "exit status 0"
			}
			var m mcp.Message
			if err := mcp.Scan([]byte(line), &m); err != nil {
				return "exit status 99: " + err.Error()
			}
			id := m.ID.String()
			switch m.Method {
			case mcp.MethodDiscover:
				if answer := probe(id); answer == "!exit" {
					return "exit status 1"
				} else if answer != "" {
					p.say(answer)
				}
			case mcp.MethodInitialize:
				p.say(`{"jsonrpc":"2.0","id":` + id + `,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"}}}`)
			case mcp.MethodListTools:
				p.say(`{"jsonrpc":"2.0","id":` + id + `,"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}}`)
			case mcp.MethodCallTool:
				p.say(`{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[]}}`)
			case mcp.MethodPing:
				p.say(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`)
			}
		}
	}
}

// unknownMethod is how most legacy servers answer the probe.
func unknownMethod(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32601,"message":"Method not found"}}`
}

// ERA-02, ERA-03, ERA-04, ERA-05: every way to answer the probe has a verdict.
func TestProbe(t *testing.T) {
	tests := []struct {
		name   string
		answer string // with %s for the id; "" is silence, "!exit" the end of the process
		want   string // the version that comes of it, or a part of the error
	}{
		{"method not found", `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":""}}`, "2025-11-25"},
		{"invalid params", `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":""}}`, "2025-11-25"},
		{"invalid request", `{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":""}}`, "2025-11-25"},
		{"parse error", `{"jsonrpc":"2.0","id":%s,"error":{"code":-32700,"message":""}}`, "2025-11-25"},
		{"internal error", `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":""}}`, "2025-11-25"},
		{"server error", `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"not initialized"}}`, "2025-11-25"},
		{"own error", `{"jsonrpc":"2.0","id":%s,"error":{"code":7,"message":""}}`, "2025-11-25"},
		{"zero", `{"jsonrpc":"2.0","id":%s,"error":{"code":0,"message":""}}`, "2025-11-25"},
		{"error without an id", `{"jsonrpc":"2.0","error":{"code":-32600,"message":""}}`, "2025-11-25"}, // BASE-08
		{"silence", "", "2025-11-25"},
		{"death", "!exit", "2025-11-25"},
		{"junk", "what?", "2025-11-25"},
		{"no valid response", `{"jsonrpc":"2.0","id":%s,"result":[]}`, "2025-11-25"},
		{"some result", `{"jsonrpc":"2.0","id":%s,"result":{"ok":true}}`, "2025-11-25"},
		{"an initialize result", `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x","version":""}}}`, "2025-11-25"},
		{"ill-typed versions", `{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":"2026-07-28"}}`, "2025-11-25"},
		{"unsupported version without data", `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":""}}`, "2025-11-25"},
		{"capability missing without data", `{"jsonrpc":"2.0","id":%s,"error":{"code":-32021,"message":""}}`, "2025-11-25"},
		{"unsupported, legacy common", `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"","data":{"supported":["2025-11-25"],"requested":"2026-07-28"}}}`, "2025-11-25"},
		{"modern", `{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}`, "2026-07-28"},                                   // BASE-11
		{"unknown result type", `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"dance","supportedVersions":["2026-07-28"],"capabilities":{}}}`, "2025-11-25"}, // BASE-12
		{"dual", `{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2025-11-25","2026-07-28"],"capabilities":{}}}`, "2026-07-28"},
		{"capability missing", `{"jsonrpc":"2.0","id":%s,"error":{"code":-32021,"message":"sampling","data":{"requiredCapabilities":{"sampling":{}}}}}`, "sampling (-32021)"},
		{"header mismatch", `{"jsonrpc":"2.0","id":%s,"error":{"code":-32020,"message":"headers"}}`, "headers (-32020)"},
		{"nothing common", `{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2030-01-01"],"capabilities":{}}}`, "no common protocol version"},
		{"never content", `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"again","data":{"supported":["2026-07-28"],"requested":"2026-07-28"}}}`, "again (-32022)"},
	}
	type pace struct {
		name  string
		delay time.Duration // before the probe is answered
	}
	for i := range 2 * len(tests) {
		tt, pace := tests[i/2], []pace{{"", 0}, {", slowly", 20 * time.Second}}[i%2]
		t.Run(tt.name+pace.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				program := legacyServer(func(id string) string {
					time.Sleep(pace.delay)
					if strings.Contains(tt.answer, "%s") {
						return fmt.Sprintf(tt.answer, id)
					}
					return tt.answer
				})
				c, err := Dial(t.Context(), Command("x"), &Options{System: newSystem(t), start: func(*Server) (pipe.Process, error) { return start(program), nil }})
				if err != nil {
					if !strings.Contains(err.Error(), tt.want) {
						t.Errorf("Dial: got %v, want %s", err, tt.want)
					}
					return
				}
				if info, _ := c.Info(t.Context()); string(info.Version) != tt.want {
					t.Errorf("version: got %s, want %s", info.Version, tt.want)
				}
				if err := c.Ping(t.Context()); tt.want == "2025-11-25" && err != nil {
					t.Errorf("Ping: %v", err)
				}
				closeIn(t, c, time.Minute)
			})
		})
	}
}

// ERA-03, ERA-07: a modern server that starts slowly is a modern one, whatever it makes of
// the handshake that it is offered meanwhile, and its late answer to that is nothing.
func TestSlowModernServer(t *testing.T) {
	for _, handshake := range []string{
		`"error":{"code":-32601,"message":"Method not found"}`,
		`"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"],"requested":"2025-11-25"}}`,
		`"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"dual","version":"1"}}`,
		``, // silence
	} {
		synctest.Test(t, func(t *testing.T) {
			starts := 0
			var methods []string
			program := func(p *fakeProcess) string {
				starts++
				time.Sleep(25 * time.Second) // imports
				for {
					line, ok := p.read()
					if !ok {
						return "exit status 0"
					}
					var m mcp.Message
					if err := mcp.Scan([]byte(line), &m); err != nil {
						return "exit status 99: " + err.Error()
					}
					methods = append(methods, m.Method)
					begin := `{"jsonrpc":"2.0","id":` + m.ID.String() + `,`
					switch {
					case m.Method == mcp.MethodDiscover:
						p.say(begin + `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}`)
					case m.Method == mcp.MethodInitialize && handshake != "":
						if strings.Contains(line, "io.modelcontextprotocol/protocolVersion") {
							return "exit status 98: initialize has the members of a modern request" // ERA-10
						}
						p.say(begin + handshake + `}`)
					case m.Method == mcp.MethodListTools:
						p.say(begin + `"result":{"resultType":"complete","tools":[{"name":"echo","inputSchema":{"type":"object"}}]}}`)
					}
				}
			}
			opts := &Options{System: newSystem(t), eras: new(negotiate.Eras), start: func(*Server) (pipe.Process, error) { return start(program), nil }}
			c, err := Dial(t.Context(), Command("x"), opts)
			if err != nil {
				t.Fatal(err)
			}
			if info, _ := c.Info(t.Context()); info.Version != mcp.V2026_07_28 {
				t.Errorf("%s: got version %s, want 2026-07-28", handshake, info.Version)
			}
			if tools, err := c.ListTools(t.Context()); err != nil || len(tools) != 1 {
				t.Errorf("%s: ListTools: got %v and error %v", handshake, tools, err)
			}
			if starts != 1 || slices.Contains(methods, mcp.NotificationInitialized) || slices.Contains(methods, mcp.NotificationCancelled) {
				t.Errorf("%s: %d starts, the server heard %q", handshake, starts, methods)
			}
			closeIn(t, c, time.Second) // nothing is out any more
		})
	}
}

// ERA-08: a legacy server that ignores the question is one by its answer to initialize;
// it is started once and hears no more of the question.
func TestSilentLegacyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starts := 0
		program := legacyServer(func(string) string { starts++; return "" })
		c, err := Dial(t.Context(), Command("x"), &Options{System: newSystem(t), start: func(*Server) (pipe.Process, error) { return start(program), nil }})
		if err != nil {
			t.Fatal(err)
		}
		if info, _ := c.Info(t.Context()); info.Era != mcp.EraLegacy || starts != 1 {
			t.Errorf("got era %v after %d questions, want legacy after 1", info.Era, starts)
		}
		closeIn(t, c, time.Second)
	})
}

// ERA-01: a verdict is kept for a while, for the same definition only, and
// forgotten when it proves wrong.
func TestVerdictIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		probes := 0
		modern := false
		program := func(p *fakeProcess) string {
			if !modern {
				return legacyServer(func(id string) string { probes++; return unknownMethod(id) })(p)
			}
			for {
				line, ok := p.read()
				if !ok {
					return "exit status 0"
				}
				var m mcp.Message
				_ = mcp.Scan([]byte(line), &m)
				if m.Method == mcp.MethodDiscover {
					probes++
					p.say(`{"jsonrpc":"2.0","id":` + m.ID.String() + `,"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}`)
				} else {
					p.say(`{"jsonrpc":"2.0","id":` + m.ID.String() + `,"error":{"code":-32601,"message":"gone"}}`)
				}
			}
		}
		opts := &Options{System: newSystem(t), eras: new(negotiate.Eras), start: func(*Server) (pipe.Process, error) { return start(program), nil }}
		dial := func(args ...string) *Info {
			c, err := Dial(t.Context(), Command("x", args...), opts)
			if err != nil {
				t.Fatal(err)
			}
			defer closeIn(t, c, time.Minute)
			info, _ := c.Info(t.Context())
			return info
		}
		dial()
		dial()
		if probes != 1 {
			t.Errorf("%d probes of one definition, want 1", probes)
		}
		dial("other")
		if probes != 2 {
			t.Errorf("%d probes of two definitions, want 2", probes)
		}
		time.Sleep(2 * negotiate.EraLife)
		dial()
		if probes != 3 {
			t.Errorf("%d probes after the verdict has expired, want 3", probes)
		}
		modern = true
		if _, err := Dial(t.Context(), Command("x"), opts); !errors.Is(err, mcp.ErrMethodNotFound) {
			t.Errorf("an upgraded server: got %v, want it to refuse the handshake once", err)
		}
		if info := dial(); info.Era != mcp.EraModern {
			t.Errorf("an upgraded server: got %v, want modern", info.Era)
		}
	})
}

// closeIn closes a client that has nothing under way.
func closeIn(t *testing.T, c *Client, d time.Duration) {
	t.Helper()
	begin := time.Now()
	if err := c.Shutdown(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	if took := time.Since(begin); took > d {
		t.Errorf("Close took %v", took)
	}
	if s := c.Status().State; s != conn.Closed {
		t.Errorf("state after Close: %v", s)
	}
}
