package models

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/tests/modelservers"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/openai"
	"github.com/troupe-dev/troupe/mcp"
)

// TestResponses: what real servers have of the Responses API is understood, and the next request is taken: text in pieces, its cost,
// reasoning, and calls with their results.
func TestResponses(t *testing.T) {
	t.Parallel()
	for _, b := range []backend{compat, llama} {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			s := b.tiny(t)
			m := openai.New(s.model, &openai.Options{BaseURL: s.url, API: openai.APIResponses})
			pieces := 0
			var text strings.Builder
			for ev, err := range m.Stream(soon(t), saying("Hello")) {
				if err != nil {
					t.Fatal(err)
				}
				switch ev := ev.(type) {
				case llm.TextDelta:
					pieces++
					text.WriteString(ev.Text)
				case llm.Usage:
					if ev.Input == 0 || ev.Output < pieces || ev.Estimated {
						t.Errorf("got usage %+v for %d pieces", ev, pieces)
					}
				case llm.Finish:
					if ev.Reason != llm.FinishStop || ev.Model != s.model {
						t.Errorf("got %+v", ev)
					}
				}
			}
			if text.String() != modelservers.Behaviour().Default || pieces < 3 {
				t.Errorf("got %q in %d pieces", text.String(), pieces)
			}
			if resp := ask(t, m, saying("#think")); strings.TrimSpace(resp.Thinking) != "Let me ponder this." || resp.Text() != "It is 42." {
				t.Errorf("#think: got %q, thinking %q", resp.Text(), resp.Thinking)
			}
			req := saying("#both, please")
			req.Tools = tools()
			resp := ask(t, m, req)
			if len(resp.Calls()) != 2 || resp.Finish != llm.FinishToolCalls {
				t.Fatalf("#both: got %+v", resp)
			}
			results := llm.Message{Role: llm.RoleUser}
			for _, call := range resp.Calls() {
				results.Content = append(results.Content, &mcp.ToolResultContent{ToolUseID: call.ID, Content: mcp.Contents{mcp.Text("fine")}})
			}
			req.Messages = append(req.Messages, resp.Message(), results)
			if resp := ask(t, m, req); resp.Text() != modelservers.Behaviour().Tool || resp.Finish != llm.FinishStop {
				t.Errorf("after the results: got %q, finish %q", resp.Text(), resp.Finish)
			}
		})
	}
}
