package window

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

func TestLastTokens(t *testing.T) {
	req := &llm.Request{System: "Be brief.", Messages: []llm.Message{llm.User("go"), llm.Assistant("I go.")}, Schema: []byte(`{"type":"object"}`)}
	for range 3 {
		if got, want := LastTokens(llm.EstimateTokens(req)), llm.EstimateTokens(Last(req, BudgetUsed)); got != want {
			t.Errorf("with %d tools: got %d, want %d", len(req.Tools), got, want)
		}
		req.Tools = append(req.Tools, llm.Tool{Name: "f", Description: "does f", InputSchema: []byte(`{"type":"object"}`)})
	}
}

// The last request fits what was held for it: by its results, by the last exchange, and also if there are more tools by now.
func TestFitLast(t *testing.T) {
	result := &mcp.ToolResultContent{ToolUseID: "a", Content: mcp.Contents{mcp.Text(strings.Repeat("x", 4000))}}
	call := &mcp.ToolUseContent{ID: "a", Name: "f", Input: []byte(`{"s":"` + strings.Repeat("y", 1000) + `"}`)}
	req := Last(&llm.Request{Tools: []llm.Tool{{Name: "f", Description: strings.Repeat("z", 400)}},
		Messages: []llm.Message{llm.User("go"), {Role: llm.RoleAssistant, Content: mcp.Contents{call}}, {Role: llm.RoleUser, Content: mcp.Contents{result}}}}, BudgetUsed)
	for _, tt := range []struct{ input, messages, tools int }{{2000, 4, 1}, {600, 4, 1}, {200, 2, 1}, {100, 2, 0}} {
		got := FitLast(req, tt.input)
		if len(got.Messages) != tt.messages || len(got.Tools) != tt.tools || llm.EstimateTokens(got) > tt.input {
			t.Errorf("in %d tokens: got %d, with %d messages and %d tools", tt.input, llm.EstimateTokens(got), len(got.Messages), len(got.Tools))
		}
	}
	if len(req.Messages) != 4 || len(req.Tools) != 1 {
		t.Error("the request was changed")
	}
}
