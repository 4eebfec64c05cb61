package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// talker is a server whose tool "talk" does what a test wants.
func talker(t *testing.T, talk func(ctx context.Context, req *mcpserver.ToolRequest)) *mcpserver.Server {
	t.Helper()
	s, _ := newServer(t, nil)
	err := mcpserver.AddTool(s, &mcp.Tool{Name: "talk"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
		talk(ctx, req)
		return "done", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	return s
}

// talk is a call that wants log messages of a level and up; in a legacy session that
// is what logging/setLevel has said. "" is not to say.
func talk(v mcp.Version, id any, level string) string {
	meta := ""
	if level != "" && v.Era() == mcp.EraModern {
		meta = fmt.Sprintf(`,"_meta":{"io.modelcontextprotocol/logLevel":%q}`, level)
	}
	return request(v, id, mcp.MethodCallTool, `{"name":"talk","arguments":{}`+meta+`}`)
}

// LOG-02, LOG-03, LOG-04, LOG-05: a client gets the levels that it wants: in a legacy
// session those it has set, or from info on if it says nothing; in 2026-07-28 those its
// request names, or none.
func TestLogLevels(t *testing.T) {
	levels := []mcp.LogLevel{mcp.LogDebug, mcp.LogInfo, mcp.LogNotice, mcp.LogWarning, mcp.LogError, mcp.LogCritical, mcp.LogAlert, mcp.LogEmergency}
	for _, v := range mcp.Versions() {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := serve(t, talker(t, func(_ context.Context, req *mcpserver.ToolRequest) {
					for _, level := range levels {
						req.Log(level, "logger", map[string]any{"n": 1})
					}
					req.Log("loud", "logger", "no such level")
					req.Log(mcp.LogEmergency, "logger", math.Inf(1))                  // what can not be said is not said
					req.Log(mcp.LogEmergency, "logger", strings.Repeat("x", 300<<10)) // nor what is too large (LOG-06)
				}))
				p.open(v)
				for i, level := range append([]mcp.LogLevel{""}, levels...) {
					first := i - 1 // of those that come
					switch {
					case level == "" && v.Era() == mcp.EraModern:
						first = len(levels)
					case level == "":
						first = 1
					case v.Era() == mcp.EraLegacy:
						p.expect(request(v, 1, mcp.MethodSetLevel, fmt.Sprintf(`{"level":%q}`, level)), `{"jsonrpc":"2.0","id":1,"result":{}}`)
					}
					p.send(talk(v, 2, string(level)))
					for _, l := range levels[first:] {
						p.expectLine(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":%q,"logger":"logger","data":{"n":1}}}`, l))
					}
					if got := p.receive(); !strings.Contains(got, `"text":"done"`) {
						t.Errorf("%q: got %s, want the result", level, clip(got))
					}
					p.silent()
				}
				if v.Era() == mcp.EraLegacy {
					for _, level := range []string{`"loud"`, `""`, `"INFO"`, `1`, `null`} {
						p.expectError(request(v, 3, mcp.MethodSetLevel, `{"level":`+level+`}`), mcp.CodeInvalidParams, "3")
					}
				} else {
					p.expectError(talk(v, 3, "loud"), mcp.CodeInvalidParams, "3")
				}
			})
		})
	}
}

// LOG-03: a level holds for one session.
func TestLogLevelIsTheSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const v = mcp.V2025_11_25
		s := talker(t, func(_ context.Context, req *mcpserver.ToolRequest) { req.Log(mcp.LogWarning, "", 1) })
		p, q := serve(t, s), serve(t, s)
		p.open(v)
		q.open(v)
		p.ask(request(v, 1, mcp.MethodSetLevel, `{"level":"error"}`))
		for peer, want := range map[*peer]string{p: `"id":2`, q: mcp.NotificationMessage} {
			if got := peer.ask(talk(v, 2, "")); !strings.Contains(got, want) {
				t.Errorf("got %s, want %s first", got, want)
			}
		}
	})
}

