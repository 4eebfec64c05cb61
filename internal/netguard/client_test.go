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
			url := "https://" + host + port + "/"
			if err := g.Check(url); err != nil {
				t.Fatalf("Check(%q): got %v, want that its text passes", url, err)
			}
			if _, err := get(t, g.Client(&netguard.ClientOptions{TLS: trust}), url); !errors.Is(err, netguard.ErrRefused) {
				t.Errorf("%s with %+v: got %v, want ErrRefused", url, opts, err)
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

// A redirect is not followed, whatever it leads to, and no proxy of the environment is used
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
