package webserver_test

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/troupe-dev/troupe/internal/webserver"
)

// arriving is a listener whose connections come from the addresses that are sent to it.
type arriving struct {
	from   chan net.Addr
	closed chan struct{}
}

func (a *arriving) Accept() (net.Conn, error) {
	select {
	case from := <-a.from:
		ours, theirs := net.Pipe()
		_ = theirs.Close()
		return &arrived{ours, from}, nil
	case <-a.closed:
		return nil, net.ErrClosed
	}
}

func (a *arriving) Close() error   { close(a.closed); return nil }
func (a *arriving) Addr() net.Addr { return &net.TCPAddr{} }

type arrived struct {
	net.Conn
	from net.Addr
}

func (a *arrived) RemoteAddr() net.Addr { return a.from }

func tcp(address string) net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), 4000))
}

// SECA-9: one address has its share of the connections, and not those of the others; a place that
// is given back is free again.
func TestShares(t *testing.T) {
	tests := []struct {
		name            string
		many, other     string
		proxied, shared bool // shared: the connections of many are bounded
	}{
		{"IPv4", "192.0.2.1", "192.0.2.2", false, true},
		{"IPv4 in IPv6", "::ffff:192.0.2.1", "192.0.2.2", false, true},
		{"this machine", "127.0.0.1", "127.0.0.2", false, true},
		{"IPv6", "2001:db8::1", "2001:db8:0:1::1", false, true},
		{"a proxy of this machine", "127.0.0.1", "192.0.2.2", true, false},
		{"a proxy of a private network", "fd00::7", "192.0.2.2", true, false},
		{"a stranger beside a proxy", "192.0.2.1", "127.0.0.1", true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := &arriving{make(chan net.Addr, 100), make(chan struct{})}
			var log strings.Builder
			l := webserver.Limit(in, webserver.Limits{Connections: 40, Proxied: tt.proxied, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			accept := func() net.Conn {
				t.Helper()
				c, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			for range 20 {
				in.from <- tcp(tt.many)
			}
			in.from <- tcp(tt.other)
			var have []net.Conn
			for {
				c := accept()
				have = append(have, c)
				if c.RemoteAddr().String() == tcp(tt.other).String() {
					break
				}
			}
			want := 21
			if tt.shared {
				want = 11
			}
			if len(have) != want || strings.Count(log.String(), "WARN") > 1 || tt.shared != strings.Contains(log.String(), "--behind-proxy") {
				t.Errorf("got %d connections, want %d; the log: %s", len(have), want, log.String())
			}
			for range 2 { // the second one changes nothing
				_ = have[0].Close()
			}
			in.from <- tcp(tt.many)
			in.from <- tcp(tt.many)
			in.from <- tcp("192.0.2.200")
			if c := accept(); c.RemoteAddr().String() != tcp(tt.many).String() {
				t.Errorf("the place that was given back: got %v", c.RemoteAddr())
			}
			if c := accept(); tt.shared && c.RemoteAddr().String() != tcp("192.0.2.200").String() {
				t.Errorf("the share is used up again: got %v", c.RemoteAddr())
			}
		})
	}
}

// One customer has a whole /64.
func TestSource(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::/64", "2001:db8::ffff:ffff:ffff:ffff": "2001:db8::/64",
		"2001:db8:0:1::1": "2001:db8:0:1::/64", "fe80::1%eth0": "fe80::/64", "": "", "proxy": "proxy",
	} {
		if got := webserver.Source(address); got != want {
			t.Errorf("Source(%q): got %q, want %q", address, got, want)
		}
	}
}

// Beyond all connections a further one waits; Close ends the wait. A Unix socket has no shares.
func TestConnections(t *testing.T) {
	in := &arriving{make(chan net.Addr, 100), make(chan struct{})}
	l := webserver.Limit(in, webserver.Limits{Connections: 8})
	var have []net.Conn
	for range 8 {
		in.from <- &net.UnixAddr{Name: "@", Net: "unix"}
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		have = append(have, c)
	}
	in.from <- tcp("192.0.2.1")
	got := make(chan error)
	accept := func() {
		_, err := l.Accept()
		got <- err
	}
	go accept()
	_ = have[0].Close()
	if err := <-got; err != nil {
		t.Errorf("after a place was given back: %v", err)
	}
	go accept()
	_ = l.Close()
	if err := <-got; !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: got %v", err)
	}
}

// SECA-33: who asks can choose a header, and not the address of its connection.
func TestAddress(t *testing.T) {
	tests := []struct {
		remote, forwarded string
		proxied           bool
		want              string
	}{
		{"127.0.0.1:1", "", false, "127.0.0.1"},
		{"127.0.0.1:1", "192.0.2.9", false, "127.0.0.1"},
		{"192.168.0.1:1", "192.0.2.9", false, "192.168.0.1"},
		{"192.0.2.1:1", "192.0.2.9", true, "192.0.2.1"},
		{"127.0.0.1:1", "192.0.2.9", true, "192.0.2.9"},
		{"127.0.0.1:1", "1.1.1.1, 192.0.2.9", true, "192.0.2.9"},
		{"[fd00::1]:1", "192.0.2.9:4711", true, "192.0.2.9"},
		{"[::1]:1", "2001:db8::1", true, "2001:db8::1"},
		{"[::1]:1", "[2001:db8::1]:99", true, "2001:db8::1"},
		{"10.0.0.1:1", "unknown", true, "10.0.0.1"},
		{"10.0.0.1:1", "", true, "10.0.0.1"},
		{"pipe", "192.0.2.9", true, "pipe"},
	}
	for _, tt := range tests {
		r := &http.Request{RemoteAddr: tt.remote, Header: http.Header{}}
		if tt.forwarded != "" {
			r.Header.Set("X-Forwarded-For", tt.forwarded)
		}
		if got := webserver.Address(r, tt.proxied); got != tt.want {
			t.Errorf("%+v: got %q", tt, got)
		}
	}
	r := &http.Request{RemoteAddr: "127.0.0.1:1", Header: http.Header{"X-Forwarded-For": {"192.0.2.1", "192.0.2.9"}}}
	if got := webserver.Address(r, true); got != "192.0.2.9" {
		t.Errorf("two headers: got %q", got)
	}
}

// A TCP connection that is counted can do what it could before: event streams need the socket itself.
func TestTCPStaysTCP(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := webserver.Limit(inner, webserver.Limits{Connections: 8})
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, ok := c.(syscall.Conn); !ok {
		t.Error("it has no SyscallConn")
	}
	if w, ok := c.(interface{ CloseWrite() error }); !ok || w.CloseWrite() != nil {
		t.Error("it cannot be closed for writing")
	}
	if _, err := io.ReadAll(client); err != nil {
		t.Error(err)
	}
}
