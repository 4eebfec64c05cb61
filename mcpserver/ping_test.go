package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// asked returns the id of the next line, which must be a request of that method.
func (p *peer) asks(method string) string {
	p.t.Helper()
	line := p.receive()
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil || m.Method != method || m.ID == nil {
		p.t.Fatalf("got %s, want a request %s", line, method)
	}
	return string(m.ID)
}

func (p *peer) answers(id, result string) {
	p.t.Helper()
	p.send(`{"jsonrpc":"2.0","id":` + id + `,"result":` + result + `}`)
}

// PING-02: a client that answers pings, be it with an error, is kept; LIFE-07: it is
// not asked before it has initialized.
func TestPingAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hub(t, &mcpserver.Options{Limits: mcpserver.Limits{PingEvery: time.Minute}})
		p := serve(t, s)
		time.Sleep(time.Hour)
		p.initialize(mcp.V2025_11_25)
		p.silent()
		for i := range 20 {
			begun := time.Now()
			id := p.asks(mcp.MethodPing)
			if took := time.Since(begun); took != time.Minute {
				t.Errorf("a ping after %v, want one each minute", took)
			}
			if i%2 == 0 {
				p.answers(id, "{}")
			} else {
				p.send(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32601,"message":"what?"}}`)
			}
		}
		p.silent()
	})
}

// PING-02: a client that does not answer several in a row is hung up on; one that
// answers in between is not.
func TestPingUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hub(t, &mcpserver.Options{Limits: mcpserver.Limits{PingEvery: time.Minute}})
		p := serve(t, s)
		p.initialize(mcp.V2025_06_18)
		cancels := 0
		miss := func() {
			t.Helper()
			id := p.asks(mcp.MethodPing)
			if got := p.receive(); !strings.Contains(got, mcp.NotificationCancelled) || !strings.Contains(got, `"requestId":`+id) {
				t.Errorf("got %s, want the cancel of ping %s (TIME-02)", got, id)
			}
			cancels++
		}
		miss()
		miss()
		p.answers(p.asks(mcp.MethodPing), "{}")
		miss()
		miss()
		p.asks(mcp.MethodPing)
		if err := <-p.ended; !errors.Is(err, mcpserver.ErrSilent) {
			t.Errorf("Serve: %v, want %v", err, mcpserver.ErrSilent)
		}
		for line := range p.lines {
			if !strings.Contains(line, mcp.NotificationCancelled) {
				t.Errorf("got %s at the end", line)
			}
		}
	})
}

// PING-02, PING-03: nobody is pinged unless it is wanted, and no client of 2026-07-28.
func TestPingOff(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		synctest.Test(t, func(t *testing.T) {
			var o mcpserver.Options
			if v.Era() == mcp.EraModern {
				o.Limits.PingEvery = time.Second
			}
			p := serve(t, hub(t, &o))
			p.open(v)
			time.Sleep(time.Hour)
			p.silent()
		})
	}
}

// ROOT-02, ROOT-05: the program hears of changed roots, one change at a time, and may
// ask for them as they are then; what comes meanwhile is heard once more.
func TestRootsChanged(t *testing.T) {
	for _, v := range mcp.LegacyVersions() {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				heard := make(chan []mcp.Root, 10)
				s, _ := newServer(t, &mcpserver.Options{Events: mcpserver.Events{OnRootsChanged: func(ctx context.Context, c *mcpserver.Peer) {
					roots, err := c.Roots(ctx)
					if err != nil {
						t.Errorf("Roots: %v", err)
					}
					if name := c.Client().Info.Name; name != "rooted" || c.Client().Version != v || c.Principal() != nil {
						t.Errorf("of %q, %v, %v", name, c.Client().Version, c.Principal())
					}
					heard <- roots
				}}})
				p := serve(t, s)
				p.rooted(v, `{"roots":{"listChanged":true}}`)
				for i := range 3 {
					p.send(notice(mcp.NotificationRootsChanged))
					id := p.asks(mcp.MethodListRoots)
					for range 100 { // a storm
						p.send(notice(mcp.NotificationRootsChanged))
					}
					p.silent()
					p.answers(id, fmt.Sprintf(`{"roots":[{"uri":"file:///%d"}]}`, i))
					p.answers(p.asks(mcp.MethodListRoots), `{"roots":[]}`)
					if got := <-heard; len(got) != 1 || got[0].URI != fmt.Sprintf("file:///%d", i) {
						t.Errorf("heard of %v", got)
					}
					if got := <-heard; len(got) != 0 {
						t.Errorf("heard of %v, want none", got)
					}
					p.silent()
				}
			})
		})
	}
}

// rooted opens a session with capabilities.
func (p *peer) rooted(v mcp.Version, capabilities string) {
	p.t.Helper()
	p.version, p.check = v, official(p.t, v)
	p.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"rooted","version":"1"}}}`, v, capabilities))
	p.send(initialized)
}

// ROOT-05, CAP-03: the notice of a client that has not declared it is ignored, and so
// are its roots; a program that is told when the client leaves sees its context end.
func TestRootsUndeclared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls int
		ended := make(chan error, 1)
		s, _ := newServer(t, &mcpserver.Options{Events: mcpserver.Events{OnRootsChanged: func(ctx context.Context, c *mcpserver.Peer) {
			calls++
			<-ctx.Done()
			_, err := c.Roots(ctx)
			ended <- err
		}}})
		for _, caps := range []string{`{}`, `{"roots":{}}`, `{"roots":{"listChanged":false}}`} {
			p := serve(t, s)
			p.send(notice(mcp.NotificationRootsChanged)) // before anything
			p.rooted(mcp.V2025_11_25, caps)
			p.send(notice(mcp.NotificationRootsChanged))
			p.silent()
		}
		modern := serve(t, s)
		modern.modern()
		modern.send(notice(mcp.NotificationRootsChanged))
		modern.silent()
		if calls != 0 {
			t.Errorf("told %d times, want never", calls)
		}
		p := serve(t, s)
		p.rooted(mcp.V2025_11_25, `{"roots":{"listChanged":true}}`)
		p.send(notice(mcp.NotificationRootsChanged))
		p.silent()
		p.in.Close()
		<-p.ended
		if err := <-ended; err == nil || calls != 1 {
			t.Errorf("told %d times, Roots: %v; want once, and an error", calls, err)
		}
	})
}

// A hook that panics ends nothing.
func TestRootsPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		s, _ := newServer(t, &mcpserver.Options{Events: mcpserver.Events{OnRootsChanged: func(context.Context, *mcpserver.Peer) {
			calls++
			panic("boo")
		}}})
		p := serve(t, s)
		p.rooted(mcp.V2025_11_25, `{"roots":{"listChanged":true}}`)
		for range 2 {
			p.send(notice(mcp.NotificationRootsChanged))
			p.silent()
		}
		p.ask(request(mcp.V2025_11_25, 1, mcp.MethodListTools, "{}"))
		if calls != 2 {
			t.Errorf("told %d times, want twice", calls)
		}
	})
}
