package sampling_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/sampling"
	"github.com/troupe-dev/troupe/mcp"
)

// ask decodes params of sampling/createMessage; members are added to a usual request.
func ask(t *testing.T, members string) *mcp.CreateMessageParams {
	t.Helper()
	p := new(mcp.CreateMessageParams)
	if err := mcp.Unmarshal([]byte(members), p); err != nil {
		t.Fatalf("decoding %s: %v", members, err)
	}
	return p
}

const hi = `{"role":"user","content":{"type":"text","text":"hi"}}`

// What a server asks becomes a turn of a model (SAMP-02, SAMP-03, SAMP-06, SAMP-09).
func TestRequest(t *testing.T) {
	tests := []struct {
		name, params string
		want         llm.Request
	}{
		{"the least", `{"messages":[` + hi + `],"maxTokens":10}`, llm.Request{Messages: []llm.Message{llm.User("hi")}, MaxTokens: 10}},
		{"all of it", `{"messages":[` + hi + `,{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],"maxTokens":10,
			"systemPrompt":"be brief","temperature":0.5,"stopSequences":["END",""],"metadata":{"user":"me"},"includeContext":"allServers",
			"modelPreferences":{"hints":[{"name":"sonnet"},{},{"name":"claude"}],"costPriority":0.5,"speedPriority":-1,"intelligencePriority":2},
			"tools":[{"name":"t","description":"does","inputSchema":{"type":"object"}}],"toolChoice":{"mode":"required"}}`,
			llm.Request{
				System: "be brief", Messages: []llm.Message{llm.User("hi"), {Role: llm.RoleAssistant, Content: mcp.Contents{mcp.Text("a"), mcp.Text("b")}}},
				MaxTokens: 10, Temperature: new(0.5), Stop: []string{"END"},
				Prefer:     &llm.Preferences{Hints: []string{"sonnet", "claude"}, Cost: 0.5, Intelligence: 1},
				Tools:      []llm.Tool{{Name: "t", Description: "does", InputSchema: json.RawMessage(`{"type":"object"}`)}},
				ToolChoice: llm.ToolChoiceRequired,
			}},
		{"none may be called", `{"messages":[` + hi + `],"maxTokens":1,"tools":[{"name":"t","inputSchema":{}}],"toolChoice":{"mode":"none"}}`,
			llm.Request{Messages: []llm.Message{llm.User("hi")}, MaxTokens: 1, Tools: []llm.Tool{{Name: "t", InputSchema: json.RawMessage(`{}`)}}, ToolChoice: llm.ToolChoiceNone}},
		{"images and sound", `{"messages":[{"role":"user","content":[{"type":"image","data":"cG5n","mimeType":"image/png"},{"type":"audio","data":"d2F2","mimeType":"audio/wav"}]}],"maxTokens":1}`,
			llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Content: mcp.Contents{
				&mcp.ImageContent{Data: []byte("png"), MIMEType: "image/png"}, &mcp.AudioContent{Data: []byte("wav"), MIMEType: "audio/wav"}}}}, MaxTokens: 1}},
		{"more than there is", `{"messages":[` + hi + `],"maxTokens":9007199254740991,"temperature":1e300}`,
			llm.Request{Messages: []llm.Message{llm.User("hi")}, MaxTokens: math.MaxInt32, Temperature: new(2.0)}},
		// SAMP-25: what belongs to the blocks goes on.
		{"a loop", `{"messages":[{"role":"assistant","content":{"type":"tool_use","id":"1","name":"t","input":{"n":9007199254740993},"_meta":{"cache":1}}},
			{"role":"user","content":{"type":"tool_result","toolUseId":"1","content":[{"type":"image","data":"cG5n","mimeType":"image/png"}],"structuredContent":{"a":1},"isError":true,"_meta":{"cache":2}}}],"maxTokens":1}`,
			llm.Request{Messages: []llm.Message{
				{Role: llm.RoleAssistant, Content: mcp.Contents{&mcp.ToolUseContent{ID: "1", Name: "t", Input: json.RawMessage(`{"n":9007199254740993}`), Meta: mcp.Meta{"cache": json.RawMessage("1")}}}},
				{Role: llm.RoleUser, Content: mcp.Contents{&mcp.ToolResultContent{ToolUseID: "1", Content: mcp.Contents{&mcp.ImageContent{Data: []byte("png"), MIMEType: "image/png"}},
					StructuredContent: json.RawMessage(`{"a":1}`), IsError: true, Meta: mcp.Meta{"cache": json.RawMessage("2")}}}},
			}, MaxTokens: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := sampling.Request(ask(t, tt.params))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, &tt.want) {
				t.Errorf("Request: got %s, want %s", asJSON(t, got), asJSON(t, tt.want))
			}
			if err := got.Validate(); err != nil {
				t.Errorf("Validate: %v", err)
			}
		})
	}
}

