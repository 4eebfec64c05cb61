package hostile

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

func init() {
	register("mute", func() script {
		calls := make(chan struct{}, 10)
		return func(c *turn) bool {
			if c.m.Method != mcp.MethodCallTool || c.name() == "good" {
				return false
			}
			if c.name() == "take one" { // answers once there was a call that has no answer
				select {
				case <-calls:
				case <-c.gone:
				}
				return false
			}
			select {
			case calls <- struct{}{}:
				<-c.gone
			case <-c.gone:
			}
			return true
		}
	})
	// Answers that come twice, late, without a request, and to the id of another.
	register("duplicates", func() script {
		begun, cancelled, answered := make(chan struct{}), make(chan struct{}), make(chan struct{})
		wait := func(c *turn, until chan struct{}) {
			select {
			case <-until:
			case <-c.gone:
			}
		}
		return func(c *turn) bool {
			if c.m.Method == mcp.NotificationCancelled {
				close(cancelled)
			}
			if c.m.Method != mcp.MethodCallTool {
				return false
			}
			switch c.name() {
			case "late":
				close(begun)
				wait(c, cancelled) // on modern HTTP the stream ends instead
				defer close(answered)
			case "late has begun":
				wait(c, begun)
			case "late was answered":
				wait(c, answered)
			}
			// Not null: on the stream of a request such an error is about that.
			for _, id := range []string{`0`, `-1`, `"%ID%"`, `99999`, `%ID%000`, `"x"`} {
				c.say(`{"jsonrpc":"2.0","id":` + id + `,"result":` + smuggled + `}`)
				c.say(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":1,"message":"SMUGGLED"}}`)
			}
			c.textResult(c.name())
			c.result(smuggled)
			c.say(`{"jsonrpc":"2.0","id":%ID%,"error":{"code":1,"message":"SMUGGLED"}}`)
			return true
		}
	})
}

// SECA-13: answers that are unsolicited, duplicate, or late touch no call.
func TestStrayAnswers(t *testing.T) {
	everyStream(t, "duplicates", func(t *testing.T, _ way, s mcpclient.Server) {
		c := dial(t, s, nil)
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				want := fmt.Sprint("call ", i)
				if got, err := text(t, c, want, mcptest.Patience); err != nil || got != want {
					t.Errorf("%s: got %q, %v", want, got, err)
				}
			})
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		all.Go(func() {
			if res, err := c.CallTool(ctx, "late", nil, nil); err == nil { // cancelled, then answered
				t.Errorf("the late call: got %q", res.Content.Text())
			}
		})
		for _, name := range []string{"late has begun", "late was answered"} {
			if got, err := text(t, c, name, mcptest.Patience); err != nil || got != name {
				t.Errorf("%s: got %q, %v", name, got, err)
			}
			cancel()
		}
		all.Wait()
		if got, err := text(t, c, "good", answerBound); err != nil || got != "good" || c.Status().Generation != 1 {
			t.Errorf("afterwards: got %q, %v, generation %d", got, err, c.Status().Generation)
		}
	})
}

// ROB-7, ROB-8: Close is final, within its bound, from every state, and leaves nothing.
func TestCloseFromEveryState(t *testing.T) {
	before, _ := mcptest.Goroutines()
	t.Run("all", func(t *testing.T) {
		everyWay(t, "mute", func(t *testing.T, _ way, s mcpclient.Server) {
			t.Run("with calls", func(t *testing.T) {
				t.Parallel()
				c, err := mcpclient.Dial(t.Context(), s, &mcpclient.Options{System: mcptest.NewSystem(t), Logger: mcptest.Quiet()})
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 10)
				for range cap(ended) {
					go func() { _, err := c.CallTool(context.Background(), "mute", nil, nil); ended <- err }()
				}
				for range cap(ended) {
					if _, err := text(t, c, "take one", mcptest.Patience); err != nil {
						t.Errorf("a call has not begun: %v", err)
					}
				}
				closeSoon(t, c.Close)
				for range cap(ended) {
					select {
					case err := <-ended:
						if err == nil {
							t.Error("a call: got no error")
						}
					case <-time.After(mcptest.Patience):
						t.Fatal("a call goes on after Close")
					}
				}
				if _, err := c.CallTool(t.Context(), "good", nil, nil); err == nil {
					t.Error("a call after Close: got no error")
				}
			})
			t.Run("lazy", func(t *testing.T) {
				t.Parallel()
				c, err := mcpclient.Dial(t.Context(), s, &mcpclient.Options{System: mcptest.NewSystem(t), Logger: mcptest.Quiet(), Lazy: true})
				if err != nil {
					t.Fatal(err)
				}
				closeSoon(t, c.Close)
			})
		})
		for name, s := range sickServers(t) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c, err := mcpclient.Dial(t.Context(), s, &mcpclient.Options{System: mcptest.NewSystem(t), Logger: mcptest.Quiet(), Lazy: true})
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() { _, err := c.CallTool(context.Background(), "x", nil, nil); ended <- err }()
				mcptest.Eventually(t, mcptest.Patience, "connecting", func() bool { return c.Status().Generation > 0 })
				closeSoon(t, c.Close)
				select {
				case err := <-ended:
					if err == nil {
						t.Error("the call: got no error")
					}
				case <-time.After(mcptest.Patience):
					t.Error("the call goes on after Close")
				}
			})
		}
	})
	mcptest.GoroutinesBack(t, before)
}

