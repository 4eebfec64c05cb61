package openai_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/openai"
	"github.com/troupe-dev/troupe/mcp"
)

// sent runs a turn and returns the body that was sent, decoded.
func sent(t *testing.T, model string, opts openai.Options, req *llm.Request) map[string]any {
	t.Helper()
	s := llmtest.NewServer(llmtest.Say("ok")).Loop()
	opts.HTTPClient = memhttp.Serve(t, s)
	if opts.BaseURL == "" {
		opts.BaseURL = "http://llm.test"
	}
	if _, err := llm.Generate(t.Context(), openai.New(model, &opts), req); err != nil {
		t.Fatalf("Generate: %v", err)
	}
	checkServer(t, s)
	var body map[string]any
	if err := json.Unmarshal(s.Requests()[0].Body, &body); err != nil {
		t.Fatal(err)
	}
	return body
}

// decoded decodes a JSON text for a comparison.
func decoded(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func encoded(v any) string {
	data, _ := json.Marshal(v)
	return string(data)
}

// TestMessages holds how MCP content becomes messages.
func TestMessages(t *testing.T) {
	png := &mcp.ImageContent{Data: []byte{1, 2, 3}, MIMEType: "image/png"}
	call := func(id, name, input string) *mcp.ToolUseContent {
		return &mcp.ToolUseContent{ID: id, Name: name, Input: json.RawMessage(input)}
	}
	result := func(id string, content ...mcp.Content) *mcp.ToolResultContent {
		return &mcp.ToolResultContent{ToolUseID: id, Content: content}
	}
	user := func(content ...mcp.Content) llm.Message { return llm.Message{Role: llm.RoleUser, Content: content} }
	assistant := func(content ...mcp.Content) llm.Message {
		return llm.Message{Role: llm.RoleAssistant, Content: content}
	}
	failed := result("1", mcp.Text("no such file"))
	failed.IsError = true
	structured := result("1")
	structured.StructuredContent = json.RawMessage(`{"n":1}`)
	tests := []struct {
		name     string
		system   string
		messages []llm.Message
		want     string
	}{
		{"one text", "Be brief.", []llm.Message{llm.User("Hi")},
			`[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}]`},
		{"several texts and an image", "", []llm.Message{user(mcp.Text("a"), mcp.Text("b"), png)},
			`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"},
			  {"type":"image_url","image_url":{"url":"data:image/png;base64,AQID"}}]}]`},
		{"empty contents", "", []llm.Message{user(), assistant(), user(mcp.Text(""))}, // trap 6
			`[{"role":"user","content":" "},{"role":"assistant","content":" "},{"role":"user","content":" "}]`},
		{"results in the order of the calls", "",
			[]llm.Message{
				llm.User("Hi"),
				assistant(mcp.Text("I look."), call("1", "f", `{"a": 9007199254740993}`), call("2", "g", ``)),
				user(result("2", mcp.Text("two"), mcp.Text("more")), result("1")),
			},
			`[{"role":"user","content":"Hi"},
			  {"role":"assistant","content":"I look.","tool_calls":[
			    {"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\": 9007199254740993}"}},
			    {"id":"2","type":"function","function":{"name":"g","arguments":"{}"}}]},
			  {"role":"tool","tool_call_id":"1","content":"(no output)"},
			  {"role":"tool","tool_call_id":"2","content":"two\nmore"}]`},
		{"an error", "", []llm.Message{llm.User("Hi"), assistant(call("1", "f", `{}`)), user(failed)},
			`[{"role":"user","content":"Hi"},
			  {"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},
			  {"role":"tool","tool_call_id":"1","content":"Error: no such file"}]`},
		{"structured content alone", "", []llm.Message{llm.User("Hi"), assistant(call("1", "f", `{}`)), user(structured)},
			`[{"role":"user","content":"Hi"},
			  {"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},
			  {"role":"tool","tool_call_id":"1","content":"{\"n\":1}"}]`},
		{"images of results behind them all", "",
			[]llm.Message{
				llm.User("Hi"), assistant(call("1", "f", `{}`), call("2", "g", `{}`)),
				user(result("1", png), result("2", mcp.Text("two"))),
			},
			`[{"role":"user","content":"Hi"},
			  {"role":"assistant","tool_calls":[
			    {"id":"1","type":"function","function":{"name":"f","arguments":"{}"}},
			    {"id":"2","type":"function","function":{"name":"g","arguments":"{}"}}]},
			  {"role":"tool","tool_call_id":"1","content":"(an image: image/png)"},
			  {"role":"tool","tool_call_id":"2","content":"two"},
			  {"role":"user","content":[{"type":"text","text":"An image from the result of f:"},
			    {"type":"image_url","image_url":{"url":"data:image/png;base64,AQID"}}]}]`},
		{"an embedded text and an image of the assistant", "",
			[]llm.Message{
				user(&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "file:///a", Text: "inside"}}),
				assistant(png), llm.User("go on"),
			},
			`[{"role":"user","content":"inside"},{"role":"assistant","content":"(an image: image/png)"},
			  {"role":"user","content":"go on"}]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body := sent(t, "m", openai.Options{}, &llm.Request{System: tt.system, Messages: tt.messages})
			if want := decoded(t, tt.want); !reflect.DeepEqual(body["messages"], want) {
				t.Errorf("messages:\ngot  %s\nwant %s", encoded(body["messages"]), encoded(want))
			}
		})
	}
}

// TestParameters holds everything in a body but its messages.
func TestParameters(t *testing.T) {
	zero, half := 0.0, 0.5
	const stream = `"stream":true,"stream_options":{"include_usage":true}`
	tests := []struct {
		name  string
		model string
		opts  openai.Options
		req   llm.Request
		want  string
	}{
		{"nothing", "m", openai.Options{}, llm.Request{}, `{"model":"m",` + stream + `}`},
		{"another model", "m", openai.Options{}, llm.Request{Model: "n"}, `{"model":"n",` + stream + `}`},
		{"no stream options", "m", openai.Options{OmitStreamOptions: true}, llm.Request{}, `{"model":"m","stream":true}`},
		{"limits", "m", openai.Options{}, llm.Request{MaxTokens: 5, Temperature: &half, Stop: []string{"x"}},
			`{"model":"m","max_tokens":5,"temperature":0.5,"stop":["x"],` + stream + `}`},
		{"temperature zero", "m", openai.Options{}, llm.Request{Temperature: &zero}, // trap 6
			`{"model":"m","temperature":0.00001,` + stream + `}`},
		{"the other field", "m", openai.Options{MaxTokensField: "max_completion_tokens"}, llm.Request{MaxTokens: 5},
			`{"model":"m","max_completion_tokens":5,` + stream + `}`},
		{"OpenAI itself", "gpt-4o", openai.Options{BaseURL: "http://api.openai.com"}, llm.Request{MaxTokens: 5, Effort: llm.EffortNone},
			`{"model":"gpt-4o","max_completion_tokens":5,` + stream + `}`},
		{"a reasoning model", "gpt-5-mini", openai.Options{}, llm.Request{MaxTokens: 5, Temperature: &half, Effort: llm.EffortNone}, // trap 7
			`{"model":"gpt-5-mini","max_completion_tokens":5,"reasoning_effort":"minimal",` + stream + `}`},
		{"an effort", "m", openai.Options{ReasoningEffort: "high"}, llm.Request{}, `{"model":"m","reasoning_effort":"high",` + stream + `}`},
		{"no thinking", "m", openai.Options{ReasoningEffort: "high"}, llm.Request{Effort: llm.EffortNone},
			`{"model":"m","reasoning_effort":"none",` + stream + `}`},
		{"tools", "m", openai.Options{},
			llm.Request{ToolChoice: llm.ToolChoiceRequired, Tools: []llm.Tool{
				{Name: "f", Description: "does", InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false}`)}, {Name: "g"},
			}},
			`{"model":"m","tool_choice":"required","tools":[
			  {"type":"function","function":{"name":"f","description":"does","parameters":{"type":"object","additionalProperties":false}}},
			  {"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{}}}}],` + stream + `}`},
		{"a schema", "m", openai.Options{}, llm.Request{Schema: json.RawMessage(`{"type":"object"}`)},
			`{"model":"m","response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"},"strict":false}},` + stream + `}`},
		{"metadata", "m", openai.Options{MetadataKeys: []string{"a", "c"}}, llm.Request{Metadata: map[string]string{"a": "1", "b": "2"}},
			`{"model":"m","metadata":{"a":"1"},` + stream + `}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.Messages = []llm.Message{llm.User("Hi")}
			body := sent(t, tt.model, tt.opts, &tt.req)
			delete(body, "messages")
			if want := decoded(t, tt.want); !reflect.DeepEqual(any(body), want) {
				t.Errorf("body:\ngot  %s\nwant %s", encoded(body), encoded(want))
			}
		})
	}
}

// TestToolsStayWithCalls holds that tools are sent with "none" where the history needs them.
func TestToolsStayWithCalls(t *testing.T) {
	body := sent(t, "m", openai.Options{}, &llm.Request{
		Tools: []llm.Tool{{Name: "f"}}, ToolChoice: llm.ToolChoiceNone,
		Messages: []llm.Message{
			llm.User("Hi"),
			{Role: llm.RoleAssistant, Content: mcp.Contents{&mcp.ToolUseContent{ID: "1", Name: "f"}}},
			{Role: llm.RoleUser, Content: mcp.Contents{&mcp.ToolResultContent{ToolUseID: "1"}}},
		},
	})
	if body["tools"] == nil || body["tool_choice"] != "none" {
		t.Errorf("got tools %v with choice %v, want them with none", body["tools"], body["tool_choice"])
	}
}

// TestRefused holds what is an error before anything is sent.
func TestRefused(t *testing.T) {
	tests := []struct {
		name  string
		model string
		base  string
		req   *llm.Request
		want  error
	}{
		{"audio", "m", "", &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Content: mcp.Contents{&mcp.AudioContent{}}}}}, llm.ErrUnsupported}, // trap 8
		{"a TIFF", "m", "", &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Content: mcp.Contents{&mcp.ImageContent{MIMEType: "image/tiff"}}}}}, llm.ErrUnsupported},
		{"no messages", "m", "", &llm.Request{}, llm.ErrInvalidRequest},
		{"a URL without scheme", "m", "llm.test", hello(), llm.ErrInvalidRequest},
		{"a bad URL", "m", "http://[secret", hello(), llm.ErrInvalidRequest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := llmtest.NewServer()
			c := openai.New(tt.model, &openai.Options{BaseURL: tt.base, HTTPClient: memhttp.Serve(t, s)})
			_, err := llm.Generate(t.Context(), c, tt.req)
			e, ok := errors.AsType[*llm.Error](err)
			if !ok || !errors.Is(err, tt.want) || e.Retryable {
				t.Errorf("Generate: got error %v, want %v", err, tt.want)
			}
			if n := len(s.Requests()); n != 0 {
				t.Errorf("got %d requests, want none", n)
			}
		})
	}
}

func TestFromEnv(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_MODEL"} {
		t.Setenv(name, "")
	}
	if _, err := openai.FromEnv("m"); err == nil {
		t.Error("FromEnv without key and server: got no error")
	}
	t.Setenv("OPENAI_API_KEY", key)
	if _, err := openai.FromEnv(""); err == nil {
		t.Error("FromEnv without a model: got no error")
	}
	t.Setenv("OPENAI_MODEL", "gpt-5-mini")
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1/")
	c, err := openai.FromEnv("")
	if err != nil || c.String() != "openai/gpt-5-mini at 127.0.0.1:1" {
		t.Errorf("FromEnv: got %v and error %v", c, err)
	}
}

// TestHeaders holds the headers of a request.
func TestHeaders(t *testing.T) {
	s := llmtest.NewServer(llmtest.Say("ok"))
	c := openai.New("m", &openai.Options{
		BaseURL: "http://llm.test/v1/", APIKey: key, Organization: "org", Project: "proj", HTTPClient: memhttp.Serve(t, s),
	})
	if _, err := llm.Generate(t.Context(), c, hello()); err != nil {
		t.Fatalf("Generate: %v", err)
	}
	r := s.Requests()[0]
	for name, want := range map[string]string{
		"Authorization": "Bearer " + key, "OpenAI-Organization": "org", "OpenAI-Project": "proj", "Content-Type": "application/json",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("header %s: got %q, want %q", name, got, want)
		}
	}
}
