package httpguard

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/internal/memhttp"
)

// recorder is a server that keeps what it was asked.
type recorder struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*http.Request
}

func newRecorder(t *testing.T, h http.HandlerFunc) *recorder {
	t.Helper()
	r := new(recorder)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.seen = append(r.seen, req)
		r.mu.Unlock()
		if h != nil {
			h(w, req)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *recorder) requests() []*http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*http.Request(nil), r.seen...)
}

func newClient(t *testing.T, o *Options) *http.Client {
	t.Helper()
	c := NewClient(o)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func request(t *testing.T, method, url string) *http.Request {
	t.Helper()
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader(`{"jsonrpc":"2.0"}`)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer canary")
	req.Header.Set("Mcp-Session-Id", "canary")
	return req
}

// SECA-22, ROB-6: what a request carries goes to no other origin, on no redirect.
func TestNothingGoesToAnotherOrigin(t *testing.T) {
	other := newRecorder(t, nil)
	otherTLS := httptest.NewTLSServer(other.Config.Handler)
	defer otherTLS.Close()
	targets := map[string]string{
		"port":         other.URL + "/mcp",
		"name":         strings.Replace(other.URL, "127.0.0.1", "localhost", 1),
		"scheme":       otherTLS.URL,
		"socket":       "unix:///tmp/x.sock#/",
		"reserved":     "http://2f746d70" + socketSuffix + "/",
		"no scheme":    "//" + strings.TrimPrefix(other.URL, "http://") + "/x",
		"a user name":  strings.Replace(other.URL, "http://", "http://127.0.0.1@", 1),
		"other scheme": "ftp://127.0.0.1/",
	}
	for name, target := range targets {
		for _, status := range []int{301, 302, 303, 307, 308} {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
				first := newRecorder(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Location", target)
					w.WriteHeader(status)
				})
				resp, err := Do(newClient(t, nil), request(t, method, first.URL), 0)
				if _, refused := errors.AsType[*RedirectError](err); !refused {
					t.Errorf("%s, %s answered with %d to %s: got %v, %v, want a RedirectError", name, method, status, target, resp, err)
				}
				if errors.Is(err, ErrUnsent) {
					t.Errorf("%s: a request that was redirected counts as unsent", name)
				}
			}
		}
	}
	if seen := other.requests(); len(seen) != 0 {
		t.Errorf("the other origin got %d requests, the first: %v", len(seen), seen[0].Header)
	}
}

// A redirect from https to http of the same host is another origin too.
func TestNoDowngrade(t *testing.T) {
	plain := newRecorder(t, nil)
	secure := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	defer secure.Close()
	c := newClient(t, &Options{TLS: trust(secure)})
	_, err := Do(c, request(t, http.MethodGet, secure.URL), 0)
	if _, refused := errors.AsType[*RedirectError](err); !refused || len(plain.requests()) > 0 {
		t.Errorf("got %v and %d requests in the open, want a RedirectError and none", err, len(plain.requests()))
	}
}

func trust(s *httptest.Server) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return &tls.Config{RootCAs: pool}
}

