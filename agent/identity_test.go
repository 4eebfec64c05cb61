package agent_test

import (
	"encoding/json"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
)

// TestIdentity: the digest is that of the canonical JSON of a list, which other processes and
// later versions compare with.
func TestIdentity(t *testing.T) {
	texts := []string{"", "Hello, Ada.", "\"quoted\" \\ / <a&b>", "\x00\x01\b\t\n\f\r\x1f\x7f", "é € 𝄞 \u2028\u2029 \uFFFD"}
	history := []llm.Message{llm.User("before"), llm.Assistant("it")}
	output := json.RawMessage(`{"type": "object", "properties": {"b": {"minimum": 1.0}, "a": true}}`)
	for _, agentName := range texts {
		for _, prompt := range texts {
			tests := []struct {
				opts agent.RunOptions
				list []any
			}{
				{agent.RunOptions{}, []any{agentName, prompt, nil}},
				{agent.RunOptions{Output: json.RawMessage{}}, []any{agentName, prompt, nil}},
				{agent.RunOptions{Output: output}, []any{agentName, prompt, output}},
				{agent.RunOptions{History: history}, []any{agentName, prompt, nil, history}},
				{agent.RunOptions{Output: output, History: history}, []any{agentName, prompt, output, history}},
			}
			for _, tt := range tests {
				if got, want := agent.Identity(agentName, prompt, &tt.opts).String(), agent.HashOf(tt.list); got != want {
					t.Errorf("identity of %q, %q, %+v: got %s, want %s", agentName, prompt, tt.opts, got, want)
				}
			}
		}
	}
	const want = "sha256:5a03cf7b1555ed6f0661d2111f1d05bd3f2dd7ed26cfb8e591490e5eb45be8a9"
	if got := agent.Identity("ada", "go", &agent.RunOptions{}).String(); got != want {
		t.Errorf(`identity of "ada", "go": got %s, want %s`, got, want)
	}
}
