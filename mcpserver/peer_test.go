package mcpserver_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// peers remembers what a server tells of its clients.
type peers struct {
	mu     sync.Mutex
	seen   []*mcpserver.Peer // by requests, nil for none
	levels []string
	closed []string
}

func (n *peers) options() *mcpserver.Options {
	return &mcpserver.Options{
		Events: mcpserver.Events{
			OnLogLevel: func(p *mcpserver.Peer, l mcp.LogLevel) {
				n.mu.Lock()
				defer n.mu.Unlock()
				n.levels = append(n.levels, string(l)+" "+string(p.LogLevel()))
			},
			OnClose: func(p *mcpserver.Peer) {
				n.mu.Lock()
				defer n.mu.Unlock()
				n.closed = append(n.closed, p.ID())
				if p.Client().Info.Name == "panics" {
					panic("for the test")
				}
			},
		},
	}
}

func (n *peers) tool(t *testing.T, s *mcpserver.Server) {
	t.Helper()
	err := mcpserver.AddTool(s, &mcp.Tool{Name: "whose"}, func(_ context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.seen = append(n.seen, req.Peer())
		return "", nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// LOG-03: a pipe has one Peer from its first request to its end, which is told once; two
// pipes have two.
func TestPeers(t *testing.T) {
	for _, v := range mcp.Versions() {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n peers
				s, _ := newServer(t, n.options())
				n.tool(t, s)
				a, b := serve(t, s), serve(t, s)
				for _, p := range []*peer{a, a, b} {
					if p.version == "" {
						p.open(v)
					}
					p.ask(call(v, len(p.asked)+100, "whose", `{}`))
				}
				if n.seen[0] == nil || n.seen[0] != n.seen[1] || n.seen[0] == n.seen[2] || n.seen[0].ID() == n.seen[2].ID() || n.seen[0].ID() == "" {
					t.Errorf("peers: got %v", n.seen)
				}
				if c := n.seen[0].Client(); c.Info.Name != "peer" || c.Version != v {
					t.Errorf("Client: got %+v", c)
				}
				if got := n.seen[0].LogLevel(); got != mcp.LogInfo {
					t.Errorf("LogLevel: got %q", got)
				}
				if v.Era() == mcp.EraLegacy {
					if got := a.ask(request(v, 3, mcp.MethodSetLevel, `{"level":"error"}`)); len(n.levels) != 1 || n.levels[0] != "error error" {
						t.Errorf("levels: got %q, %s", n.levels, got)
					}
				}
				a.in.Close()
				synctest.Wait()
				time.Sleep(time.Minute)
				n.mu.Lock()
				defer n.mu.Unlock()
				if len(n.closed) != 1 || n.closed[0] != n.seen[0].ID() {
					t.Errorf("closed: got %q, want %q", n.closed, n.seen[0].ID())
				}
			})
		})
	}
}

// SHM-01: over HTTP a request of 2026-07-28 has no Peer, and no end of one is told; a
// legacy session has one until it is deleted. A panic in OnClose harms nobody.
func TestPeersOverHTTP(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		t.Run(string(v), func(t *testing.T) {
			var n peers
			webBubble(t, n.options(), func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
				n.tool(t, s)
				w := newWeb(t, client, v)
				w.open()
				w.post(call(v, 7, "whose", `{}`))
				legacy := v.Era() == mcp.EraLegacy
				if len(n.seen) != 1 || (n.seen[0] != nil) != legacy {
					t.Fatalf("peers: got %v", n.seen)
				}
				if legacy {
					w.delete()
				}
				time.Sleep(time.Minute)
				n.mu.Lock()
				defer n.mu.Unlock()
				if want := map[bool]int{true: 1}[legacy]; len(n.closed) != want {
					t.Errorf("closed: got %q, want %d", n.closed, want)
				}
			})
		})
	}
}