func TestRedirectsAtHome(t *testing.T) {
	tests := []struct {
		method string
		hops   int
		want   bool // followed
	}{
		{http.MethodGet, 1, true},
		{http.MethodGet, 3, true},
		{http.MethodGet, 4, false},
		{http.MethodGet, 1000, false},
		{http.MethodPost, 1, false},
		{http.MethodDelete, 1, false},
	}
	for _, tt := range tests {
		var hops atomic.Int32
		r := newRecorder(t, func(w http.ResponseWriter, req *http.Request) {
			if int(hops.Add(1)) <= tt.hops {
				http.Redirect(w, req, "/next?secret=1", http.StatusTemporaryRedirect)
			}
		})
		resp, err := Do(newClient(t, nil), request(t, tt.method, r.URL), 0)
		if err == nil {
			resp.Body.Close()
		}
		if (err == nil) != tt.want {
			t.Errorf("%s redirected %d times: got %v, want followed: %v", tt.method, tt.hops, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error holds a query: %v", err)
		}
		for _, req := range r.requests() {
			if got := req.Header.Get("Authorization"); got != "Bearer canary" {
				t.Errorf("%s to %s at the same origin: got Authorization %q, want it kept", tt.method, req.URL, got)
			}
		}
		if n := len(r.requests()); n > maxRedirects+1 {
			t.Errorf("%s: got %d requests, want at most %d", tt.method, n, maxRedirects+1)
		}
	}
}

func TestNoCookies(t *testing.T) {
	r := newRecorder(t, func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
	})
	c := newClient(t, nil)
	for range 2 {
		resp, err := Do(c, request(t, http.MethodGet, r.URL), 0)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	for _, req := range r.requests() {
		if got := req.Header.Values("Cookie"); len(got) > 0 {
			t.Errorf("got cookies %q, want none", got)
		}
		if got := req.Header.Get("Accept-Encoding"); got != "gzip" {
			t.Errorf("got Accept-Encoding %q, want gzip", got)
		}
	}
}

func TestProxy(t *testing.T) {
	proxy := newRecorder(t, nil)
	at, _ := url.Parse(proxy.URL)
	c := newClient(t, &Options{Proxy: http.ProxyURL(at)})
	home := newRecorder(t, nil)
	_, port, _ := net.SplitHostPort(home.Listener.Addr().String())
	tests := []struct {
		url   string
		proxy bool
	}{
		{"http://server.test/mcp", true},
		{"http://127.0.0.1.test/mcp", true},
		{"http://notlocalhost/mcp", true},
		{home.URL, false},
		{"http://127.1.2.3:" + port, false},
		{"http://localhost:" + port, false},
		{"http://LOCALHOST.:" + port, false},
		{"http://[::ffff:127.0.0.1]:" + port, false},
	}
	for _, tt := range tests {
		before := len(proxy.requests())
		resp, err := Do(c, request(t, http.MethodGet, tt.url), 0)
		if err == nil {
			resp.Body.Close()
		} // else the machine may not have the address; what counts is the proxy
		if got := len(proxy.requests()) > before; got != tt.proxy {
			t.Errorf("GET %s: got through the proxy %v (%v), want %v", tt.url, got, err, tt.proxy)
		}
	}
}

// The environment is read once in a process, so another one is needed.
func TestProxyFromEnvironment(t *testing.T) {
	if target := os.Getenv("HTTPGUARD_TARGET"); target != "" {
		for _, u := range strings.Split(target, " ") {
			if resp, err := Do(newClient(t, nil), request(t, http.MethodGet, u), 0); err == nil {
				resp.Body.Close()
			}
		}
		return
	}
	proxy := newRecorder(t, nil)
	home := newRecorder(t, nil)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProxyFromEnvironment$")
	cmd.Env = []string{
		"HTTP_PROXY=" + proxy.URL, "NO_PROXY=direct.invalid",
		"HTTPGUARD_TARGET=http://one.invalid/ http://direct.invalid/ " + home.URL,
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if seen := proxy.requests(); len(seen) != 1 || seen[0].Host != "one.invalid" {
		t.Errorf("the proxy got %d requests, want the one for one.invalid", len(seen))
	}
	if n := len(home.requests()); n != 1 {
		t.Errorf("the server on this machine got %d requests, want 1", n)
	}
}

func TestTLS(t *testing.T) {
	for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: version}
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		cfg := trust(s)
		cfg.MinVersion = tls.VersionTLS10
		resp, err := Do(newClient(t, &Options{TLS: cfg}), request(t, http.MethodGet, s.URL), 0)
		if err == nil {
			resp.Body.Close()
		}
		if (err == nil) != want {
			t.Errorf("a server with %s: got %v, want accepted: %v", tls.VersionName(version), err, want)
		}
		if !want && !errors.Is(err, ErrUnsent) {
			t.Errorf("a server with %s: got %v, want ErrUnsent", tls.VersionName(version), err)
		}
		if cfg.MinVersion != tls.VersionTLS10 {
			t.Error("the caller's configuration was changed")
		}
		s.Close()
	}
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	if _, err := Do(newClient(t, nil), request(t, http.MethodGet, s.URL), 0); err == nil {
		t.Error("a certificate that nobody has signed was trusted")
	}
}

// raw is a server that writes what it likes.
func raw(t *testing.T, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if req, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					io.Copy(io.Discard, req.Body)
					io.WriteString(conn, answer)
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// ROB-3, ROB-8
func TestHostileHeaders(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	tests := map[string]string{
		"one large header":    "HTTP/1.1 200 OK\r\nX: " + long + "\r\n\r\n",
		"many headers":        "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 20_000) + "\r\n",
		"endless 1xx":         strings.Repeat("HTTP/1.1 103 Early Hints\r\nX: "+long[:1000]+"\r\n\r\n", 1000),
		"a large status line": "HTTP/1.1 200 " + long + "\r\n\r\n",
		"nothing":             "",
		"no HTTP":             "SSH-2.0-x\r\n",
		"half a header":       "HTTP/1.1 200 OK\r\nContent-Le",
		"two lengths":         "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
	}
	for name, answer := range tests {
		resp, err := Do(newClient(t, nil), request(t, http.MethodPost, raw(t, answer)+"/?secret"), 0)
		if err == nil {
			resp.Body.Close()
			t.Errorf("%s: got status %d, want an error", name, resp.StatusCode)
			continue
		}
		if errors.Is(err, ErrUnsent) {
			t.Errorf("%s: got %v, which counts as unsent", name, err)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error holds a query: %v", name, err)
		}
	}
}

// ROB-8: a server that takes the request and says nothing.
func TestHeaderInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		c := memhttp.Serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stop }))
		defer close(stop)
		_, err := Do(c, request(t, http.MethodPost, "http://server/"), time.Minute)
		if !errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, ErrUnsent) {
			t.Errorf("got %v, want a deadline that is not ErrUnsent", err)
		}
	})
}

