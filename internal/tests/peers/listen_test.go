package peers

import (
	"net"
	"net/url"
	"testing"
)

// TestListen: servers that would listen on every interface are on the loopback one,
// and gone after Stop.
func TestListen(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real MCP servers")
	}
	for _, tt := range []struct{ server, transport string }{{Everything, StreamableHTTP}, {Everything, SSE}, {Modern, StreamableHTTP}} {
		s := Listen(t, tt.server, tt.transport)
		u, err := url.Parse(s.URL)
		if err != nil || u.Hostname() != "127.0.0.1" {
			t.Errorf("Listen(%s, %s): got the URL %s, want one of 127.0.0.1", tt.server, tt.transport, s.URL)
		}
		c, err := net.Dial("tcp", u.Host)
		if err != nil {
			t.Fatalf("Listen(%s, %s): %v", tt.server, tt.transport, err)
		}
		c.Close()
		addresses, err := net.InterfaceAddrs()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range addresses {
			ip, ok := a.(*net.IPNet)
			if !ok || ip.IP.IsLoopback() || ip.IP.IsLinkLocalUnicast() {
				continue
			}
			if c, err := net.Dial("tcp", net.JoinHostPort(ip.IP.String(), u.Port())); err == nil {
				c.Close()
				t.Errorf("Listen(%s, %s): it listens at %s", tt.server, tt.transport, ip.IP)
			}
		}
		s.Stop()
		if c, err := net.Dial("tcp", u.Host); err == nil {
			c.Close()
			t.Errorf("%s over %s is still there after Stop", tt.server, tt.transport)
		}
	}
}

func TestBundleHash(t *testing.T) {
	a := Bundle{Name: "a", Lock: []byte("x")}
	seen := map[string]bool{a.hash(): true}
	for _, b := range []Bundle{
		{Lock: []byte("y")}, {Lock: []byte("x"), Manifest: []byte("z")}, {Lock: []byte("x"), Scripts: map[string][]byte{"s": nil}},
		{Lock: []byte("x"), Scripts: map[string][]byte{"s": []byte("1")}},
	} {
		if seen[b.hash()] {
			t.Errorf("hash of %+v: got that of another bundle", b)
		}
		seen[b.hash()] = true
	}
}
