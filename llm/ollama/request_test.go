package ollama_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/ollama"
	"github.com/troupe-dev/troupe/mcp"
)

// sent runs a turn and returns the text of the body that was sent, and its members.
func sent(t *testing.T, opts ollama.Options, req *llm.Request) (string, map[string]any) {
	t.Helper()
	s := llmtest.NewServer(llmtest.Say("ok"))
	if _, err := llm.Generate(t.Context(), client(t, s, opts), req); err != nil {
		t.Fatalf("Generate: %v", err)
	}
	checkServer(t, s)
	body := s.Chats()[0].Body
	return string(body), decoded(t, string(body)).(map[string]any)
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
	user := func(content ...mcp.Content) llm.Message { return llm.Message{Role: llm.RoleUser, Content: content} }
	assistant := func(content ...mcp.Content) llm.Message {
		return llm.Message{Role: llm.RoleAssistant, Content: content}
	}
	tests := []struct {
		name     string
		system   string
		messages []llm.Message
		want     string
	}{
		{"one text", "Be brief.", []llm.Message{llm.User("Hi")},
			`[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}]`},
		{"several texts and an image", "", []llm.Message{user(mcp.Text("a"), mcp.Text("b"), png)},
			`[{"role":"user","content":"a\nb","images":["AQID"]}]`},
		{"empty contents", "", []llm.Message{user(), assistant(), user()},
			`[{"role":"user","content":""},{"role":"assistant","content":""},{"role":"user","content":""}]`},
		{"results in the order of the calls", "",
			[]llm.Message{
				llm.User("Hi"),
				assistant(mcp.Text("I look."), call("1", "f", `{}`), call("2", "g", ``)),
				user(&mcp.ToolResultContent{ToolUseID: "2", Content: mcp.Contents{mcp.Text("two"), png}},
					&mcp.ToolResultContent{ToolUseID: "1", IsError: true}),
			},
			`[{"role":"user","content":"Hi"},
			  {"role":"assistant","content":"I look.","tool_calls":[
			    {"id":"1","function":{"index":0,"name":"f","arguments":{}}},
			    {"id":"2","function":{"index":1,"name":"g","arguments":{}}}]},
			  {"role":"tool","tool_call_id":"1","tool_name":"f","content":"Error: (no output)"},
			  {"role":"tool","tool_call_id":"2","tool_name":"g","content":"two\n(an image: image/png)"},
			  {"role":"user","content":"The images from the results above.","images":["AQID"]}]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, body := sent(t, ollama.Options{}, &llm.Request{System: tt.system, Messages: tt.messages})
			if want := decoded(t, tt.want); !reflect.DeepEqual(body["messages"], want) {
				t.Errorf("messages:\ngot  %s\nwant %s", encoded(body["messages"]), encoded(want))
			}
		})
	}
}

// TestArgumentsKeepOrderAndDigits holds what Ollama's own types would lose (trap 6).
func TestArgumentsKeepOrderAndDigits(t *testing.T) {
	const args = `{"z":9007199254740993,"a":{"y":1.50,"b":null}}`
	text, _ := sent(t, ollama.Options{}, &llm.Request{Messages: []llm.Message{
		llm.User("Hi"),
		{Role: llm.RoleAssistant, Content: mcp.Contents{&mcp.ToolUseContent{ID: "1", Name: "f", Input: json.RawMessage(args)}}},
		{Role: llm.RoleUser, Content: mcp.Contents{&mcp.ToolResultContent{ToolUseID: "1"}}},
	}})
	if !strings.Contains(text, args) {
		t.Errorf("body %s does not hold the arguments %s", text, args)
	}
}

// TestParameters holds everything in a body but its messages.
func TestParameters(t *testing.T) {
	zero := 0.0
	tests := []struct {
		name string
		opts ollama.Options
		req  llm.Request
		want string
	}{
		{"nothing", ollama.Options{}, llm.Request{}, `{"model":"m","stream":true,"options":{}}`},
		{"another model", ollama.Options{}, llm.Request{Model: "n"}, `{"model":"n","stream":true,"options":{}}`},
		{"options", ollama.Options{ContextLength: 8192, KeepAlive: time.Minute},
			llm.Request{MaxTokens: 5, Temperature: &zero, Stop: []string{"x"}},
			`{"model":"m","stream":true,"keep_alive":"1m0s","options":{"num_predict":5,"temperature":0,"stop":["x"],"num_ctx":8192}}`},
		{"for ever", ollama.Options{KeepAlive: -1}, llm.Request{}, `{"model":"m","stream":true,"keep_alive":-1,"options":{}}`},
		{"a schema switches thinking off", ollama.Options{}, llm.Request{Schema: json.RawMessage(`{"type":"object"}`)},
			`{"model":"m","stream":true,"think":false,"format":{"type":"object"},"options":{}}`},
		{"a schema with thinking", ollama.Options{}, llm.Request{Schema: json.RawMessage(`{"type":"object"}`), Effort: llm.EffortHigh},
			`{"model":"m","stream":true,"think":"high","format":{"type":"object"},"options":{}}`},
		{"less than there is", ollama.Options{}, llm.Request{Effort: llm.EffortMinimal}, `{"model":"m","stream":true,"think":"low","options":{}}`},
		{"more than there is", ollama.Options{}, llm.Request{Effort: llm.EffortMax}, `{"model":"m","stream":true,"think":"high","options":{}}`},
		{"no thinking", ollama.Options{}, llm.Request{Effort: llm.EffortNone}, `{"model":"m","stream":true,"think":false,"options":{}}`},
		{"tools", ollama.Options{}, llm.Request{Tools: []llm.Tool{{Name: "f", Description: "does"}}},
			`{"model":"m","stream":true,"options":{},"tools":[{"type":"function","function":{"name":"f","description":"does",
			  "parameters":{"type":"object","properties":{}}}}]}`},
		{"no tools", ollama.Options{}, llm.Request{Tools: []llm.Tool{{Name: "f"}}, ToolChoice: llm.ToolChoiceNone},
			`{"model":"m","stream":true,"options":{}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.Messages = []llm.Message{llm.User("Hi")}
			_, body := sent(t, tt.opts, &tt.req)
			delete(body, "messages")
			if want := decoded(t, tt.want); !reflect.DeepEqual(any(body), want) {
				t.Errorf("body:\ngot  %s\nwant %s", encoded(body), encoded(want))
			}
		})
	}
}

