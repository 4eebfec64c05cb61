package netguard_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/troupe-dev/troupe/internal/netguard"
)

// names is a name server with one answer for each name; of a list it gives one after the
// other, and then the last.
func names(t *testing.T, table map[string][]string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { conn.Close(); <-done })
	asked := make(map[string]int)
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			m.Response, m.Additionals = true, nil
			name := strings.TrimSuffix(q.Name.String(), ".")
			if list := table[name]; len(list) > 0 && q.Type == dnsmessage.TypeA {
				addr := netip.MustParseAddr(list[min(asked[name], len(list)-1)])
				asked[name]++
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
					Body:   &dnsmessage.AResource{A: addr.As4()},
				}}
			}
			if out, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(out, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func get(t *testing.T, c *http.Client, url string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// A name is judged by the address at which the connection is made, so one that leads inwards,
// at once or at the second look-up, is not contacted (SECA-16).
func TestNamesThatLeadInwards(t *testing.T) {
	var reached atomic.Int32
	inside := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer inside.Close()
	port := inside.URL[strings.LastIndexByte(inside.URL, ':'):]
	r := names(t, map[string][]string{
		"inside.example":  {"127.0.0.1"},
		"cloud.example":   {"169.254.169.254"},
		"a.localhost":     {"10.0.0.1"},
		"allowed.example": {"127.0.0.1"},
	})
	trust := &tls.Config{RootCAs: inside.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "example.com"}
	for _, host := range []string{"inside.example", "cloud.example", "a.localhost"} {
		for _, opts := range []*netguard.Options{nil, {Loopback: true}, {Allow: []string{"allowed.example"}}} {
			g := newGuard(t, opts).WithResolver(r)
			at := "https://" + host + port + "/"
			if err := g.Check(at); err != nil {
				t.Fatalf("Check(%q): got %v, want that its text passes", at, err)
			}
			if _, err := get(t, g.Client(&netguard.ClientOptions{TLS: trust}), at); !errors.Is(err, netguard.ErrRefused) {
				t.Errorf("%s with %+v: got %v, want ErrRefused", at, opts, err)
			}
		}
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("%d requests arrived", n)
	}
	g := newGuard(t, &netguard.Options{Allow: []string{"allowed.example"}}).WithResolver(r)
	if _, err := get(t, g.Client(&netguard.ClientOptions{TLS: trust}), "https://allowed.example"+port+"/"); err != nil || reached.Load() != 1 {
		t.Errorf("what is allowed: got %v, %d requests, want 1", err, reached.Load())
	}
}

// A second look-up that leads inwards does not help: each request is judged at its own
// connection (SECA-16).
func TestRebinding(t *testing.T) {
	var reached atomic.Int32
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer inside.Close()
	port := inside.URL[strings.LastIndexByte(inside.URL, ':'):]
	g := newGuard(t, nil).WithResolver(names(t, map[string][]string{"evil.example": {"198.18.0.1", "127.0.0.1"}}))
	for range 3 {
		if _, err := get(t, g.Client(nil), "https://evil.example"+port+"/"); !errors.Is(err, netguard.ErrRefused) {
			t.Errorf("got %v, want ErrRefused", err)
		}
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("%d requests arrived", n)
	}
}

// A redirect is not followed, whatever it leads to, and no proxy is used unasked
// (SECA-16, SECA-22).
func TestNoDetours(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:9")
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:9")
	var reached atomic.Int32
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer inside.Close()
	front := httptest.NewServer(http.RedirectHandler(inside.URL, http.StatusTemporaryRedirect))
	defer front.Close()
	c := newGuard(t, &netguard.Options{Loopback: true}).Client(nil)
	for _, url := range []string{front.URL, "http://localhost" + front.URL[strings.LastIndexByte(front.URL, ':'):]} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusTemporaryRedirect {
			t.Errorf("%s: got status %d, want the redirect itself", url, resp.StatusCode)
		}
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("%d requests arrived behind the redirect", n)
	}
}

// An answer is read up to its bound and no further, and a slow one ends with the time.
func TestBounds(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/exact":
			_, _ = io.WriteString(w, strings.Repeat("x", 64<<10))
		case "/huge":
			for range 1 << 10 {
				if _, err := io.WriteString(w, strings.Repeat("x", 64<<10)); err != nil {
					return
				}
			}
		case "/slow":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case "/header":
			w.Header().Set("X", strings.Repeat("x", 32<<10))
		}
	}))
	defer s.Close()
	g := newGuard(t, &netguard.Options{Loopback: true})
	if body, err := get(t, g.Client(nil), s.URL+"/exact"); err != nil || len(body) != 64<<10 {
		t.Errorf("as much as is allowed: got %d bytes, %v", len(body), err)
	}
	if body, err := get(t, g.Client(nil), s.URL+"/huge"); !errors.Is(err, netguard.ErrTooLarge) || len(body) != 64<<10 {
		t.Errorf("too much: got %d bytes, %v, want ErrTooLarge after 64 KiB", len(body), err)
	}
	if _, err := get(t, g.Client(nil), s.URL+"/header"); err == nil {
		t.Error("a header of 32 KiB: got no error")
	}
	var timeout interface{ Timeout() bool }
	if _, err := get(t, g.Client(&netguard.ClientOptions{Timeout: 50 * time.Millisecond}), s.URL+"/slow"); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("an answer without end: got %v, want a timeout", err)
	}
}

// Through a proxy, names are judged by what is known of them here: one that leads inwards is not
// asked for, nor is an address inside, and this machine is asked for directly. What no name
// server here knows is the proxy's to find (SECA-16).
func TestProxy(t *testing.T) {
	var reached, asked atomic.Int32
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer s.Close()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Method != http.MethodConnect {
			t.Errorf("the proxy is asked for %s %s", r.Method, r.URL)
			return
		}
		there, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		defer there.Close()
		w.WriteHeader(http.StatusOK)
		here, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer here.Close()
		go func() { _, _ = io.Copy(there, buffered) }()
		_, _ = io.Copy(here, there)
	}))
	defer proxy.Close()
	r := names(t, map[string][]string{"inside.example": {"10.0.0.1"}, "named.example": {"10.0.0.1"}, "public.example": {"93.184.216.34"}})
	trust := &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "example.com"}
	at, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	g := newGuard(t, &netguard.Options{Allow: []string{"named.example"}, Loopback: true}).WithResolver(r)
	for _, test := range []struct {
		url     string
		refused bool
		proxied bool
	}{
		{"https://unknown.example/", false, true},
		{"https://public.example/", false, true},
		{"https://named.example/", false, true},
		{"https://inside.example/", true, false},
		{"https://10.0.0.1/", true, false},
		{"https://169.254.169.254/", true, false},
		{"http://unknown.example/", true, false},
		{s.URL, false, false},
	} {
		asked.Store(0)
		reached.Store(0)
		_, err := get(t, g.Client(&netguard.ClientOptions{TLS: trust, Proxy: func(*http.Request) (*url.URL, error) { return at, nil }}), test.url)
		if test.refused != errors.Is(err, netguard.ErrRefused) || !test.refused && err != nil || test.proxied != (asked.Load() == 1) || test.refused != (reached.Load() == 0) {
			t.Errorf("%s: got %v, the proxy was asked %d times, the server %d", test.url, err, asked.Load(), reached.Load())
		}
	}
	broken := errors.New("no proxy")
	if _, err := get(t, g.Client(&netguard.ClientOptions{Proxy: func(*http.Request) (*url.URL, error) { return nil, broken }}), "https://public.example/"); !errors.Is(err, broken) {
		t.Errorf("a choice that fails: got %v", err)
	}
}
