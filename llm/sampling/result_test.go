package sampling_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/sampling"
	"github.com/troupe-dev/troupe/mcp"
)

func use(id string) *mcp.ToolUseContent {
	return &mcp.ToolUseContent{ID: id, Name: "t", Input: json.RawMessage(`{}`)}
}

// The reason is that of the content, not only the model's (SAMP-10, SAMP-11, SAMP-06);
// thinking is never part of it.
func TestResult(t *testing.T) {
	const plain, tools = `{"messages":[` + hi + `],"maxTokens":9,"stopSequences":["END"]}`, `{"messages":[` + hi + `],"maxTokens":9,"stopSequences":["END"],"tools":[{"name":"t","inputSchema":{}}]`
	text := mcp.Contents{mcp.Text("yes")}
	tests := []struct {
		name, params string
		resp         llm.Response
		want         string
	}{
		{"a natural end", plain, llm.Response{Content: text, Finish: llm.FinishStop, Model: "m", Thinking: "secret"},
			`{"role":"assistant","content":{"type":"text","text":"yes"},"model":"m","stopReason":"endTurn"}`},
		{"the limit", plain, llm.Response{Content: text, Finish: llm.FinishLength}, `{"role":"assistant","content":{"type":"text","text":"yes"},"model":"","stopReason":"maxTokens"}`},
		{"a filter", plain, llm.Response{Content: text, Finish: llm.FinishContentFilter}, `{"role":"assistant","content":{"type":"text","text":"yes"},"model":"","stopReason":"contentFilter"}`},
		{"a refusal", plain, llm.Response{Content: text, Finish: llm.FinishRefusal}, `{"role":"assistant","content":{"type":"text","text":"yes"},"model":"","stopReason":"refusal"}`},
		{"another reason", plain, llm.Response{Content: text, Finish: "tired"}, `{"role":"assistant","content":{"type":"text","text":"yes"},"model":"","stopReason":"tired"}`},
		{"nothing at all", plain, llm.Response{Finish: llm.FinishStop}, `{"role":"assistant","content":{"type":"text","text":""},"model":"","stopReason":"endTurn"}`},
		{"a stop sequence that was not heeded", plain, llm.Response{Content: mcp.Contents{mcp.Text("yes END no")}, Finish: llm.FinishStop},
			`{"role":"assistant","content":{"type":"text","text":"yes "},"model":"","stopReason":"stopSequence"}`},
		{"calls with text", tools + `}`, llm.Response{Content: mcp.Contents{mcp.Text("yes"), use("1"), use("2")}, Finish: llm.FinishStop},
			`{"role":"assistant","content":[{"type":"text","text":"yes"},{"type":"tool_use","id":"1","name":"t","input":{}},{"type":"tool_use","id":"2","name":"t","input":{}}],"model":"","stopReason":"toolUse"}`},
		{"a call before the limit", tools + `}`, llm.Response{Content: mcp.Contents{use("1")}, Finish: llm.FinishLength},
			`{"role":"assistant","content":{"type":"tool_use","id":"1","name":"t","input":{}},"model":"","stopReason":"toolUse"}`},
		{"a call where none may be", tools + `,"toolChoice":{"mode":"none"}}`, llm.Response{Content: mcp.Contents{use("1")}, Finish: llm.FinishToolCalls},
			`{"role":"assistant","content":{"type":"text","text":""},"model":"","stopReason":"endTurn"}`},
		{"a call without tools", plain, llm.Response{Content: mcp.Contents{mcp.Text("yes"), use("1")}, Finish: llm.FinishToolCalls},
			`{"role":"assistant","content":{"type":"text","text":"yes"},"model":"","stopReason":"endTurn"}`},
		{"a call behind a stop sequence that was not heeded", tools + `}`, llm.Response{Content: mcp.Contents{mcp.Text("yes END no"), use("1")}, Finish: llm.FinishToolCalls},
			`{"role":"assistant","content":{"type":"text","text":"yes "},"model":"","stopReason":"stopSequence"}`},
		{"a call that must be", tools + `,"toolChoice":{"mode":"required"}}`, llm.Response{Content: mcp.Contents{mcp.Text("END"), use("1")}},
			`{"role":"assistant","content":{"type":"tool_use","id":"1","name":"t","input":{}},"model":"","stopReason":"toolUse"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := sampling.Result(ask(t, tt.params), &tt.resp)
			if err != nil {
				t.Fatal(err)
			}
			if text := asJSON(t, got); text != tt.want {
				t.Errorf("Result: got %s, want %s", text, tt.want)
			}
		})
	}
	if _, err := sampling.Result(ask(t, tools+`,"toolChoice":{"mode":"required"}}`), &llm.Response{Content: text}); !errors.Is(err, sampling.ErrNoCall) {
		t.Errorf("Result without the call that must be: got %v, want ErrNoCall", err)
	}
}

// A turn of ours as a client is asked it.
func TestParams(t *testing.T) {
	tests := []struct {
		name string
		req  llm.Request
		want string
	}{
		{"the least", llm.Request{Messages: []llm.Message{llm.User("hi")}}, `{"messages":[` + hi + `],"maxTokens":8192}`},
		{"all of it", llm.Request{
			Model: "own", System: "be brief", Messages: []llm.Message{llm.User("hi"), {Role: llm.RoleAssistant}, {Role: llm.RoleUser, Content: mcp.Contents{&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "file:///a", Text: "inside"}}}}},
			Tools: []llm.Tool{{Name: "t"}}, ToolChoice: llm.ToolChoiceNone, MaxTokens: 7, Temperature: new(0.0), Stop: []string{"END"}, Schema: json.RawMessage(`{"type":"object"}`),
			Effort: llm.EffortHigh, Prefer: &llm.Preferences{Hints: []string{"big"}, Speed: 0.5, Allowed: []string{"x"}}, Metadata: map[string]string{"a": "b"},
		}, `{"messages":[` + hi + `,{"role":"assistant","content":{"type":"text","text":""}},{"role":"user","content":{"type":"text","text":"inside"}}],"maxTokens":7,` +
			`"modelPreferences":{"hints":[{"name":"own"},{"name":"big"}],"speedPriority":0.5},` +
			`"systemPrompt":"be brief\n\nAnswer with JSON only, without any other text, that fits this JSON schema: {\"type\":\"object\"}",` +
			`"temperature":0,"stopSequences":["END"],"tools":[{"name":"t","inputSchema":{"type":"object"}}],"toolChoice":{"mode":"none"}}`},
		{"nothing of tools where there are none", llm.Request{Messages: []llm.Message{llm.User("hi")}, ToolChoice: llm.ToolChoiceNone}, `{"messages":[` + hi + `],"maxTokens":8192}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := sampling.Params(&tt.req)
			if err != nil {
				t.Fatal(err)
			}
			if text := asJSON(t, got); text != tt.want {
				t.Errorf("Params: got %s, want %s", text, tt.want)
			}
		})
	}
	if _, err := sampling.Params(new(llm.Request)); !errors.Is(err, llm.ErrInvalidRequest) {
		t.Errorf("Params of nothing: got %v, want ErrInvalidRequest", err)
	}
}

