package web

import (
	"crypto/tls"
	"net/http"
	"testing"
)

// SECA-1, SECA-2, SECA-3, SHL-02, SHM-02
func TestGuard(t *testing.T) {
	g, err := newGuard([]string{"MCP.Example.com", "only.example.com:8443", "[2001:db8::1]"}, []string{"https://app.example.com", "chrome-extension://abcdef", "http://localhost.evil.com:3000"})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		host, origin, site string
		tls, ok            bool
	}{
		// No browser.
		{host: "127.0.0.1:8080", ok: true},
		{host: "localhost", ok: true},
		{host: "LOCALHOST:1", ok: true},
		{host: "[::1]:8080", ok: true},
		{host: "[::1]", ok: true},
		{host: "127.9.9.9", ok: true},
		{host: "[::ffff:127.0.0.1]:80", ok: true},
		{host: "mcp.example.com", ok: true},
		{host: "mcp.EXAMPLE.com:9999", ok: true},
		{host: "only.example.com:8443", ok: true},
		{host: "[2001:db8::1]:80", ok: true},
		{host: "[2001:DB8:0::1]", ok: true},

		// SECA-1: a name that was made to resolve to us.
		{host: "evil.example"},
		{host: "evil.example:8080"},
		{host: "only.example.com"},
		{host: "only.example.com:443"},
		{host: "192.168.0.1"},
		{host: "0.0.0.0:8080"},
		{host: "[::]:8080"},
		{host: ""},

		// SECA-3: look-alikes.
		{host: "localhost.evil.com"},
		{host: "127.0.0.1.nip.io"},
		{host: "evil.com.localhost"},
		{host: "sub.localhost"},
		{host: "localhost."},
		{host: "mcp.example.com."},
		{host: "127.0.0.1."},
		{host: "127.1"},
		{host: "2130706433"},
		{host: "0x7f.0.0.1"},
		{host: "0177.0.0.1"},
		{host: "0x7f000001"},
		{host: "localhost:80@evil.com"},
		{host: "localhost@evil.com"},
		{host: "evil.com@localhost"},
		{host: "localhost:"},
		{host: "localhost:0"},
		{host: "localhost:08080"},
		{host: "localhost:99999"},
		{host: "localhost:80:80"},
		{host: "localhost:http"},
		{host: "localhost/evil"},
		{host: "localhost#.evil.com"},
		{host: "localhost\\.evil.com"},
		{host: "localhost%00.evil.com"},
		{host: "localhost evil.com"},
		{host: ".localhost"},
		{host: "loc\u0430lhost"}, // with a Cyrillic letter
		{host: "[::1"},
		{host: "::1"},
		{host: "[::1%25lo]:80"},
		{host: "[127.0.0.1]"},
		{host: "[::1].evil.com"},
		{host: "[localhost]"},

		// A page of our own.
		{host: "127.0.0.1:8080", origin: "http://127.0.0.1:8080", site: "same-origin", ok: true},
		{host: "localhost:8080", origin: "http://LocalHost:8080", ok: true},
		{host: "localhost:8080", origin: "http://localhost:3000", site: "same-site", ok: true},
		{host: "127.0.0.1:8080", origin: "http://localhost:3000", ok: true},
		{host: "127.0.0.1:8080", origin: "http://localhost:3000", site: "cross-site"},
		{host: "localhost:8080", site: "same-origin", ok: true},
		{host: "localhost:8080", site: "none", ok: true},
		{host: "mcp.example.com", origin: "https://mcp.example.com", site: "same-origin", ok: true},
		{host: "mcp.example.com:8443", origin: "https://mcp.example.com:8443", ok: true},
		{host: "mcp.example.com", origin: "https://app.example.com", site: "same-site", ok: true},
		{host: "mcp.example.com", origin: "https://APP.example.com:443", site: "cross-site", ok: true},
		{host: "localhost:1", origin: "chrome-extension://abcdef", site: "cross-site", ok: true},
		{host: "mcp.example.com", origin: "https://mcp.example.com", tls: true, ok: true},

		// SECA-2: a page elsewhere.
		{host: "localhost:8080", origin: "http://evil.example"},
		{host: "localhost:8080", origin: "http://evil.example", site: "same-origin"},
		{host: "localhost:8080", site: "cross-site"},
		{host: "localhost:8080", site: "same-site"},
		{host: "localhost:8080", site: "Same-Origin"},
		{host: "localhost:8080", origin: "null"},
		{host: "localhost:8080", origin: "null", site: "same-origin"},
		{host: "localhost:8080", origin: "file://"},
		{host: "localhost:8080", origin: "chrome-extension://other"},
		{host: "evil.example", origin: "http://evil.example", site: "same-origin"},
		{host: "mcp.example.com", origin: "http://localhost:3000"}, // local to the user, not to us
		{host: "mcp.example.com", origin: "http://mcp.example.com", tls: true},
		{host: "mcp.example.com", origin: "https://mcp.example.com:8443"},
		{host: "mcp.example.com:8443", origin: "https://mcp.example.com"},
		{host: "mcp.example.com", origin: "https://app.example.com:8443"},
		{host: "mcp.example.com", origin: "http://app.example.com"},
		{host: "mcp.example.com", origin: "https://app.example.com."},
		{host: "localhost:8080", origin: "http://localhost.evil.com"},
		{host: "localhost:8080", origin: "http://localhost.evil.com:3001"},
		{host: "localhost:8080", origin: "http://127.0.0.1.nip.io"},
		{host: "localhost:8080", origin: "http://localhost."},
		{host: "localhost:8080", origin: "http://localhost:8080@evil.com"},
		{host: "localhost:8080", origin: "http://localhost:8080/"},
		{host: "localhost:8080", origin: "http://localhost:8080.evil.com"},
		{host: "localhost:8080", origin: "http://localhost:8080 http://evil.com"},
		{host: "localhost:8080", origin: "http:/localhost:8080"},
		{host: "localhost:8080", origin: "//localhost:8080"},
		{host: "localhost:8080", origin: "localhost:8080"},
		{host: "localhost:8080", origin: "://localhost"},
	}
	for _, tt := range tests {
		r := &http.Request{Host: tt.host, Header: http.Header{}}
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		if tt.site != "" {
			r.Header.Set("Sec-Fetch-Site", tt.site)
		}
		if tt.tls {
			r.TLS = new(tls.ConnectionState)
		}
		if why := g.check(r); (why == "") != tt.ok {
			t.Errorf("check(%+v): got %q, want ok %v", tt, why, tt.ok)
		}
	}
	for name, values := range map[string][]string{"Origin": {"http://localhost", "http://localhost"}, "Sec-Fetch-Site": {"none", "none"}} {
		if g.check(&http.Request{Host: "localhost", Header: http.Header{name: values}}) == "" {
			t.Errorf("check with %s twice: got no objection", name)
		}
	}
	if g.check(&http.Request{Host: "localhost", Header: http.Header{"Origin": {""}}}) == "" {
		t.Error("check with an empty Origin: got no objection")
	}
}

// SECA-3: nothing that stands for everything, or for less than is meant.
func TestGuardOptions(t *testing.T) {
	for _, bad := range []string{"*", "*.example.com", "", "https://example.com", "example.com/", "example.com.", "example.com:0"} {
		if _, err := newGuard([]string{bad}, nil); err == nil {
			t.Errorf("AllowedHosts %q: got no error", bad)
		}
	}
	for _, bad := range []string{"*", "null", "", "https://*", "https://example.com/", "example.com", "https://example.com/path"} {
		if _, err := newGuard(nil, []string{bad}); err == nil {
			t.Errorf("AllowedOrigins %q: got no error", bad)
		}
	}
}

func FuzzGuard(f *testing.F) {
	f.Add("localhost:80", "http://localhost:80")
	f.Add("[::1]:80", "null")
	f.Add("127.1", "http://evil@localhost")
	g, err := newGuard(nil, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, host, from string) {
		if g.check(&http.Request{Host: host, Header: http.Header{"Origin": {from}}}) != "" {
			return
		}
		a, ok := readAuthority(host)
		o, is := readOrigin(from)
		if !ok || !is || !isLoopback(a.host) || !isLoopback(o.host) {
			t.Errorf("check(%q, %q): allowed", host, from)
		}
	})
}
