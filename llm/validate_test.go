package llm_test

import (
	"errors"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// TestValidate holds the rules of sampling for conversations with tools (SAMP-20 to SAMP-26).
func TestValidate(t *testing.T) {
	user := func(content ...mcp.Content) llm.Message { return llm.Message{Role: llm.RoleUser, Content: content} }
	assistant := func(content ...mcp.Content) llm.Message {
		return llm.Message{Role: llm.RoleAssistant, Content: content}
	}
	call := func(id string) mcp.Content { return &mcp.ToolUseContent{ID: id, Name: "f"} }
	result := func(id string) mcp.Content { return &mcp.ToolResultContent{ToolUseID: id} }
	hi := llm.User("Hi")
	tool := llm.Tool{Name: "f", InputSchema: []byte(`{"type":"object"}`)}

	tests := []struct {
		name string
		req  llm.Request
		ok   bool
	}{
		{"one message", llm.Request{Messages: []llm.Message{hi}}, true},
		{"calls and results", llm.Request{Tools: []llm.Tool{tool}, Messages: []llm.Message{hi, assistant(call("1"), call("2")), user(result("2"), result("1"))}}, true},
		{"the same tool in two rounds", llm.Request{Messages: []llm.Message{hi, assistant(call("1")), user(result("1")), assistant(call("2")), user(result("2"))}}, true},
		{"nothing", llm.Request{}, false},
		{"a role", llm.Request{Messages: []llm.Message{{Role: "system", Content: mcp.Contents{mcp.Text("x")}}}}, false},
		{"a call of the user", llm.Request{Messages: []llm.Message{user(call("1")), user(result("1"))}}, false},
		{"a result of the assistant", llm.Request{Messages: []llm.Message{hi, assistant(result("1"))}}, false},
		{"a result and more", llm.Request{Messages: []llm.Message{hi, assistant(call("1")), user(result("1"), mcp.Text("x"))}}, false},
		{"a call without result at the end", llm.Request{Messages: []llm.Message{hi, assistant(call("1"))}}, false},
		{"a call without result", llm.Request{Messages: []llm.Message{hi, assistant(call("1"), call("2")), user(result("1"))}}, false},
		{"a call and then text", llm.Request{Messages: []llm.Message{hi, assistant(call("1")), hi}}, false},
		{"a result without call", llm.Request{Messages: []llm.Message{hi, assistant(mcp.Text("x")), user(result("1"))}}, false},
		{"a result twice", llm.Request{Messages: []llm.Message{hi, assistant(call("1")), user(result("1"), result("1"))}}, false},
		{"an id twice", llm.Request{Messages: []llm.Message{hi, assistant(call("1")), user(result("1")), assistant(call("1")), user(result("1"))}}, false},
		{"no id", llm.Request{Messages: []llm.Message{hi, assistant(call("")), user(result(""))}}, false},
		{"arguments that are no object", llm.Request{Messages: []llm.Message{hi, assistant(&mcp.ToolUseContent{ID: "1", Name: "f", Input: []byte(`[]`)}), user(result("1"))}}, false},
		{"a tool twice", llm.Request{Messages: []llm.Message{hi}, Tools: []llm.Tool{tool, tool}}, false},
		{"a tool without name", llm.Request{Messages: []llm.Message{hi}, Tools: []llm.Tool{{}}}, false},
		{"a schema that is no object", llm.Request{Messages: []llm.Message{hi}, Tools: []llm.Tool{{Name: "f", InputSchema: []byte(`null`)}}}, false},
		{"a schema with space around", llm.Request{Messages: []llm.Message{hi}, Tools: []llm.Tool{{Name: "f", InputSchema: []byte("\n {} ")}}}, true},
		{"a schema with a member twice", llm.Request{Messages: []llm.Message{hi}, Tools: []llm.Tool{{Name: "f", InputSchema: []byte(`{"a":1,"a":2}`)}}}, false},
		{"a schema that is cut", llm.Request{Messages: []llm.Message{hi}, Tools: []llm.Tool{{Name: "f", InputSchema: []byte(`{"a":1`)}}}, false},
		{"a schema and more", llm.Request{Messages: []llm.Message{hi}, Tools: []llm.Tool{{Name: "f", InputSchema: []byte(`{} {}`)}}}, false},
		{"a schema that is not UTF-8", llm.Request{Messages: []llm.Message{hi}, Tools: []llm.Tool{{Name: "f", InputSchema: []byte("{\"a\":\"\xff\"}")}}}, false},
		{"an answer's schema that is no object", llm.Request{Messages: []llm.Message{hi}, Schema: []byte(`7`)}, false},
		{"required and no tools", llm.Request{Messages: []llm.Message{hi}, ToolChoice: llm.ToolChoiceRequired}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.req.Validate()
			if (err == nil) != tt.ok {
				t.Errorf("Validate: got error %v, want none: %v", err, tt.ok)
			}
			if err != nil && !errors.Is(err, llm.ErrInvalidRequest) {
				t.Errorf("Validate: error %v is not %v", err, llm.ErrInvalidRequest)
			}
		})
	}
}