// What no model takes is refused with words for the server (SAMP-20 to SAMP-23, SAMP-26).
func TestRequestRefused(t *testing.T) {
	const (
		use    = `{"role":"assistant","content":{"type":"tool_use","id":"1","name":"t","input":{}}}`
		answer = `{"type":"tool_result","toolUseId":"1","content":[]}`
	)
	tests := []struct{ name, params, want string }{
		{"nothing", `{"messages":[],"maxTokens":1}`, "no messages"},
		{"SAMP-20", `{"messages":[` + use + `,{"role":"user","content":[` + answer + `,{"type":"text","text":"x"}]}],"maxTokens":1}`, "mixed"},
		{"SAMP-21", `{"messages":[` + use + `,` + hi + `],"maxTokens":1}`, "missing"},
		{"SAMP-23", `{"messages":[{"role":"user","content":{"type":"tool_use","id":"1","name":"t","input":{}}}],"maxTokens":1}`, "outside"},
		{"SAMP-26", `{"messages":[{"role":"user","content":` + answer + `}],"maxTokens":1}`, "without its call"},
		{"SAMP-06", `{"messages":[` + hi + `],"maxTokens":1,"toolChoice":{"mode":"required"}}`, "no tools"},
		{"a mode", `{"messages":[` + hi + `],"maxTokens":1,"toolChoice":{"mode":"perhaps"}}`, "toolChoice"},
		{"SAMP-03", `{"messages":[{"role":"user","content":{"type":"resource_link","uri":"file:///a","name":"a"}}],"maxTokens":1}`, "resource_link"},
		{"an image", `{"messages":[{"role":"user","content":{"type":"image","data":"","mimeType":"image/svg+xml"}}],"maxTokens":1}`, "image/svg+xml"},
		{"an image of a tool", `{"messages":[` + use + `,{"role":"user","content":{"type":"tool_result","toolUseId":"1","content":[{"type":"image","data":"","mimeType":"image/tiff"}]}}],"maxTokens":1}`, "image/tiff"},
		{"two tools", `{"messages":[` + hi + `],"maxTokens":1,"tools":[{"name":"t","inputSchema":{}},{"name":"t","inputSchema":{}}]}`, "twice"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := sampling.Request(ask(t, tt.params))
			var wire *mcp.Error
			if !errors.As(err, &wire) || wire.Code != mcp.CodeInvalidParams || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Request: got %v, want -32602 with %q", err, tt.want)
			}
		})
	}
}

// A request that was made in Go and not decoded is checked likewise (SAMP-02).
func TestRequestWithoutLimit(t *testing.T) {
	_, err := sampling.Request(&mcp.CreateMessageParams{Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Contents{mcp.Text("hi")}}}})
	if !errors.Is(err, mcp.ErrInvalidParams) {
		t.Errorf("Request: got %v, want -32602", err)
	}
}

