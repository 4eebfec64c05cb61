package webserver_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/internal/webserver"
)

// serve serves h by a server as New makes it, and returns what connects to it.
func serve(t *testing.T, h http.Handler) (dial func() net.Conn) {
	t.Helper()
	l, server, ended := memhttp.NewListener(), webserver.New(h), make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return func() net.Conn {
		t.Helper()
		c, err := l.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
}

// SECA-9, ROB-8: a request has 30 s to arrive, whatever the handler does with it: also where it is
// refused at once, and where bytes keep coming. The rest of a body that was refused has 5 s.
func TestSlowRequests(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/read":
			_, _ = io.ReadAll(r.Body)
		case "/flushed":
			w.WriteHeader(http.StatusUnauthorized)
			_ = http.NewResponseController(w).Flush()
		case "/long":
			_, _ = w.Write(make([]byte, 10_000))
		default:
			http.Error(w, "refused", http.StatusUnauthorized)
		}
	})
	for _, path := range []string{"/read", "/flushed", "/long", "/refused"} {
		for name, head := range map[string]string{
			"a length":  "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n{",
			"large":     "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 600000000\r\n\r\n{",
			"chunks":    "POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n",
			"a GET":     "GET %s HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n",
			"continue":  "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\nExpect: 100-continue\r\n\r\n",
			"HTTP/1.0":  "POST %s HTTP/1.0\r\nContent-Length: 60000\r\n\r\n",
			"no header": "POST %s HTTP/1.1\r\nHost: x\r\nX-",
		} {
			t.Run(path+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					dial := serve(t, handler)
					want := memhttp.HoldTime
					if path == "/refused" && name != "no header" {
						want = 12 * time.Second
					}
					if got := memhttp.Held(t, dial(), fmt.Sprintf(head, path)); got > want {
						t.Errorf("the connection is held for %v", got)
					}
				})
			})
		}
	}
}

// A handler may take longer than its request: neither its context nor its answer ends with that.
func TestLongCalls(t *testing.T) {
	for name, head := range map[string]string{
		"a GET":  "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"a POST": "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
	} {
		for server, own := range map[string]bool{"by New": true, "on another server": false} {
			t.Run(name+" "+server, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						webserver.BoundBody(w, r)
						_, _ = io.ReadAll(r.Body)
						webserver.BodyRead(w, r)
						select {
						case <-r.Context().Done():
						case <-time.After(time.Hour):
							_, _ = io.WriteString(w, "done")
						}
					})
					var c net.Conn
					if own {
						c = serve(t, handler)()
					} else {
						var err error
						if c, err = memhttp.Listen(t, handler)(t.Context(), "", ""); err != nil {
							t.Fatal(err)
						}
						defer c.Close()
					}
					if _, err := io.WriteString(c, head); err != nil {
						t.Fatal(err)
					}
					if got, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(got), "done") {
						t.Errorf("got %q, %v", got, err)
					}
				})
			})
		}
	}
}

// A handler of ours on a server without bounds has those of BoundBody.
func TestBoundBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memhttp.HeldBy(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			webserver.BoundBody(w, r)
			http.Error(w, "refused", http.StatusForbidden)
		}), "POST / HTTP/1.1\r\nHost: x", "GET / HTTP/1.1\r\nHost: x")
	})
}
