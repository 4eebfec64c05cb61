package sampling_test

import (
	"testing"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/sampling"
	"github.com/troupe-dev/troupe/mcp"
)

// FuzzResponse holds that a client's answer is a turn that the next question can go on
// from, or an error.
func FuzzResponse(f *testing.F) {
	for _, seed := range []string{
		`{"role":"assistant","model":"m","content":{"type":"text","text":"hi"}}`,
		`{"role":"assistant","model":"m","stopReason":"toolUse","content":[{"type":"tool_use","id":"x","name":"f","input":{}},{"type":"tool_use","id":"x","name":"f","input":{}},{"type":"tool_use","id":"","name":"f"}]}`,
		`{"role":"assistant","model":"\u001b","content":[{"type":"tool_use","id":"x_1","name":"","input":[]}]}`,
		`{"role":"user","content":[]}`, `{"role":"assistant","content":[{"type":"odd"}]}`,
		`{"role":"assistant","content":[{"type":"tool_result","toolUseId":"x","content":[]},{"type":"image","data":"","mimeType":"x"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var res mcp.CreateMessageResult
		if mcp.Unmarshal(data, &res) != nil {
			return
		}
		req := &llm.Request{Messages: []llm.Message{llm.User("Hi"),
			{Role: llm.RoleAssistant, Content: mcp.Contents{&mcp.ToolUseContent{ID: "x", Name: "f"}}},
			{Role: llm.RoleUser, Content: mcp.Contents{&mcp.ToolResultContent{ToolUseID: "x"}}}}, Tools: []llm.Tool{{Name: "f"}}}
		resp, err := sampling.Response(req, &res)
		if err != nil {
			if len(err.Error()) > 2<<10 {
				t.Errorf("Response(%q): an error of %d bytes", data, len(err.Error()))
			}
			return
		}
		if resp.Usage.Input <= 0 || resp.Usage.Output <= 0 || !resp.Usage.Estimated {
			t.Errorf("Response(%q): usage %+v", data, resp.Usage)
		}
		req.Messages = append(req.Messages, resp.Message())
		var results mcp.Contents
		for _, c := range resp.Calls() {
			results = append(results, &mcp.ToolResultContent{ToolUseID: c.ID})
		}
		if len(results) > 0 {
			req.Messages = append(req.Messages, llm.Message{Role: llm.RoleUser, Content: results})
		}
		if err := req.Validate(); err != nil {
			raw, _ := jsonx.Marshal(resp.Content)
			t.Errorf("Response(%q): the next question is not valid: %v: %s", data, err, raw)
		}
	})
}