// sickServers can not be connected to, each in another way.
func sickServers(t testing.TB) map[string]mcpclient.Server {
	mute, err := net.Listen("tcp", "127.0.0.1:0") // accepts, in the kernel, and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mute.Close() })
	hang := listen(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	loris := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, ":")
			w.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond)
		}
	}))
	web := func(url string) mcpclient.Server { return mcpclient.Server{Name: "peer", URL: url} }
	sse := func(url string) mcpclient.Server {
		return mcpclient.Server{Name: "peer", URL: url, Transport: mcpclient.TransportSSE}
	}
	sleep := mcpclient.Command("sleep", "100")
	stubborn := mcpclient.Command("sh", "-c", "trap '' TERM; sleep 100 & wait; sleep 100")
	return map[string]mcpclient.Server{
		"http that is mute": web("http://" + mute.Addr().String()), "http that hangs": web(hang), "http that drips": web(loris),
		"sse that is mute": sse("http://" + mute.Addr().String()), "sse that hangs": sse(hang), "sse that drips": sse(loris),
		"http refused": web("http://127.0.0.1:1"), "sse refused": sse("http://127.0.0.1:1"), "no socket": web("unix:///nonexistent/s#/mcp"),
		"process that is mute": sleep, "process that is stubborn": stubborn, "process that ends": mcpclient.Command("true"),
		"stream that hangs": mcpclient.Stream("peer", func(ctx context.Context) (io.ReadWriteCloser, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}),
		"stream that is mute": mcpclient.Stream("peer", func(context.Context) (io.ReadWriteCloser, error) {
			ours, _ := net.Pipe()
			return ours, nil
		}),
	}
}

// ROB-8: connecting is bounded, whatever the server does.
func TestConnectIsBounded(t *testing.T) {
	t.Parallel()
	for name, s := range sickServers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.ConnectTimeout = 2 * time.Second
			begin := time.Now()
			_, err := mcpclient.Dial(t.Context(), s, &mcpclient.Options{System: mcptest.NewSystem(t), Logger: mcptest.Quiet(), ProbeTimeout: time.Second})
			if took := time.Since(begin); err == nil || took > mcptest.Patience {
				t.Errorf("Dial: got %v after %v", err, took)
			}
		})
	}
}

// ROB-8: a server that always fails is tried fewer than ten times in 3 s, however much
// it is wanted, wherever it fails.
func TestReconnectsAreFew(t *testing.T) {
	t.Parallel()
	counted := func(h http.HandlerFunc, sse bool) (func(testing.TB) mcpclient.Server, *atomic.Int32) {
		n := new(atomic.Int32)
		return func(t testing.TB) mcpclient.Server {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				if sse && r.Method == http.MethodGet || !sse && strings.Contains(string(raw), `"initialize"`) {
					n.Add(1)
				}
				r.Body = io.NopCloser(strings.NewReader(string(raw)))
				h(w, r)
			}))
			t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
			return mcpclient.Server{Name: "peer", URL: s.URL, Protocol: mcpclient.ProtocolLegacy, Transport: mcpclient.TransportHTTP}
		}, n
	}
	reset := func(w http.ResponseWriter, _ *http.Request) {
		if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
			c.Close()
		}
	}
	status := func(n int) http.HandlerFunc { return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(n) } }
	shy := &web{p: newPolite("polite", mcp.V2025_11_25)} // initialises, and then has lost the session
	shy.raw = func(w http.ResponseWriter, _ *http.Request, m *mcp.Message) bool {
		if m.Method == mcp.MethodInitialize || m.Kind != mcp.KindRequest {
			return false
		}
		w.WriteHeader(http.StatusNotFound)
		return true
	}
	endpointThenEnd := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: endpoint\ndata: /m\n\n")
	}
	for name, h := range map[string]http.HandlerFunc{
		"resets": reset, "500": status(500), "503": status(503), "429": status(429), "404": status(404), "200": status(200), "202": status(202),
		"lost session": shy.ServeHTTP, "sse ends": endpointThenEnd, "sse resets": reset, "sse 500": status(500),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sse := strings.HasPrefix(name, "sse")
			open, n := counted(h, sse)
			s := open(t)
			if sse {
				s.Transport = mcpclient.TransportSSE
			}
			c, err := mcpclient.Dial(t.Context(), s, &mcpclient.Options{System: mcptest.NewSystem(t), Logger: mcptest.Quiet(), Lazy: true})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					for ctx.Err() == nil {
						_, _ = c.CallTool(ctx, "x", nil, nil)
						time.Sleep(5 * time.Millisecond)
					}
				})
			}
			all.Wait()
			if got := n.Load(); got == 0 || got >= 10 {
				t.Errorf("%d attempts in 3 s, want some and fewer than 10", got)
			}
			closeSoon(t, c.Close)
		})
	}
}

