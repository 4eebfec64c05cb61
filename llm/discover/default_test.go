package discover_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/discover"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// What a program gets that names no model, and why it gets none.
func TestDefault(t *testing.T) {
	ollama := llmtest.NewServer()
	ollama.Models = []string{"qwen3:8b"}
	other := llmtest.NewServer()
	other.Models = []string{"family/large"}
	none := http.NotFoundHandler()
	tests := []struct {
		name   string
		ollama http.Handler
		base   http.Handler // of OPENAI_BASE_URL; nil is not set
		env    map[string]string
		want   string // of the model's name, or of the error
		err    error
	}{
		{"named", none, nil, map[string]string{"TROUPE_MODEL": "ollama/llama3:8b"}, "ollama/llama3:8b", nil},
		{"named at OpenAI", none, nil, map[string]string{"TROUPE_MODEL": "openai/gpt-5", "OPENAI_API_KEY": "k"}, "openai/gpt-5", nil},
		{"named without a key", none, nil, map[string]string{"TROUPE_MODEL": "openai/gpt-5"}, "OPENAI_API_KEY", errors.ErrUnsupported},
		{"badly named", none, nil, map[string]string{"TROUPE_MODEL": "qwen3"}, `"qwen3"`, llm.ErrNotFound},
		{"Ollama", ollama, other, map[string]string{"OPENAI_API_KEY": "k"}, "ollama/qwen3:8b", nil},
		{"an address", none, other, nil, "family/large", nil},
		{"an address and a name", none, other, map[string]string{"OPENAI_MODEL": "family/small"}, "family/small", nil},
		{"a key", none, nil, map[string]string{"OPENAI_API_KEY": "k"}, "openai/gpt-5-mini", nil},
		{"nothing", none, nil, nil, "OPENAI_API_KEY", llm.ErrNotFound},
		{"an address without models", none, none, nil, "set TROUPE_MODEL", llm.ErrNotFound},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, name := range []string{"TROUPE_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"} {
				t.Setenv(name, tt.env[name])
			}
			t.Setenv("OLLAMA_HOST", address(t, tt.ollama))
			if tt.base != nil {
				t.Setenv("OPENAI_BASE_URL", address(t, tt.base))
			}
			model, err := discover.Default(t.Context())
			switch {
			case tt.err == nil && (err != nil || !strings.HasSuffix(model.Name(), tt.want)):
				t.Errorf("Default: got %v, %v, want %s", model, err, tt.want)
			case tt.err != nil && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("Default: got error %v, want %q in it", err, tt.want)
			case errors.Is(tt.err, llm.ErrNotFound) && !errors.Is(err, tt.err):
				t.Errorf("Default: got error %v, want %v", err, tt.err)
			}
		})
	}
}

func address(t *testing.T, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}
