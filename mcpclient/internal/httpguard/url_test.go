package httpguard

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	good := map[string]string{ // to the origin
		"http://example.com":                    "http://example.com",
		"https://Example.com:443/mcp?a=b":       "https://example.com",
		"HTTP://example.com:80":                 "http://example.com",
		"http://example.com:443":                "http://example.com:443",
		"http://[::1]:8080/mcp":                 "http://[::1]:8080",
		"unix:///run/x.sock":                    "unix:///run/x.sock",
		"unix:///run/x.sock#/mcp":               "unix:///run/x.sock",
		"unix:///run/a%20b.sock#/mcp?a=b":       "unix:///run/a%20b.sock",
		"https://example.com./":                 "https://example.com.",
		"http://xn--bcher-kva.example/" + "%20": "http://xn--bcher-kva.example",
	}
	for raw, want := range good {
		u, err := ParseURL(raw)
		if err != nil {
			t.Errorf("ParseURL(%q): %v", raw, err)
			continue
		}
		if got := Origin(u); got != want {
			t.Errorf("Origin(%q): got %q, want %q", raw, got, want)
		}
	}
	bad := []string{
		"", "/mcp", "example.com", "example.com:80/x", "//example.com/", "ftp://example.com/", "file:///etc/passwd", "javascript:alert(1)",
		"http://", "http:///mcp", "http:example.com", "http://:80/", "http://user@example.com/", "http://user:secret@example.com/",
		"http://example.com/#x", "http://exa mple.com/", "http://example.com\\@evil.com/", "http://example.com/\r\nX: y", "http://example.com:0/",
		"http://example.com:99999/", "http://example.com:http/", "http://[::1/", "http://[fe80::1%25eth0]/", "http://%65xample.com/",
		"http://2f746d70" + socketSuffix + "/", "http://x" + strings.ToUpper(socketSuffix) + "./",
		"unix://host/run/x.sock", "unix:run/x.sock", "unix:", "unix:///run/x.sock?a=b", "unix:///run/x.sock#mcp", "unix:///run/x.sock#//evil/x",
		"unix:///run/x%00.sock", "unix:///" + strings.Repeat("x", 200), "pipe:///x", "pipe:////./pipe/x",
		"http://example.com/" + strings.Repeat("x", maxURL),
	}
	for _, raw := range bad {
		u, err := ParseURL(raw)
		if !errors.Is(err, ErrURL) {
			t.Errorf("ParseURL(%.100q): got %v, %v, want ErrURL", raw, u, err)
			continue
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("ParseURL(%.100q): the error holds the password: %v", raw, err)
		}
	}
}

// SSE-04, ROB-6
func TestSameOrigin(t *testing.T) {
	tests := []struct {
		a, b string
		want bool
	}{
		{"http://a/x", "http://a:80/y?z", true},
		{"https://a/", "https://A:443", true},
		{"http://a/", "https://a/", false},
		{"http://a/", "http://a:8080/", false},
		{"http://a/", "http://a.b/", false},
		{"http://a.b/", "http://b/", false},
		{"http://localhost/", "http://127.0.0.1/", false},
		{"http://a./", "http://a/", false},
		{"http://[::1]/", "http://[::1]:80/", true},
		{"unix:///a#/x", "unix:///a#/y", true},
		{"unix:///a", "unix:///b", false},
		{"unix:///a", "http://localhost/a", false},
	}
	for _, tt := range tests {
		a, _ := url.Parse(tt.a)
		b, _ := url.Parse(tt.b)
		if got := SameOrigin(a, b); got != tt.want || SameOrigin(b, a) != tt.want {
			t.Errorf("SameOrigin(%s, %s): got %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestCheckHeader(t *testing.T) {
	good := http.Header{"Authorization": {"Bearer x"}, "X-Api-Key": {"a\tb", ""}, "Cookie": {"a=b"}, "x-lower": {"ü"}}
	if err := CheckHeader(good); err != nil {
		t.Errorf("CheckHeader(%v): %v", good, err)
	}
	for name, value := range map[string]string{
		"": "x", "a b": "x", "a:": "x", "a\r\nb": "x", "ä": "x",
		"X-A": "canary\r\nY: z", "X-B": "canary\n", "X-C": "canary\x00", "X-D": "canary\x7f",
		"Content-Length": "1", "transfer-encoding": "chunked", "HOST": "evil", "Accept": "canary", "mcp-session-id": "1",
		"Mcp-Protocol-Version": "1", "MCP-Param-X": "y", "Last-Event-ID": "1", "Content-Type": "text/plain",
	} {
		err := CheckHeader(http.Header{name: {value}})
		if !errors.Is(err, ErrHeader) || strings.Contains(err.Error(), "canary") {
			t.Errorf("CheckHeader(%q: %q): got %v, want ErrHeader without the value", name, value, err)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	for _, s := range []string{"http://a/b", "unix:///a#/b?c", "https://[::1]:1/", "http://a@b/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := ParseURL(raw)
		if err != nil {
			return
		}
		again, err := ParseURL(u.String())
		if err != nil || Origin(again) != Origin(u) {
			t.Errorf("ParseURL(%q).String() is %q: got origin %v, %v, want %s", raw, u, again, err, Origin(u))
		}
		if o, err := url.Parse(Origin(u)); err != nil || !SameOrigin(o, u) {
			t.Errorf("Origin(%q) is %q, which has another origin (%v)", raw, Origin(u), err)
		}
	})
}
