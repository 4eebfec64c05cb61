package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/mcp"
)

// SHM-01, SHL-50, PING-03: the same program works with servers of both eras.
func TestHTTPBothEras(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, *posted){"2025-11-25": legacyWeb(okWeb), "2026-07-28": modernWeb(okWeb)} {
		t.Run(name, func(t *testing.T) {
			webBubble(t, answer, func(t *testing.T, s *webServer, opts *Options) {
				c, err := Dial(t.Context(), webAt("/mcp"), opts)
				if err != nil {
					t.Fatal(err)
				}
				if info, _ := c.Info(t.Context()); string(info.Version) != name {
					t.Errorf("version: got %s, want %s", info.Version, name)
				}
				if err := c.Ping(t.Context()); err != nil {
					t.Errorf("Ping: %v", err)
				}
				if _, err := c.CallTool(t.Context(), "x", nil, nil); err != nil {
					t.Errorf("CallTool: %v", err)
				}
				synctest.Wait() // the GET is sent beside all that
				closeIn(t, c, time.Second)
				want := map[string]string{
					"2025-11-25": "DELETE GET discover initialize initialized ping tools/call",
					"2026-07-28": "discover discover tools/call",
				}[name]
				got := slices.DeleteFunc(strings.Fields(strings.ReplaceAll(s.seen(), "server/", "")), func(m string) bool { return m == "tools/list" })
				slices.Sort(got)
				if strings.Join(got, " ") != want {
					t.Errorf("requests: %s, want %s", got, want)
				}
			})
		})
	}
}

// SHL-43, SHL-52, ROB-8: a server that was restarted has forgotten the session. A new one begins at once; what was
// refused with it is carried out once, what may have been carried out is not repeated.
func TestHTTPRestart(t *testing.T) {
	sessions, calls, runs := 0, 0, map[string]int{}
	var mu sync.Mutex
	server := legacyWeb(nil)
	webBubble(t, func(w http.ResponseWriter, r *posted) {
		mu.Lock()
		defer mu.Unlock()
		name, _ := r.NameString()
		switch {
		case r.Method == mcp.MethodInitialize:
			sessions++
			w.Header().Set("Mcp-Session-Id", fmt.Sprint("s-", sessions))
			say(w, 200, handshakeOf(r.ID))
		case r.Method == mcp.MethodCallTool:
			calls++
			if got := r.Header.Get("Mcp-Session-Id"); got != fmt.Sprint("s-", sessions) || calls == 3 {
				w.WriteHeader(404)
				return
			}
			runs[name]++
			if name == "dies" { // in the middle of the work
				sessions += 100
				panic(http.ErrAbortHandler)
			}
			okWeb(w, r)
		default:
			server(w, r)
		}
	}, func(t *testing.T, s *webServer, opts *Options) {
		c, err := Dial(t.Context(), webAt("/"), opts)
		if err != nil {
			t.Fatal(err)
		}
		tool := func(name string) error {
			_, err := c.CallTool(t.Context(), name, nil, nil)
			return err
		}
		if err := tool("a"); err != nil {
			t.Error(err)
		}
		mu.Lock()
		sessions += 10 // restarted
		mu.Unlock()
		if err := tool("b"); err != nil { // one 404, a new session, again; and then a session that is lost at once
			t.Errorf("after a restart: %v", err)
		}
		if err := tool("dies"); !errors.Is(err, call.ErrConnectionLost) {
			t.Errorf("a call that may have been carried out: got %v", err)
		}
		if err := tool("c"); err != nil {
			t.Errorf("after a crash: %v", err)
		}
		mu.Lock()
		if fmt.Sprint(runs) != "map[a:1 b:1 c:1 dies:1]" {
			t.Errorf("runs: %v", runs)
		}
		mu.Unlock()
		closeIn(t, c, time.Second)
	})
}

