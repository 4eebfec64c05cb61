package models

import (
	"encoding/json"
	"testing"

	"github.com/troupe-dev/troupe/agent"
)

// TestStructuredAnswer: an agent that has to answer with JSON of a schema does, first go.
// (Ollama in OpenAI's way leaves the grammar out for models that may think, and so does not.)
func TestStructuredAnswer(t *testing.T) {
	t.Parallel()
	for _, b := range []backend{native, llama} {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			ctx := soon(t)
			rt, err := agent.Open(ctx, &agent.Options{Model: b.tiny(t).client()})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := rt.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}()
			a, err := rt.Agent("agent", &agent.Config{
				Output: json.RawMessage(`{"type":"object","properties":{"town":{"type":"string"},"nights":{"type":"integer"}},"required":["town","nights"],"additionalProperties":false}`),
			})
			if err != nil {
				t.Fatal(err)
			}
			res, err := a.Run(ctx, "Where shall I go, and for how long?", nil)
			if err != nil {
				t.Fatalf("Run: %v", err)
			}
			var answer struct {
				Town   *string `json:"town"`
				Nights *int    `json:"nights"`
			}
			if err := json.Unmarshal(res.Structured, &answer); err != nil || answer.Town == nil || answer.Nights == nil {
				t.Errorf("Run: got %s, %v", res.Structured, err)
			}
			if res.Usage.Input == 0 || res.Usage.Output == 0 {
				t.Errorf("Run: got usage %+v", res.Usage)
			}
		})
	}
}