// The limit is for the header: a stream may last.
func TestStreamOutlivesHeaderLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memhttp.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			time.Sleep(2 * time.Minute)
			io.WriteString(w, "late")
		}))
		resp, err := Do(c, request(t, http.MethodGet, "http://server/"), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if got, err := readAll(resp, 0); err != nil || string(got) != "late" {
			t.Errorf("reading after the limit: got %q, %v, want late", got, err)
		}
	})
}

func TestUnsent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + l.Addr().String() + "/?secret"
	l.Close()
	_, err = Do(newClient(t, nil), request(t, http.MethodPost, nobody), 0)
	if !errors.Is(err, ErrUnsent) || strings.Contains(err.Error(), "secret") {
		t.Errorf("nobody listens: got %v, want ErrUnsent without the query", err)
	}
	if _, err := Do(newClient(t, nil), request(t, http.MethodGet, "unix:///nowhere/x.sock"), 0); !errors.Is(err, ErrUnsent) {
		t.Errorf("no socket: got %v, want ErrUnsent", err)
	}
}

// A server has a bounded number of connections; the next request waits for one.
func TestMaxConns(t *testing.T) {
	const limit = 3
	release := make(chan struct{})
	arrived := make(chan struct{}, 10)
	r := newRecorder(t, func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	})
	c := newClient(t, &Options{MaxConns: limit})
	var wg sync.WaitGroup
	for range 2 * limit {
		wg.Go(func() {
			if resp, err := Do(c, request(t, http.MethodGet, r.URL), 0); err == nil {
				resp.Body.Close()
			}
		})
	}
	for range limit {
		<-arrived
	}
	_, err := Do(c, request(t, http.MethodGet, r.URL), 20*time.Millisecond)
	if !errors.Is(err, ErrUnsent) || len(arrived) > 0 {
		t.Errorf("one more than %d: got %v and %d arrived, want ErrUnsent and none", limit, err, len(arrived))
	}
	close(release)
	wg.Wait()
}

// Open GET streams take no connection from other requests.
func TestStreamsLeaveRoom(t *testing.T) {
	r := newRecorder(t, func(w http.ResponseWriter, req *http.Request) {
		w.WriteHeader(http.StatusOK)
		if req.Method == http.MethodGet {
			http.NewResponseController(w).Flush()
			<-req.Context().Done()
		}
	})
	c := newClient(t, &Options{MaxConns: 1})
	stream := request(t, http.MethodGet, r.URL)
	stream.Header.Set("Accept", "text/event-stream")
	for i, req := range []*http.Request{stream, request(t, http.MethodPost, r.URL)} {
		resp, err := Do(c, req, time.Minute)
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		defer resp.Body.Close()
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s p%20ace.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		mcptest.Lacks(t, "unix sockets", err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/cross":
			http.Redirect(w, req, "/elsewhere", http.StatusFound)
		default:
			io.WriteString(w, req.Host+" "+req.URL.String())
		}
	}))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	defer s.Close()

	bad := func(*http.Request) (*url.URL, error) { return nil, errors.New("a socket was to go through a proxy") }
	c := newClient(t, &Options{Proxy: bad})
	base := (&url.URL{Scheme: "unix", Path: path}).String()
	for sub, want := range map[string]string{"": "localhost /", "#/": "localhost /", "#/mcp?x=1%202": "localhost /mcp?x=1%202", "#/a%2Fb": "localhost /a%2Fb"} {
		u, err := ParseURL(base + sub)
		if err != nil {
			t.Errorf("ParseURL(%q): %v", base+sub, err)
			continue
		}
		resp, err := Do(c, request(t, http.MethodPost, u.String()), 0)
		if err != nil {
			t.Errorf("POST %s: %v", base+sub, err)
			continue
		}
		if got, err := readAll(resp, 0); string(got) != want || err != nil {
			t.Errorf("POST %s: got %q, %v, want %q", base+sub, got, err, want)
		}
	}
	_, err = Do(c, request(t, http.MethodGet, base+"#/cross"), 0)
	if _, refused := errors.AsType[*RedirectError](err); !refused {
		t.Errorf("a redirect to another socket: got %v, want a RedirectError", err)
	}
	if _, err := Do(c, request(t, http.MethodPost, base+"#mcp"), 0); err == nil {
		t.Error("a fragment that is no path: got no error")
	}
}
