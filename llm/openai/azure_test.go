package openai_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/openai"
)

// TestAzure holds how Azure's older API is spoken: the deployment in the path, the version
// in the query, the key in its own header.
func TestAzure(t *testing.T) {
	s := llmtest.NewServer(llmtest.Say("ok"), llmtest.Call("f", `{"a":1}`).Over(llmtest.Wire{Filter: true}))
	s.Key = key
	c := openai.New("my deployment", &openai.Options{
		BaseURL: "http://name.openai.azure.test", APIVersion: "2024-10-21", APIKey: key, HTTPClient: memhttp.Serve(t, s),
	})
	for _, want := range []string{"ok stop", `f{"a":1} tool_calls`} {
		resp, err := llm.Generate(t.Context(), c, hello())
		if err != nil || summary(resp) != want {
			t.Errorf("Generate: got %v and error %v, want %q", resp, err, want)
		}
	}
	checkServer(t, s)
	r := s.Requests()[0]
	if r.Path != "/openai/deployments/my deployment/chat/completions" && r.Path != "/openai/deployments/my%20deployment/chat/completions" {
		t.Errorf("the path is %q", r.Path)
	}
	if _, err := c.Models(t.Context()); !errors.Is(err, llm.ErrUnsupported) {
		t.Errorf("Models: got %v, want %v", err, llm.ErrUnsupported)
	}
	wrong := openai.New("m", &openai.Options{BaseURL: "http://name.openai.azure.test", APIVersion: "2024-10-21", HTTPClient: memhttp.Serve(t, s)})
	if _, err := llm.Generate(t.Context(), wrong, hello()); !errors.Is(err, llm.ErrAuth) {
		t.Errorf("Generate without a key: got %v, want %v", err, llm.ErrAuth)
	}
}

// TestSecretsAreNotShown holds SECA-27: neither an error nor what is printed of a client
// or of its options has a key in it, wherever the key was put.
func TestSecretsAreNotShown(t *testing.T) {
	const other, password = "hdr-secret-0123456789", "pass-secret-0123456789"
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":{"message":"bad credentials: %q %q %q","code":%q}}`, r.Header.Get("Authorization"), r.Header.Get("X-Other"), r.URL, other)
	})
	opts := openai.Options{
		BaseURL: "http://user:" + password + "@llm.test", APIKey: key,
		Header: http.Header{"X-Other": {other}}, HTTPClient: memhttp.Serve(t, echo),
	}
	c := openai.New("m", &opts)
	_, err := llm.Generate(t.Context(), c, hello())
	_, listErr := c.Models(t.Context())
	if !errors.Is(err, llm.ErrAuth) || !errors.Is(listErr, llm.ErrAuth) {
		t.Errorf("got %v and %v, want %v", err, listErr, llm.ErrAuth)
	}
	for _, shown := range []string{
		fmt.Sprint(err), fmt.Sprint(listErr), fmt.Sprintf("%v %+v %#v %s", c, c, c, c),
		fmt.Sprintf("%v %+v %#v", opts, opts, &opts), c.Backend(),
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
	tests := []struct {
		opts *openai.Options
		want string
	}{
		{nil, "openai"},
		{&openai.Options{BaseURL: "https://api.openai.com/v1"}, "openai"},
		{&openai.Options{BaseURL: "http://127.0.0.1:8080"}, "openai@127.0.0.1:8080"},
		{&openai.Options{BaseURL: "https://u:p@openrouter.ai/api/v1"}, "openai@openrouter.ai"},
		{&openai.Options{BaseURL: "https://openrouter.ai/api/v1", Provider: "router"}, "router"},
		{&openai.Options{BaseURL: "http://["}, "openai"},
	}
	for _, tt := range tests {
		if got := openai.New("m", tt.opts).Backend(); got != tt.want {
			t.Errorf("Backend of %+v: got %q, want %q", tt.opts, got, tt.want)
		}
	}
}
