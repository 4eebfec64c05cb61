package ollama_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/ollama"
)

// TestSecretsAreNotShown holds SECA-27: neither an error nor what is printed of a client
// or of its options has a key in it, wherever the key was put.
func TestSecretsAreNotShown(t *testing.T) {
	const other, password = "hdr-secret-0123456789", "pass-secret-0123456789"
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":"bad credentials: %s %s %s"}`, r.Header.Get("Authorization"), r.Header.Get("X-Other"), r.URL)
	})
	opts := ollama.Options{Host: "http://user:" + password + "@llm.test", Header: http.Header{"X-Other": {other}}}
	c := client(t, echo, opts)
	opts.APIKey = key
	_, err := llm.Generate(t.Context(), c, hello())
	if !errors.Is(err, llm.ErrAuth) {
		t.Errorf("Generate: got %v, want %v", err, llm.ErrAuth)
	}
	for _, shown := range []string{
		fmt.Sprint(err), fmt.Sprintf("%v %+v %#v %s", c, c, c, c), fmt.Sprintf("%v %+v %#v", opts, opts, &opts), c.Backend(),
	} {
		for _, secret := range []string{key, other, password} {
			if strings.Contains(shown, secret) {
				t.Errorf("the secret %q is in %q", secret, shown)
			}
		}
	}
}

// TestBackend holds what limits are shared by.
func TestBackend(t *testing.T) {
	t.Setenv("OLLAMA_HOST", "")
	tests := []struct {
		opts *ollama.Options
		want string
	}{
		{nil, "ollama"},
		{&ollama.Options{Host: "localhost"}, "ollama"},
		{&ollama.Options{Host: "127.0.0.1:11435"}, "ollama@127.0.0.1:11435"},
		{&ollama.Options{Host: "http://u:p@gpu:11434"}, "ollama@gpu:11434"},
		{&ollama.Options{Host: "gpu", Provider: "big"}, "big"},
		{&ollama.Options{Host: "ftp://x"}, "ollama"},
	}
	for _, tt := range tests {
		if got := ollama.New("m", tt.opts).Backend(); got != tt.want {
			t.Errorf("Backend of %+v: got %q, want %q", tt.opts, got, tt.want)
		}
	}
}
