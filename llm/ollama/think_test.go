package ollama_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/ollama"
)

// A model that has no levels of thinking is told to think, and one that does not think is not. That is learned once.
func TestEffortIsLearned(t *testing.T) {
	const noLevels, noThinking = `think value \"low\" is not supported for this model`, `registry.ollama.ai/library/m does not support thinking`
	tests := []struct {
		name   string
		refuse map[string]string // by the value of think
		want   string            // that were sent, in two turns
	}{
		{"levels", nil, `"low" "low"`},
		{"a switch", map[string]string{`"low"`: noLevels}, `"low" true true`},
		{"an older server", map[string]string{`"low"`: noLevels, "true": noThinking}, `"low" true - -`},
		{"no thinking", map[string]string{`"low"`: noThinking}, `"low" - -`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var sent []string
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body := struct{ Think json.RawMessage }{json.RawMessage("-")}
				_ = json.NewDecoder(r.Body).Decode(&body)
				sent = append(sent, string(body.Think))
				if why := tt.refuse[string(body.Think)]; why != "" {
					http.Error(w, `{"error":"`+why+`"}`, http.StatusBadRequest)
					return
				}
				fmt.Fprintln(w, `{"model":"m","message":{"role":"assistant","content":"ok"},"done":true,"done_reason":"stop"}`)
			}))
			defer srv.Close()
			m := ollama.New("m", &ollama.Options{Host: srv.URL})
			for range 2 {
				req := hello()
				req.Effort = llm.EffortLow
				if resp, err := llm.Generate(t.Context(), m, req); err != nil || resp.Text() != "ok" {
					t.Fatalf("Generate: got %+v, %v", resp, err)
				}
			}
			if got := strings.Join(sent, " "); got != tt.want {
				t.Errorf("sent %s, want %s", got, tt.want)
			}
		})
	}
}