// LOG-06: a handler that logs without end does not flood the client, and goes on being
// heard when it is slower.
func TestLogRate(t *testing.T) {
	seconds := fewer(10)
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		synctest.Test(t, func(t *testing.T) {
			p := serve(t, talker(t, func(_ context.Context, req *mcpserver.ToolRequest) {
				for range fewer(10_000) {
					req.Log(mcp.LogError, "burst", 1)
				}
				for range 100 {
					time.Sleep(100 * time.Millisecond)
					req.Log(mcp.LogError, "steady", 1)
				}
				for range seconds * 1000 {
					time.Sleep(time.Millisecond)
					req.Log(mcp.LogError, "fast", 1)
				}
			}))
			p.open(v)
			p.send(talk(v, 1, "debug"))
			counts := map[string]int{}
			for {
				line := p.receive()
				if strings.Contains(line, `"id":1`) {
					break
				}
				var m struct{ Params mcp.LogParams }
				if err := json.Unmarshal([]byte(line), &m); err != nil {
					t.Fatal(err)
				}
				counts[m.Params.Logger]++
			}
			if counts["burst"] != 200 || counts["steady"] != 100 || counts["fast"] < 100*seconds || counts["fast"] > 100*seconds+210 {
				t.Errorf("%s: %v came, want 200 of the burst, 100 steady ones and 100 a second of the fast", v, counts)
			}
		})
	}
}

// PROG-04, LOG-05, SHL-13: whatever goroutines of a handler say, it comes before the
// result, and nothing comes after it.
func TestResultIsLast(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2024_11_05, mcp.V2025_11_25, mcp.V2026_07_28} {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := fewer(50)
				var others sync.WaitGroup
				p := serve(t, talker(t, func(_ context.Context, req *mcpserver.ToolRequest) {
					for range 4 {
						others.Go(func() { // beyond the handler's end
							for i := range 50 {
								req.Progress(float64(i), 50, req.ID().String())
								req.Log(mcp.LogError, req.ID().String(), 1)
								if i%10 == 0 {
									time.Sleep(time.Microsecond)
								}
							}
						})
					}
					time.Sleep(2 * time.Microsecond)
				}))
				p.open(v)
				for id := range calls {
					p.send(request(v, id, mcp.MethodCallTool, fmt.Sprintf(
						`{"name":"talk","arguments":{},"_meta":{"progressToken":%d,"io.modelcontextprotocol/logLevel":"debug"}}`, id)))
				}
				time.Sleep(time.Second)
				others.Wait()
				synctest.Wait()
				over, said := map[string]bool{}, 0
				for range len(p.lines) {
					line := p.receive()
					var m struct {
						ID     json.RawMessage
						Params struct {
							Token  json.RawMessage `json:"progressToken"`
							Logger string
						}
					}
					if err := json.Unmarshal([]byte(line), &m); err != nil {
						t.Fatal(err)
					}
					of := m.Params.Logger + string(m.Params.Token)
					switch {
					case m.ID != nil && over[string(m.ID)]:
						t.Errorf("a second answer: %s", line)
					case m.ID != nil:
						over[string(m.ID)] = true
					case over[of]:
						t.Errorf("after the result: %s", line)
					default:
						said++
					}
				}
				if len(over) != calls || said < calls {
					t.Errorf("%d answers and %d notifications before them, want %d and more", len(over), said, calls)
				}
			})
		})
	}
}

// CANC-03, CANC-09, PROG-04: once cancelled a request says nothing any more, whatever
// its handler does.
func TestNothingAfterCancel(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2024_11_05, mcp.V2025_11_25, mcp.V2026_07_28} {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var causes sync.Map
				p := serve(t, talker(t, func(ctx context.Context, req *mcpserver.ToolRequest) {
					for i := range 100 {
						req.Progress(float64(i), 0, "")
						req.Log(mcp.LogError, "", i)
						time.Sleep(time.Millisecond)
					}
					causes.Store(req.ID().String(), context.Cause(ctx))
				}))
				p.open(v)
				for id := range 20 {
					p.send(request(v, id, mcp.MethodCallTool, fmt.Sprintf(
						`{"name":"talk","arguments":{},"_meta":{"progressToken":%d,"io.modelcontextprotocol/logLevel":"debug"}}`, id)))
				}
				time.Sleep(10 * time.Millisecond)
				for id := range 20 {
					p.send(cancelled(fmt.Sprint(id)))
				}
				synctest.Wait()
				for range len(p.lines) {
					if line := p.receive(); strings.Contains(line, `"id":`) {
						t.Errorf("got %s", line)
					}
				}
				p.send(cancelled("3")) // CANC-06
				time.Sleep(time.Second)
				p.silent()
				for id := range 20 {
					if cause, _ := causes.Load(fmt.Sprint(id)); cause == nil || !errors.Is(cause.(error), context.Canceled) {
						t.Errorf("call %d ended with %v, want a cancel", id, cause)
					}
				}
				p.send(request(v, 3, mcp.MethodListTools, `{}`)) // the ids are free
				if got := p.receive(); !strings.Contains(got, `"tools"`) {
					t.Errorf("got %s, want the list", clip(got))
				}
			})
		})
	}
}
