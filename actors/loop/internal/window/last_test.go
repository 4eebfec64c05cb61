package window

import (
	"testing"

	"github.com/troupe-dev/troupe/llm"
)

func TestLastTokens(t *testing.T) {
	req := &llm.Request{System: "Be brief.", Messages: []llm.Message{llm.User("go"), llm.Assistant("I go.")}, Schema: []byte(`{"type":"object"}`)}
	for range 3 {
		if got, want := LastTokens(req, llm.EstimateTokens(req)), llm.EstimateTokens(Last(req)); got != want {
			t.Errorf("with %d tools: got %d, want %d", len(req.Tools), got, want)
		}
		req.Tools = append(req.Tools, llm.Tool{Name: "f", Description: "does f", InputSchema: []byte(`{"type":"object"}`)})
	}
}
