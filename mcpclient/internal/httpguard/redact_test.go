package httpguard

import (
	"net/http"
	"net/url"
	"testing"
)

// SECA-27: what is secret is taken out of a text, the longest first, also where it stands in a query.
func TestRedact(t *testing.T) {
	header := http.Header{"Authorization": {"Bearer token-1"}, "X-Key": {"abcd", "abcdef"}, "X-Short": {"a"}}
	tests := []struct{ at, text, want string }{
		{"http://h/mcp", "a Bearer token-1, or token-1", "a ***, or ***"},
		{"http://h/mcp", "abcdef and abcd", "*** and ***"},
		{"http://h/mcp?key=se%20cret", "/mcp?key=se%20cret, /mcp?key=se cret", "/mcp?***, /mcp?key=***"},
		{"unix:///s#/mcp?key=secret", "/mcp?key=secret, secret", "/mcp?***, ***"},
		{"http://h/mcp", "more and\r\nmore", "*** and ***"},
	}
	for _, tt := range tests {
		u, err := url.Parse(tt.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := Redact(tt.text, 100, header, u, "more"); got != tt.want {
			t.Errorf("Redact(%q) at %s: got %q, want %q", tt.text, tt.at, got, tt.want)
		}
	}
}
