package rest_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm/internal/rest"
)

// SECA-27: whatever a server says of a request in its error, what was secret in it is not
// shown: in whole, or the part of it that is the key.
func TestSecrets(t *testing.T) {
	address := func(s string) *url.URL {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	tests := []struct {
		name   string
		key    string
		header http.Header
		server *url.URL
		said   string
		want   string
	}{
		{"the key", "sk-12345678", nil, nil, "no such key: sk-12345678", "no such key: [key]"},
		{"a header", "", http.Header{"X-Key": {"canary-1234"}}, nil, "X-Key canary-1234 is not known", "X-Key [key] is not known"},
		{"the token of a header", "", http.Header{"Authorization": {"Bearer canary-1234"}}, nil, "no such key: canary-1234", "no such key: [key]"},
		{"a password", "", nil, address("https://me:hunter2-hunter2@x.example"), "hunter2-hunter2 is wrong, me", "[key] is wrong, me"},
		{"a password as it is sent", "", nil, address("https://me:hunter2-hunter2@x.example"), "Basic bWU6aHVudGVyMi1odW50ZXIy", "Basic [key]"},
		{"a name that is the token", "", nil, address("https://canary-1234@x.example"), "canary-1234 or Y2FuYXJ5LTEyMzQ6", "[key] or [key]"},
		{"a word", "ollama", http.Header{"X-Team": {"red"}}, address("https://me:pass@x.example"), "ollama red pass", "ollama red pass"},
	}
	for _, tt := range tests {
		origin := rest.Origin{Provider: "p", Model: "m", Secrets: rest.Secrets(tt.key, tt.header, tt.server)}
		err := origin.New(errors.New("kind"), "%s", tt.said)
		if got := err.Error(); !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestShown(t *testing.T) {
	for address, want := range map[string]string{
		"https://x.example/v1": "https://x.example/v1", "https://me:secret@x.example/v1?key=secret": "https://x.example/v1",
		"https://x.example?key=secret": "https://x.example", "": "", "https://x.example/%zz?secret": "(not a URL)",
	} {
		if got := rest.Shown(address); got != want {
			t.Errorf("Shown(%q): got %q, want %q", address, got, want)
		}
	}
}
