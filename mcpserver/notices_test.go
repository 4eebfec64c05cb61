package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

func notice(method string) string { return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q}`, method) }

func updated(uri string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q}}`, uri)
}

var listMethods = []string{mcp.NotificationToolsChanged, mcp.NotificationPromptsChanged, mcp.NotificationResourcesChanged}

// TOOL-13, RES-06, PRM-05: changes of the lists are told, once for those that follow
// each other closely; a client of 2026-07-28 that does not listen is told nothing.
func TestListChanged(t *testing.T) {
	for _, v := range mcp.Versions() {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := hub(t, nil)
				p := serve(t, s)
				p.open(v)
				p.silent()
				for list, method := range listMethods {
					for range 100 {
						s.Changed(list)
					}
					time.Sleep(time.Second)
					if v.Era() == mcp.EraLegacy {
						p.wants(notice(method))
					}
					p.silent()
				}
				begun := time.Now()
				for time.Since(begun) < time.Second { // one that changes all the time
					s.Changed(0)
					time.Sleep(time.Millisecond)
				}
				time.Sleep(time.Second)
				n := len(p.lines)
				if most := 60; v.Era() == mcp.EraLegacy && n == 0 || n > most {
					t.Errorf("told %d times within a second, want some, and %d at most", n, most)
				}
			})
		})
	}
}

// CAP-03, CAP-08: what was not declared at the handshake is not told, for as long as
// the session lasts.
func TestListChangedUndeclared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, nil)
		p := serve(t, s)
		p.initialize(mcp.V2025_11_25)
		p.silent()
		err := mcpserver.AddPrompt(s, &mcp.Prompt{Name: "p"}, func(context.Context, *mcpserver.PromptRequest, map[string]string) (string, error) { return "p", nil })
		if err != nil {
			t.Fatal(err)
		}
		s.Changed(2)
		time.Sleep(time.Second)
		p.silent()
		p.expectError(request(mcp.V2025_11_25, 1, mcp.MethodSubscribe, `{"uri":"x:a"}`), mcp.CodeMethodNotFound, "1") // RES-05, BASE-14
		q := serve(t, s)                                                                                              // one that comes later
		q.initialize(mcp.V2025_11_25)
		s.Changed(1)
		time.Sleep(time.Second)
		p.silent()
		q.wants(notice(mcp.NotificationPromptsChanged))
	})
}

// LIFE-07: before notifications/initialized nothing is told, but what has changed since
// the handshake is told then; what had changed before is not.
func TestListChangedBeforeInitialized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hub(t, nil)
		s.Changed(0)
		p := serve(t, s)
		p.version, p.check = mcp.V2025_11_25, official(t, mcp.V2025_11_25)
		p.ask(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"peer","version":"1"}}}`)
		s.Changed(1)
		time.Sleep(time.Second)
		p.silent()
		p.expectError(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"peer","version":"1"}}}`, mcp.CodeInvalidRequest, "1")
		p.send(notice(mcp.NotificationInitialized))
		p.wants(notice(mcp.NotificationPromptsChanged))
		p.send(notice(mcp.NotificationInitialized)) // again: nothing new
		time.Sleep(time.Second)
		p.silent()
	})
}