// ROB-8: a server that is gone is tried again with growing pauses, and found when it is back. SHM-08: what was under way is
// reported, not repeated; what had not left waits.
func TestHTTPGone(t *testing.T) {
	webBubble(t, modernWeb(okWeb), func(t *testing.T, s *webServer, opts *Options) {
		inner := opts.httpClient.Transport
		gone, tries := false, 0
		var mu sync.Mutex
		opts.httpClient = &http.Client{Transport: trip(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			away := gone
			tries++
			mu.Unlock()
			if away {
				r.Body.Close()
				return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
			}
			return inner.RoundTrip(r)
		})}
		c, err := Dial(t.Context(), webAt("/"), opts)
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		gone, tries = true, 0
		mu.Unlock()
		done := make(chan error, 1)
		go func() {
			_, err := c.CallTool(t.Context(), "x", nil, nil)
			done <- err
		}()
		time.Sleep(300 * time.Millisecond)
		mu.Lock()
		gone = false
		mu.Unlock()
		if err := <-done; err != nil {
			t.Errorf("a call while the server was away: %v", err)
		}
		mu.Lock()
		gone, tries = true, 0
		mu.Unlock()
		if _, err := c.CallTool(t.Context(), "x", nil, nil); !errors.Is(err, call.ErrConnectionLost) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("a server that does not come back: %v", err)
		}
		time.Sleep(3 * time.Second)
		mu.Lock()
		if tries >= 12 {
			t.Errorf("%d attempts in some seconds", tries)
		}
		mu.Unlock()
		closeIn(t, c, time.Second)
	})
}

type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// SHL-16, PING-01, MOD-07: a legacy server's question on the stream of a call is answered by a POST of its own; a modern server's
// is ignored.
func TestHTTPServerAsks(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			webBubble(t, nil, func(t *testing.T, s *webServer, opts *Options) {
				pong := make(chan *posted, 1)
				answer := func(w http.ResponseWriter, r *posted) {
					if r.Kind != mcp.KindRequest {
						w.WriteHeader(202)
						pong <- r
						return
					}
					sayStream(w, `{"jsonrpc":"2.0","id":"ask","method":"ping"}`)
					select {
					case <-pong:
					case <-time.After(time.Second):
						if era == "legacy" {
							t.Error("no answer to ping")
						}
					}
					sayStream(w, `{"jsonrpc":"2.0","id":`+r.ID.String()+`,"result":{"content":[]}}`)
				}
				wrap := map[string]func(func(http.ResponseWriter, *posted)) func(http.ResponseWriter, *posted){"legacy": legacyWeb, "modern": modernWeb}[era]
				s.answer = wrap(answer)
				c, err := Dial(t.Context(), webAt("/"), opts)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c.CallTool(t.Context(), "x", nil, nil); err != nil {
					t.Error(err)
				}
				closeIn(t, c, 2*time.Second)
			})
		})
	}
}

// TIME-01, TIME-02, CANC-02, SHM-09: a call that takes too long is cancelled in the era's own way, also when the connection is half open.
func TestHTTPTimeout(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			webBubble(t, nil, func(t *testing.T, s *webServer, opts *Options) {
				gone := make(chan struct{}, 1)
				answer := func(w http.ResponseWriter, r *posted) {
					if r.Kind == mcp.KindRequest {
						<-r.Ctx.Done()
						gone <- struct{}{}
					} else {
						w.WriteHeader(202)
					}
				}
				wrap := map[string]func(func(http.ResponseWriter, *posted)) func(http.ResponseWriter, *posted){"legacy": legacyWeb, "modern": modernWeb}[era]
				s.answer = wrap(answer)
				c, err := Dial(t.Context(), webAt("/"), opts)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c.CallTool(t.Context(), "x", nil, &CallOptions{Max: 5 * time.Second}); !errors.Is(err, call.ErrTimeout) {
					t.Errorf("CallTool: got %v", err)
				}
				<-gone
				if cancelled := strings.Contains(s.seen(), "cancelled"); cancelled != (era == "legacy") {
					t.Errorf("requests: %s", s.seen())
				}
				closeIn(t, c, 2*time.Second)
			})
		})
	}
}

// Server definitions that cannot work.
func TestHTTPDefinitions(t *testing.T) {
	tests := []struct {
		server Server
		want   string
	}{
		{Server{Name: "x", URL: "http://x/", Transport: "carrier pigeon"}, "unknown transport"},
		{Server{Name: "x", URL: "http://x/", Transport: "sse", Protocol: "modern"}, "has no revision"},
		{Server{Name: "x", URL: "ftp://x/"}, "unusable server address"},
		{Server{Name: "x", URL: "http://user:pass@x/"}, "unusable server address"},
		{Server{Name: "x", URL: "http://x/", Headers: map[string]string{"A": "b\r\nC: d"}}, "unusable header"},
		{Server{Name: "x", URL: "http://x/", Headers: map[string]string{"Mcp-Session-Id": "x"}}, "unusable header"},
		{Server{Name: "x", URL: "http://x/", HeadersFunc: func(context.Context) (map[string]string, error) { return nil, errors.New("no key") }}, "no key"},
	}
	for _, tt := range tests {
		_, err := Dial(t.Context(), tt.server, nil)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "pass") {
			t.Errorf("Dial(%+v): got %v, want %s", tt.server, err, tt.want)
		}
	}
}