// Where calls were made the tools stay, also if none may be called any more: what the server has kept of the prompt begins with them.
// A server that wants tools for calls gets those that were called.
func TestToolsStayWithCalls(t *testing.T) {
	history := []llm.Message{llm.User("Hi"), {Role: llm.RoleAssistant, Content: mcp.Contents{&mcp.ToolUseContent{ID: "1", Name: "f"}}},
		{Role: llm.RoleUser, Content: mcp.Contents{&mcp.ToolResultContent{ToolUseID: "1", Content: mcp.Contents{mcp.Text("x")}}}}}
	_, body := sent(t, ollama.Options{}, &llm.Request{Messages: history, Tools: []llm.Tool{{Name: "f"}, {Name: "g"}}, ToolChoice: llm.ToolChoiceNone})
	if tools, _ := body["tools"].([]any); len(tools) != 2 {
		t.Errorf("sent the tools %v, want both", body["tools"])
	}
	s := llmtest.NewServer(llmtest.Say("ok"))
	s.Service = llmtest.Thinking
	resp, err := llm.Generate(t.Context(), client(t, s, ollama.Options{}), &llm.Request{Messages: history})
	if err != nil || resp.Text() != "ok" || len(s.Requests()) != 2 {
		t.Errorf("without tools: got %+v, %v after %d requests", resp, err, len(s.Requests()))
	}
}