// RES-05: a legacy client hears of the resources that it has subscribed to, and of
// those below them, until it takes that back.
func TestSubscribe(t *testing.T) {
	for _, v := range mcp.LegacyVersions() {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := hub(t, nil)
				p, other := serve(t, s), serve(t, s)
				p.open(v)
				other.open(v)
				id := 0
				ask := func(method, uri string) {
					t.Helper()
					id++
					p.expect(request(v, id, method, fmt.Sprintf(`{"uri":%q}`, uri)), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id))
				}
				ask(mcp.MethodSubscribe, "file:///a")
				ask(mcp.MethodSubscribe, "file:///a") // again is once
				ask(mcp.MethodSubscribe, "x://h/dir/")
				ask(mcp.MethodUnsubscribe, "x:never")
				for _, uri := range []string{"file:///a", "file:///a/b", "file:///a/b/c", "file:///a?q", "file:///a#f", "x://h/dir/", "x://h/dir/f"} {
					s.ResourceUpdated(uri)
					s.ResourceUpdated(uri)
					p.wants(updated(uri))
				}
				for _, uri := range []string{"file:///ab", "file:///b", "file:///", "x://h/dir", "x://h/dirt", "", "/", "a"} {
					s.ResourceUpdated(uri)
				}
				time.Sleep(time.Second)
				p.silent()
				ask(mcp.MethodSubscribe, "file:///a/b")
				s.ResourceUpdated("file:///a/b/c") // below both, told once
				p.wants(updated("file:///a/b/c"))
				ask(mcp.MethodUnsubscribe, "file:///a")
				s.ResourceUpdated("file:///a")
				s.ResourceUpdated("file:///a/b")
				p.wants(updated("file:///a/b"))
				other.silent()
				p.in.Close()
				<-p.ended
				if _, uris, _, quotas, bytes := s.Subscribed(); uris+quotas+bytes != 0 {
					t.Errorf("left: %d URIs, %d quotas, %d bytes", uris, quotas, bytes)
				}
			})
		})
	}
}

// RES-08, ROB-3: what is no URI is refused, and so is one too many.
func TestSubscribeRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const v = mcp.V2025_11_25
		s := hub(t, &mcpserver.Options{Limits: mcpserver.Limits{MaxSubscriptions: 2}})
		p := serve(t, s)
		p.initialize(v)
		for _, params := range []string{`{}`, `{"uri":null}`, `{"uri":1}`, `{"uri":""}`, `{"uri":"relative"}`, `{"uri":"x:` + strings.Repeat("y", 3000) + `"}`} {
			for _, method := range []string{mcp.MethodSubscribe, mcp.MethodUnsubscribe} {
				p.expectError(request(v, 1, method, params), mcp.CodeInvalidParams, "1")
			}
		}
		p.ask(request(v, 2, mcp.MethodSubscribe, `{"uri":"x:1"}`))
		p.ask(request(v, 3, mcp.MethodSubscribe, `{"uri":"x:2"}`))
		p.expectError(request(v, 4, mcp.MethodSubscribe, `{"uri":"x:3"}`), mcp.CodeInternal, "4")
		p.ask(request(v, 5, mcp.MethodUnsubscribe, `{"uri":"x:1"}`))
		p.expect(request(v, 6, mcp.MethodSubscribe, `{"uri":"x:3"}`), `{"jsonrpc":"2.0","id":6,"result":{}}`)
		if _, uris, _, _, _ := s.Subscribed(); uris != 2 {
			t.Errorf("%d URIs are watched, want 2", uris)
		}
	})
}

// MOD-09: 2026-07-28 has no such methods.
func TestSubscribeModern(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := serve(t, hub(t, nil))
		p.modern()
		for _, method := range []string{mcp.MethodSubscribe, mcp.MethodUnsubscribe} {
			p.expectError(request(mcp.V2026_07_28, 1, method, `{"uri":"x:a"}`), mcp.CodeMethodNotFound, "1")
		}
	})
}

// ROB-3: however much changes at once, what waits to be told is bounded; then the
// subscribed resource stands for what lies below it.
func TestManyUpdates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hub(t, nil)
		p := serve(t, s)
		p.initialize(mcp.V2025_11_25)
		p.ask(request(mcp.V2025_11_25, 1, mcp.MethodSubscribe, `{"uri":"x:dir"}`))
		for i := range 5000 {
			s.ResourceUpdated(fmt.Sprintf("x:dir/%d", i))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		n, last := len(p.lines), ""
		for range n {
			last = p.receive()
		}
		if n != 1025 || last != updated("x:dir") {
			t.Errorf("%d notices, the last of them %s; want 1024 and one of x:dir", n, last)
		}
		s.ResourceUpdated("x:" + strings.Repeat("/", 10_000)) // many places to look, and none
		p.silent()
	})
}

