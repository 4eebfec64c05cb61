package netguard_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/netguard"
)

func newGuard(t *testing.T, opts *netguard.Options) *netguard.Guard {
	t.Helper()
	g, err := netguard.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// No request goes to addresses that are not public, however they are written (SECA-16).
func TestGuard(t *testing.T) {
	tests := []struct {
		url   string
		allow []string
		ok    bool
	}{
		{"https://example.com/hook", nil, true},
		{"https://example.com:8443/hook?x=1", nil, true},
		{"https://93.184.216.34/", nil, true},
		{"https://[2606:4700::1111]/", nil, true},
		{"http://example.com/hook", nil, false},
		{"http://example.com/hook", []string{"example.com"}, true},
		{"ftp://example.com/", nil, false},
		{"file:///etc/passwd", nil, false},
		{"//example.com/", nil, false},
		{"https:example.com", nil, false},
		{"https://user:secret@example.com/", nil, false},
		{"https://example.com/#fragment", nil, false},
		{"not a url at all\x00", nil, false},
		{"https://" + strings.Repeat("a", 3000) + ".example/", nil, false},
		{"https://127.0.0.1/", nil, false},
		{"https://10.1.2.3/", nil, false},
		{"https://10.1.2.3/", []string{"10.0.0.0/8"}, true},
		{"http://10.1.2.3/", []string{"10.0.0.0/8"}, true},
		{"https://11.1.2.3/", []string{"10.0.0.0/8"}, true},
		{"http://11.1.2.3/", []string{"10.0.0.0/8"}, false},
		{"https://172.16.0.1/", nil, false},
		{"https://192.168.1.1/", nil, false},
		{"https://192.168.1.1:99/", []string{"192.168.1.1:98"}, false},
		{"https://192.168.1.1:99/", []string{"192.168.1.1:99"}, true},
		{"https://169.254.169.254/latest/meta-data/", nil, false},
		{"https://100.64.0.1/", nil, false},
		{"https://198.18.0.1/", nil, false},
		{"https://192.0.2.1/", nil, false},
		{"https://255.255.255.255/", nil, false},
		{"https://0.0.0.0/", nil, false},
		{"https://[::]/", nil, false},
		{"https://[::1]/", nil, false},
		{"https://[::ffff:127.0.0.1]/", nil, false},
		{"https://[::127.0.0.1]/", nil, false},
		{"https://[64:ff9b::7f00:1]/", nil, false},
		{"https://[64:ff9b:1::1]/", nil, false},
		{"https://[2002:7f00:1::]/", nil, false},
		{"https://[2001::1]/", nil, false},
		{"https://[fec0::1]/", nil, false},
		{"https://[fe80::1%25eth0]/", nil, false},
		{"https://[fd00::1]/", nil, false},
		{"https://[ff02::1]/", nil, false},
	}
	for _, tt := range tests {
		err := newGuard(t, &netguard.Options{Allow: tt.allow, PlainHTTP: true}).Check(tt.url)
		if (err == nil) != tt.ok || err != nil && !errors.Is(err, netguard.ErrRefused) {
			t.Errorf("Check(%.80q) with %q: got %v, want ok=%v", tt.url, tt.allow, err, tt.ok)
		}
	}
	for _, bad := range []string{"", "*", "http://a", "a/b", "user@host"} {
		if _, err := netguard.New(&netguard.Options{Allow: []string{bad}}); err == nil {
			t.Errorf("New(%q): got no error", bad)
		}
	}
}

// FuzzGuard holds that a URL which passes has the form that is promised.
func FuzzGuard(f *testing.F) {
	for _, seed := range []string{"https://example.com/", "http://[::1]:80/", "https://a@b/", "https://１２７.0.0.1/", "https:///x", "https://a:b:c/"} {
		f.Add(seed)
	}
	g, err := netguard.New(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if g.Check(raw) == nil && (!strings.HasPrefix(strings.ToLower(raw), "https://") || strings.Contains(raw, "#") && !strings.HasSuffix(raw, "#")) {
			t.Errorf("Check(%q): got no error", raw)
		}
	})
}

// This machine is let through by its own names and only where the caller asks for it, and
// what Allow names gets http only where the caller says so (SECA-16).
func TestExceptions(t *testing.T) {
	loopback, allow := &netguard.Options{Loopback: true}, &netguard.Options{Allow: []string{"as.corp.example", "10.0.0.0/8"}}
	tests := []struct {
		url  string
		opts *netguard.Options
		ok   bool
	}{
		{"http://localhost:3000/", nil, false},
		{"http://localhost:3000/", loopback, true},
		{"http://LOCALHOST./", loopback, true},
		{"http://a.localhost/", loopback, true},
		{"http://127.0.0.1/", loopback, true},
		{"https://127.3.2.1/", loopback, true},
		{"http://[::1]:80/", loopback, true},
		{"http://[::ffff:127.0.0.1]/", loopback, true},
		{"http://localhost.evil.example/", loopback, false},
		{"http://127.0.0.1.nip.io/", loopback, false},
		{"http://0.0.0.0/", loopback, false},
		{"http://192.168.1.1/", loopback, false},
		{"https://192.168.1.1/", loopback, false},
		{"https://10.1.2.3/", allow, true},
		{"http://10.1.2.3/", allow, false},
		{"https://as.corp.example/", allow, true},
		{"http://as.corp.example/", allow, false},
		{"http://localhost/", allow, false},
	}
	for _, tt := range tests {
		if err := newGuard(t, tt.opts).Check(tt.url); (err == nil) != tt.ok {
			t.Errorf("Check(%q) with %+v: got %v, want ok=%v", tt.url, tt.opts, err, tt.ok)
		}
	}
}