// A server on loopback and one on a socket, with headers, over real connections.
func TestHTTPReal(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			s := &webServer{answer: modernWeb(func(w http.ResponseWriter, r *posted) {
				if r.Header.Get("Authorization") != "Bearer x" || r.Header.Get("X-Now") != "1" {
					w.WriteHeader(401)
					return
				}
				okWeb(w, r)
			})}
			web := httptest.NewUnstartedServer(s)
			address := ""
			if network == "unix" {
				path := filepath.Join(t.TempDir(), "s")
				l, err := net.Listen("unix", path)
				if err != nil {
					mcptest.Lacks(t, "sockets", err)
				}
				web.Listener.Close()
				web.Listener, address = l, "unix://"+path+"#/mcp"
			}
			web.Start()
			defer web.Close()
			if address == "" {
				address = web.URL + "/mcp"
			}
			c, err := Dial(t.Context(), Server{
				Name: "web", URL: address, Headers: map[string]string{"Authorization": "Bearer x"},
				HeadersFunc: func(context.Context) (map[string]string, error) { return map[string]string{"X-Now": "1"}, nil },
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.CallTool(t.Context(), "x", nil, nil); err != nil {
				t.Error(err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// SECA-6: fifty clients with the same sequence of ids, at once: each gets its own answers only.
func TestHTTPManyClients(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			echo := func(w http.ResponseWriter, r *posted) {
				if r.Kind != mcp.KindRequest {
					w.WriteHeader(202)
					return
				}
				if r.Method != mcp.MethodCallTool {
					okWeb(w, r)
					return
				}
				args := string(r.Arguments)
				time.Sleep(time.Duration(len(args)) * time.Millisecond)
				sayStream(w, `{"jsonrpc":"2.0","id":`+r.ID.String()+`,"result":{"resultType":"complete","content":[],"structuredContent":`+args+`}}`)
			}
			wrap := map[string]func(func(http.ResponseWriter, *posted)) func(http.ResponseWriter, *posted){"legacy": legacyWeb, "modern": modernWeb}[era]
			webBubble(t, wrap(echo), func(t *testing.T, s *webServer, opts *Options) {
				var all sync.WaitGroup
				for i := range 50 {
					c, err := Dial(t.Context(), webAt(fmt.Sprint("/", i)), opts)
					if err != nil {
						t.Fatal(err)
					}
					defer closeIn(t, c, 5*time.Second)
					for j := range 10 {
						all.Go(func() {
							args := fmt.Sprintf(`{"marker":"%d-%d%s"}`, i, j, strings.Repeat("x", i*j%7))
							res, err := c.CallTool(t.Context(), "echo", []byte(args), nil)
							if err != nil || string(res.StructuredContent) != args {
								t.Errorf("CallTool(%s): got %+v, %v", args, res, err)
							}
						})
					}
				}
				all.Wait()
			})
		})
	}
}

// SECA-22, ROB-6, SEC-10: no redirect takes a request, and the secrets in it, to another place, and there are no cookies.
func TestHTTPRedirects(t *testing.T) {
	elsewhere := &webServer{answer: okWeb}
	other := httptest.NewServer(elsewhere)
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := &webServer{answer: func(w http.ResponseWriter, r *posted) {
			http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
			if r.HTTP == "POST" && r.Method != mcp.MethodCallTool {
				legacyWeb(okWeb)(w, r)
				return
			}
			w.Header().Set("Location", other.URL)
			w.WriteHeader(status)
		}}
		web := httptest.NewServer(s)
		c, err := Dial(t.Context(), Server{Name: "web", URL: web.URL, Headers: map[string]string{"Authorization": "Bearer x"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.CallTool(t.Context(), "x", nil, nil)
		if refused, ok := errors.AsType[*call.TransportError](err); !ok || refused.Status != status {
			t.Errorf("%d: CallTool: got %v", status, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for _, r := range s.all() {
			if r.Header.Get("Cookie") != "" {
				t.Errorf("%s %s sends a cookie", r.HTTP, r.Method)
			}
		}
		web.Close()
	}
	if n := len(elsewhere.all()); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}