// proxy forwards TCP until it is told to stop: then connections stay and carry nothing.
type proxy struct {
	addr  string
	stuck atomic.Bool
	mu    sync.Mutex
	conns []net.Conn
}

func newProxy(t testing.TB, to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String()}
	var all sync.WaitGroup
	pump := func(dst, src net.Conn) {
		buf := make([]byte, 32<<10)
		for {
			n, err := src.Read(buf)
			if err != nil {
				dst.Close()
				return
			}
			if !p.stuck.Load() {
				_, _ = dst.Write(buf[:n])
			}
		}
	}
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				c.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, c, out)
			p.mu.Unlock()
			all.Go(func() { pump(out, c) })
			all.Go(func() { pump(c, out) })
		}
	})
	t.Cleanup(func() { l.Close(); p.cut(); all.Wait() })
	return p
}

// cut closes all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

// ROB-2, ROB-8: a connection that carries nothing any more: calls end in time, and once
// it is cut the next one works.
func TestHalfOpen(t *testing.T) {
	for _, w := range ways {
		if w.name == "stdio" || w.name == "in process" || w.name == "unix stream" {
			continue // there is no network
		}
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			s := w.open(t, "polite", w.version)
			u, err := url.Parse(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			p := newProxy(t, u.Host)
			s.URL, s.IdleTimeout = "http://"+p.addr, time.Second
			c := dial(t, s, nil)
			if _, err := text(t, c, "good", mcptest.Patience); err != nil {
				t.Fatal(err)
			}
			p.stuck.Store(true)
			begin := time.Now()
			if got, err := text(t, c, "lost", mcptest.Patience); err == nil || time.Since(begin) >= mcptest.Patience {
				t.Errorf("the call: got %q, %v after %v", got, err, time.Since(begin))
			}
			p.stuck.Store(false)
			p.cut()
			mcptest.Eventually(t, mcptest.Patience, "answered", func() bool { got, err := text(t, c, "good", 5*time.Second); return err == nil && got == "good" })
		})
	}
}

// ROB-2: a server that is started anew in the middle of a session, on its old address.
func TestRestartedServer(t *testing.T) {
	for _, w := range ways {
		if w.name == "stdio" || w.name == "in process" || w.name == "unix stream" {
			continue // see TestKilledInACall; streams are of package mcpclient's tests
		}
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			first := w.open(t, "mute", w.version)
			second := w.open(t, "mute", w.version)
			var to atomic.Pointer[string]
			to.Store(&first.URL)
			sessions := new(sync.Map)
			alive, kill := context.WithCancel(t.Context()) // the first server, and its streams
			front := listen(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				target := *to.Load()
				u, _ := url.Parse(target)
				if id := r.Header.Get("Mcp-Session-Id"); id != "" {
					if _, known := sessions.Load(id + target); !known {
						rw.WriteHeader(http.StatusNotFound)
						return
					}
				}
				ctx, done := context.WithCancel(r.Context())
				defer done()
				if target == first.URL {
					defer context.AfterFunc(alive, done)()
				}
				out := r.Clone(ctx)
				out.URL.Scheme, out.URL.Host, out.Host, out.RequestURI = "http", u.Host, u.Host, ""
				res, err := http.DefaultTransport.RoundTrip(out)
				if err != nil {
					rw.WriteHeader(http.StatusBadGateway)
					return
				}
				defer res.Body.Close()
				for k, v := range res.Header {
					rw.Header()[k] = v
				}
				if id := res.Header.Get("Mcp-Session-Id"); id != "" {
					sessions.Store(id+target, true)
				}
				rw.WriteHeader(res.StatusCode)
				buf := make([]byte, 4096)
				for {
					n, err := res.Body.Read(buf)
					_, _ = rw.Write(buf[:n])
					rw.(http.Flusher).Flush()
					if err != nil {
						return
					}
				}
			}))
			s := first
			s.URL, s.IdleTimeout = front, 2*time.Second
			c := dial(t, s, nil)
			if _, err := text(t, c, "good", mcptest.Patience); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { _, err := text(t, c, "mute", mcptest.Patience); ended <- err }()
			if _, err := text(t, c, "take one", mcptest.Patience); err != nil {
				t.Fatal(err)
			}
			to.Store(&second.URL)
			kill()
			mcptest.Eventually(t, mcptest.Patience, "answered", func() bool { got, err := text(t, c, "good", 5*time.Second); return err == nil && got == "good" })
			select {
			case err := <-ended:
				if err == nil {
					t.Error("the call under way: got no error")
				}
			case <-time.After(mcptest.Patience):
				t.Error("the call under way does not end")
			}
		})
	}
}