// A client's answer as a turn, and what is none (SAMP-06, SAMP-10, SAMP-11).
func TestResponse(t *testing.T) {
	plain := &llm.Request{Messages: []llm.Message{llm.User("hi")}}
	tools := &llm.Request{Tools: []llm.Tool{{Name: "t"}}, Messages: []llm.Message{
		{Role: llm.RoleAssistant, Content: mcp.Contents{use("1")}}, {Role: llm.RoleUser, Content: mcp.Contents{&mcp.ToolResultContent{ToolUseID: "1"}}}}}
	must := &llm.Request{Tools: tools.Tools, ToolChoice: llm.ToolChoiceRequired, Messages: plain.Messages}
	tests := []struct {
		name, result string
		req          *llm.Request
		finish       llm.FinishReason
		text         string
		ids          []string
		want         error
	}{
		{name: "text", result: `{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"image","data":"","mimeType":"image/png"},{"type":"text","text":"b"}],"model":"m","stopReason":"endTurn"}`, req: plain, finish: llm.FinishStop, text: "a\n(an image: image/png)\nb"},
		{name: "no reason", result: `{"role":"assistant","content":{"type":"text","text":"a"},"model":"m"}`, req: plain, finish: llm.FinishStop, text: "a"},
		{name: "limit", result: `{"role":"assistant","content":{"type":"text","text":"a"},"model":"m","stopReason":"maxTokens"}`, req: plain, finish: llm.FinishLength, text: "a"},
		{name: "filter", result: `{"role":"assistant","content":[],"model":"m","stopReason":"contentFilter"}`, req: plain, finish: llm.FinishContentFilter},
		{name: "refusal", result: `{"role":"assistant","content":[],"model":"m","stopReason":"refusal"}`, req: plain, finish: llm.FinishRefusal},
		{name: "own words", result: `{"role":"assistant","content":[],"model":"m","stopReason":"tired"}`, req: plain, finish: "tired"},
		{name: "calls", result: `{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"t","input":{}},{"type":"tool_use","id":"9","name":"t","input":{},"_meta":{"a":1}}],"model":"m","stopReason":"endTurn"}`, req: tools, finish: llm.FinishToolCalls, ids: []string{"1_2", "9"}},
		{name: "the user's", result: `{"role":"user","content":[],"model":"m"}`, req: plain, want: llm.ErrBadResponse},
		{name: "calls without tools", result: `{"role":"assistant","content":{"type":"tool_use","id":"1","name":"t","input":{}},"model":"m"}`, req: plain, want: llm.ErrBadResponse},
		{name: "toolUse without calls", result: `{"role":"assistant","content":{"type":"text","text":"a"},"model":"m","stopReason":"toolUse"}`, req: tools, want: llm.ErrBadResponse},
		{name: "no call where one must be", result: `{"role":"assistant","content":{"type":"text","text":"a"},"model":"m"}`, req: must, want: sampling.ErrNoCall},
		{name: "arguments", result: `{"role":"assistant","content":{"type":"tool_use","id":"1","name":"t","input":{"a":1,"a":2}},"model":"m"}`, req: must, want: llm.ErrBadCall},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := new(mcp.CreateMessageResult)
			if err := mcp.Unmarshal([]byte(tt.result), res); err != nil {
				if tt.want == llm.ErrBadCall { // the decoder refuses it already; the mapping must too
					res = &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Content: mcp.Contents{&mcp.ToolUseContent{ID: "1", Name: "t", Input: json.RawMessage(`[]`)}}}
				} else {
					t.Fatal(err)
				}
			}
			got, err := sampling.Response(tt.req, res)
			if !errors.Is(err, tt.want) {
				t.Fatalf("Response: got %v, want %v", err, tt.want)
			}
			if tt.want != nil {
				return
			}
			var ids []string
			for _, c := range got.Calls() {
				ids = append(ids, c.ID)
			}
			if got.Finish != tt.finish || got.Text() != tt.text || !reflect.DeepEqual(ids, tt.ids) || got.Model != "m" || !got.Usage.Estimated || got.Usage.Input == 0 {
				t.Errorf("Response: got %+v with the calls %q", got, ids)
			}
			next := *tt.req
			next.Messages = append(next.Messages[:len(next.Messages):len(next.Messages)], got.Message())
			for _, id := range ids {
				next.Messages = append(next.Messages, llm.Message{Role: llm.RoleUser, Content: mcp.Contents{&mcp.ToolResultContent{ToolUseID: id}}})
			}
			if len(ids) < 2 { // results of several calls stand in one message
				if err := next.Validate(); err != nil {
					t.Errorf("the conversation with the answer: %v", err)
				}
			}
		})
	}
}