// TestRequired holds that a call is forced by a grammar where asking was not enough.
func TestRequired(t *testing.T) {
	tools := []llm.Tool{{Name: "weather", InputSchema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}}}`)}, {Name: "clock"}}
	ask := func() *llm.Request {
		req := hello()
		req.Tools, req.ToolChoice = tools, llm.ToolChoiceRequired
		return req
	}
	t.Run("at once", func(t *testing.T) {
		s := llmtest.NewServer(llmtest.Call("clock", nil))
		resp, err := llm.Generate(t.Context(), client(t, s, ollama.Options{}), ask())
		if err != nil || summary(resp) != "clock{} tool_calls" {
			t.Errorf("Generate: got %+v and error %v", resp, err)
		}
		if got := s.Requests()[0].Request.System; !strings.Contains(got, "must call") {
			t.Errorf("the system text %q asks for no call", got)
		}
	})
	t.Run("forced", func(t *testing.T) {
		s := llmtest.NewServer(
			llmtest.Say("Hm. ").Usage(10, 1),
			llmtest.Say(`{"name":"weather",`, `"arguments":{"city":"Oslo"}}`).Usage(20, 2),
		)
		resp, err := llm.Generate(t.Context(), client(t, s, ollama.Options{}), ask())
		if err != nil {
			t.Fatalf("Generate: %v", err)
		}
		if got, want := summary(resp), `Hm.  weather{"city":"Oslo"} tool_calls`; got != want {
			t.Errorf("Generate: got %q, want %q", got, want)
		}
		if want := (llm.Usage{Input: 30, Output: 3}); resp.Usage != want {
			t.Errorf("Generate: got usage %+v, want %+v", resp.Usage, want)
		}
		forced := s.Requests()[1].Request
		want := decoded(t, `{"anyOf":[
		  {"type":"object","properties":{"name":{"const":"weather"},"arguments":{"type":"object","properties":{"city":{"type":"string"}}}},"required":["name","arguments"]},
		  {"type":"object","properties":{"name":{"const":"clock"},"arguments":{"type":"object"}},"required":["name","arguments"]}]}`)
		if len(forced.Tools) > 0 || forced.Effort != llm.EffortNone || !reflect.DeepEqual(decoded(t, string(forced.Schema)), want) {
			t.Errorf("the second request is %+v with the schema %s", forced, forced.Schema)
		}
	})
	t.Run("cut", func(t *testing.T) {
		s := llmtest.NewServer(llmtest.Say("Hm."), llmtest.Say(`{"name":"wea`).Finish(llm.FinishLength))
		resp, err := llm.Generate(t.Context(), client(t, s, ollama.Options{}), ask())
		if err != nil || summary(resp) != "Hm. length" {
			t.Errorf("Generate: got %+v and error %v", resp, err)
		}
	})
	t.Run("within its limit", func(t *testing.T) { // both requests together
		for said, want := range map[int]int{4: 6, 10: 0} { // 0: there is no second request
			s := llmtest.NewServer(llmtest.Say("Hm.").Usage(10, said), llmtest.Say(`{"name":"clock","arguments":{}}`).Usage(20, 2))
			req := ask()
			req.MaxTokens = 10
			if _, err := llm.Generate(t.Context(), client(t, s, ollama.Options{}), req); err != nil {
				t.Errorf("Generate after %d tokens: %v", said, err)
			}
			chats := s.Chats()
			if want == 0 && len(chats) != 1 || want > 0 && (len(chats) != 2 || chats[1].Request.MaxTokens != want) {
				t.Errorf("Generate after %d tokens: made %d requests, want a second one for %d tokens", said, len(chats), want)
			}
		}
	})
	t.Run("endless", func(t *testing.T) {
		s := llmtest.NewServer(llmtest.Say("Hm."), llmtest.Say(strings.Repeat("x", 1<<20), "y"))
		_, err := llm.Generate(t.Context(), client(t, s, ollama.Options{}), ask())
		if !errors.Is(err, llm.ErrTooLarge) {
			t.Errorf("Generate: got error %v, want %v", err, llm.ErrTooLarge)
		}
	})
	t.Run("nonsense", func(t *testing.T) {
		s := llmtest.NewServer(llmtest.Say("Hm."), llmtest.Say(`never mind`))
		_, err := llm.Generate(t.Context(), client(t, s, ollama.Options{}), ask())
		if !errors.Is(err, llm.ErrBadCall) {
			t.Errorf("Generate: got error %v, want %v", err, llm.ErrBadCall)
		}
	})
}

// TestRefused holds what is an error before anything is sent.
func TestRefused(t *testing.T) {
	audio := &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Content: mcp.Contents{&mcp.AudioContent{}}}}}
	tests := []struct {
		name, host string
		req        *llm.Request
		want       error
	}{
		{"audio", "llm.test", audio, llm.ErrUnsupported},
		{"no messages", "llm.test", &llm.Request{}, llm.ErrInvalidRequest},
		{"a bad host", "http://[x", hello(), llm.ErrInvalidRequest},
		{"a bad scheme", "ftp://x", hello(), llm.ErrInvalidRequest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := llmtest.NewServer()
			_, err := llm.Generate(t.Context(), client(t, s, ollama.Options{Host: tt.host}), tt.req)
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

// TestBlindModels holds what becomes of images where Ollama would drop them silently.
func TestBlindModels(t *testing.T) {
	png := &mcp.ImageContent{Data: []byte{1, 2, 3}, MIMEType: "image/png"}
	s := llmtest.NewServer(llmtest.Say("a"), llmtest.Say("b"))
	s.Capabilities = []string{"completion", "tools"}
	c := client(t, s, ollama.Options{})

	req := hello()
	req.Messages[0].Content = append(req.Messages[0].Content, png)
	if _, err := llm.Generate(t.Context(), c, req); !errors.Is(err, llm.ErrUnsupported) {
		t.Errorf("Generate with the user's image: got error %v, want %v", err, llm.ErrUnsupported)
	}
	result := &mcp.ToolResultContent{ToolUseID: "1", Content: mcp.Contents{png}}
	req = &llm.Request{Messages: []llm.Message{
		llm.User("Hi"),
		{Role: llm.RoleAssistant, Content: mcp.Contents{&mcp.ToolUseContent{ID: "1", Name: "f"}}},
		{Role: llm.RoleUser, Content: mcp.Contents{result}},
	}}
	for range 2 {
		if _, err := llm.Generate(t.Context(), c, req); err != nil {
			t.Fatalf("Generate with a result's image: %v", err)
		}
	}
	if result.Content[0] != png {
		t.Error("Generate has changed the caller's request")
	}
	var asked int
	for _, r := range s.Requests() {
		if r.Path == "/api/show" {
			asked++
			continue
		}
		last := r.Request.Messages[len(r.Request.Messages)-1]
		if got := last.Content[0].(*mcp.ToolResultContent).Content.Text(); !strings.Contains(got, "cannot see") {
			t.Errorf("the result was sent as %q", got)
		}
	}
	if asked != 1 {
		t.Errorf("asked for capabilities %d times, want once", asked)
	}
	checkServer(t, s)
}