// ERA-10, ERA-11, SUB-04, RES-05: both eras on one pipe, each told in its own way.
func TestBothErasAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hub(t, nil)
		p := serve(t, s)
		p.initialize(mcp.V2025_11_25)
		p.check = nil // of two revisions
		p.send(listen("L", `{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}`))
		p.wants(acknowledged(`"L"`, `{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}`))
		p.ask(request(mcp.V2025_11_25, 2, mcp.MethodSubscribe, `{"uri":"file:///a/b"}`))
		s.Changed(0)
		s.Changed(2)
		p.wants(notice(mcp.NotificationToolsChanged), notice(mcp.NotificationResourcesChanged), of(`"L"`, mcp.NotificationToolsChanged, ""))
		s.ResourceUpdated("file:///a")
		p.wants(of(`"L"`, mcp.NotificationResourceUpdated, `"uri":"file:///a"`))
		s.ResourceUpdated("file:///a/b")
		p.wants(of(`"L"`, mcp.NotificationResourceUpdated, `"uri":"file:///a/b"`), updated("file:///a/b"))
		p.send(cancelled(`"L"`))
		p.silent()
		s.Changed(0)
		s.ResourceUpdated("file:///a/b")
		p.wants(notice(mcp.NotificationToolsChanged), updated("file:///a/b"))
	})
}

// A client that does not read delays nobody: what is told is told to the others.
func TestSlowClientIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hub(t, nil)
		p, stuck := serve(t, s), serveStuck(t, s)
		p.modern()
		p.send(listen(1, `{"toolsListChanged":true}`))
		p.wants(acknowledged("1", `{"toolsListChanged":true}`))
		for range 10 {
			s.Changed(0)
			s.ResourceUpdated("x:a")
			p.wants(of("1", mcp.NotificationToolsChanged, ""))
		}
		select {
		case err := <-stuck:
			t.Errorf("the connection that is not read ended with %v", err)
		default:
		}
	})
}

// serveStuck serves a client that listens and never reads.
func serveStuck(t *testing.T, s *mcpserver.Server) <-chan error {
	t.Helper()
	in, out := strings.NewReader(listen(1, `{"toolsListChanged":true,"resourceSubscriptions":["x:a"]}`)+"\n"), make(stuck)
	ended := make(chan error, 1)
	r, w := io.Pipe()
	go func() { ended <- s.Serve(t.Context(), io.MultiReader(in, r), out) }()
	t.Cleanup(func() { w.Close() })
	synctest.Wait()
	return ended
}

// stuck is a writer that blocks until it is closed.
type stuck chan struct{}

func (s stuck) Write([]byte) (int, error) {
	<-s
	return 0, io.ErrClosedPipe
}

func (s stuck) Close() error {
	close(s)
	return nil
}

// A program may change its lists from handlers, from several goroutines, and while the
// server ends.
func TestChangesWhileClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hub(t, nil)
		p := serve(t, s)
		p.modern()
		p.check = nil
		for i := range 10 {
			p.send(listen(i, everything))
		}
		stop := make(chan struct{})
		for range 4 {
			go func() {
				for {
					select {
					case <-stop:
						return
					default:
						s.Changed(0)
						s.ResourceUpdated("file:///a")
						time.Sleep(time.Millisecond)
					}
				}
			}()
		}
		time.Sleep(100 * time.Millisecond)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		time.Sleep(100 * time.Millisecond)
		close(stop)
		over := make(map[string]bool)
		for line := range p.lines { // SUB-08: nothing of a subscription after its end
			var m struct {
				ID     json.RawMessage
				Params struct {
					Meta mcp.Meta `json:"_meta"`
				}
			}
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatal(err)
			}
			if m.ID != nil {
				over[string(m.ID)] = true
			} else if id := m.Params.Meta.SubscriptionID(); over[id.String()] {
				t.Errorf("got %s after the end of %v", line, id)
			}
		}
		if len(over) != 10 {
			t.Errorf("%d subscriptions were answered, want 10", len(over))
		}
	})
}