// Ids that MCP allows twice in a history, and names that providers do not take, are
// replaced on the way to a model; the server's own come back.
func TestNames(t *testing.T) {
	long := strings.Repeat("x", 100)
	p := ask(t, `{"messages":[
		{"role":"assistant","content":{"type":"tool_use","id":"1","name":"a.b/c","input":{}}},{"role":"user","content":{"type":"tool_result","toolUseId":"1","content":[]}},
		{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"ok","input":{}},{"type":"tool_use","id":"","name":"ok","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","toolUseId":"","content":[]},{"type":"tool_result","toolUseId":"1","content":[]}]}
		],"maxTokens":1,"tools":[{"name":"a.b/c","inputSchema":{}},{"name":"a.b.c","inputSchema":{}},{"name":"ok","inputSchema":{}},{"name":"`+long+`","inputSchema":{}}]}`)
	req, err := sampling.Request(p)
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, tool := range req.Tools {
		if len(tool.Name) > 64 || strings.Trim(tool.Name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" || names[tool.Name] {
			t.Errorf("tool name %q", tool.Name)
		}
		names[tool.Name] = true
	}
	if first := req.Messages[0].Content[0].(*mcp.ToolUseContent); first.ID != "1" || first.Name != req.Tools[0].Name {
		t.Errorf("first call: got %+v", first)
	}
	second, third := req.Messages[2].Content[0].(*mcp.ToolUseContent), req.Messages[2].Content[1].(*mcp.ToolUseContent)
	if req.Messages[3].Content[0].(*mcp.ToolResultContent).ToolUseID != third.ID || req.Messages[3].Content[1].(*mcp.ToolResultContent).ToolUseID != second.ID {
		t.Errorf("results: got %s", asJSON(t, req.Messages[3]))
	}
	if p.Messages[2].Content[0].(*mcp.ToolUseContent).ID != "1" {
		t.Error("the server's own message was changed")
	}
	res, err := sampling.Result(p, &llm.Response{Finish: llm.FinishToolCalls, Content: mcp.Contents{
		&mcp.ToolUseContent{ID: "x", Name: req.Tools[1].Name}, &mcp.ToolUseContent{ID: "x", Name: req.Tools[3].Name}, &mcp.ToolUseContent{Name: "made up"}}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	ids := make(map[string]bool)
	for _, c := range res.Content {
		call := c.(*mcp.ToolUseContent)
		got = append(got, call.Name)
		ids[call.ID] = true
	}
	if want := []string{"a.b.c", long, "made up"}; !reflect.DeepEqual(got, want) || len(ids) != 3 || ids[""] {
		t.Errorf("calls: got %q with the ids %v, want %q", got, ids, want)
	}
}

// Whatever a server sends, it is a turn that a model takes or a refusal in words.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"messages":[` + hi + `],"maxTokens":10}`))
	f.Add([]byte(`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"","name":"t","input":{"a":1,"a":2}},{"type":"tool_use","id":"call_1","name":"t","input":{}}]},{"role":"user","content":[{"type":"tool_result","toolUseId":"call_1","content":[]},{"type":"tool_result","toolUseId":"","content":[{"type":"odd"}]}]}],"maxTokens":1,"tools":[{"name":"é.é","inputSchema":[]}],"toolChoice":{"mode":"none"}}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":[]}],"maxTokens":1e3,"temperature":-3,"stopSequences":null,"modelPreferences":{"hints":[]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p := new(mcp.CreateMessageParams)
		if mcp.Unmarshal(raw, p) != nil {
			return
		}
		req, err := sampling.Request(p)
		if err != nil {
			var wire *mcp.Error
			if !errors.As(err, &wire) || wire.Code != mcp.CodeInvalidParams {
				t.Fatalf("Request(%s): got %v, want -32602", raw, err)
			}
			return
		}
		if err := req.Validate(); err != nil {
			t.Fatalf("Request(%s): %v", raw, err)
		}
		// And it can be asked of a client again.
		again, err := sampling.Params(req)
		if err != nil {
			t.Fatalf("Params of Request(%s): %v", raw, err)
		}
		if err := again.CheckToolBalance(); err != nil {
			t.Fatalf("Params of Request(%s): %v", raw, err)
		}
	})
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := mcp.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
