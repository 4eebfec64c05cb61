package ollama_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/ollama"
)

// TestHosts holds how a host is read, as Ollama's own tools read it.
func TestHosts(t *testing.T) {
	tests := []struct{ host, env, want string }{
		{"", "", "http://127.0.0.1:11434"},
		{"", "10.0.0.1", "http://10.0.0.1:11434"},
		{"box", "10.0.0.1", "http://box:11434"},
		{"box:1", "", "http://box:1"},
		{":1", "", "http://127.0.0.1:1"},
		{"::1", "", "http://[::1]:11434"},
		{"[::1]:1", "", "http://[::1]:1"},
		{"http://box", "", "http://box:80"},
		{"https://user:secret@box/path", "", "https://box:443"},
		{"ftp://box", "", "an invalid host"},
		{"http://", "", "an invalid host"},
	}
	for _, tt := range tests {
		t.Setenv("OLLAMA_HOST", tt.env)
		if got := ollama.NewServer(&ollama.Options{Host: tt.host}).String(); got != tt.want {
			t.Errorf("NewServer(%q) with OLLAMA_HOST=%q: got %s, want %s", tt.host, tt.env, got, tt.want)
		}
	}
}

func TestServer(t *testing.T) {
	s := llmtest.NewServer()
	s.Models = []string{"tiny:latest", "other"}
	server := ollama.NewServer(&ollama.Options{Host: "llm.test", HTTPClient: memhttp.Serve(t, s)})

	if v, err := server.Ping(t.Context()); err != nil || v != "0.17.4" {
		t.Errorf("Ping: got %q and error %v", v, err)
	}
	models, err := server.Models(t.Context())
	if err != nil || len(models) != 2 || models[0].Name != "tiny:latest" || models[0].Modified.IsZero() {
		t.Errorf("Models: got %+v and error %v", models, err)
	}
	caps, err := server.Model("tiny:latest").Capabilities(t.Context())
	want := ollama.Capabilities{Tools: true, Vision: true, Thinking: true, Completion: true, ContextLength: 131072}
	if err != nil || caps != want {
		t.Errorf("Capabilities: got %+v and error %v, want %+v", caps, err, want)
	}
	if name, err := server.DefaultModel(t.Context()); err != nil || name != "tiny:latest" {
		t.Errorf("DefaultModel: got %q and error %v", name, err)
	}
	s.Capabilities = []string{"embedding"}
	if name, err := server.DefaultModel(t.Context()); !errors.Is(err, llm.ErrNotFound) {
		t.Errorf("DefaultModel without tools: got %q and error %v, want %v", name, err, llm.ErrNotFound)
	}
	checkServer(t, s)
}

// TestNotOllama holds what is said of something else at the address.
func TestNotOllama(t *testing.T) {
	server := ollama.NewServer(&ollama.Options{Host: "llm.test", HTTPClient: memhttp.Serve(t, jsonHandler(`{"hello":1}`))})
	if v, err := server.Ping(t.Context()); !errors.Is(err, llm.ErrBadResponse) {
		t.Errorf("Ping: got %q and error %v, want %v", v, err, llm.ErrBadResponse)
	}
}

// TestPingIsBounded holds that a server that never answers costs 10 s.
func TestPingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := ollama.NewServer(&ollama.Options{Host: "llm.test", HTTPClient: memhttp.Serve(t, silentHandler{})})
		start := time.Now()
		_, err := server.Ping(t.Context())
		if got := time.Since(start); !errors.Is(err, llm.ErrIdle) || got != 10*time.Second {
			t.Errorf("Ping: got error %v after %v, want %v after 10s", err, got, llm.ErrIdle)
		}
	})
}
