package models

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/tests/modelservers"
	"github.com/troupe-dev/troupe/llm"
)

// post sends a body as it is and returns status and answer.
func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(soon(t), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header["Idempotency-Key"] = nil // as our clients: see package rest
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("POST %s: %v", url, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("POST %s: %v", url, err)
	}
	return resp.StatusCode, string(data)
}

const (
	chatPath = "/api/chat"
	v1Path   = "/v1/chat/completions"
	// Ollama sees no call of a tool that was not offered.
	clock   = `{"type":"function","function":{"name":"get_time","parameters":{"type":"object","properties":{"zone":{"type":"string"}}}}}`
	weather = `"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}]`
	both    = `"tools":[` + clock + `,` + `{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}]`
)

// TestWire holds the servers to what our clients and the double take for granted of
// them. Where one of these fails with a newer server, look for what does more than is needed
// by now.
func TestWire(t *testing.T) {
	t.Parallel()
	hi := func(text string) string { return `"messages":[{"role":"user","content":"` + text + `"}]` }
	tests := []struct {
		name   string
		on     backend
		path   string
		body   string // without model
		status int
		has    []string
		lacks  []string
	}{
		{"calls come whole, each in a line", native, chatPath, hi("#both") + `,` + both, 200,
			[]string{`"tool_calls":[{"id":"call_`, `"function":{"index":0,"name":"get_weather","arguments":{"city":"Oslo"}}`, `"function":{"index":1,"name":"get_time"`, `"done_reason":"stop"`}, []string{`"done_reason":"tool_calls"`}},
		{"a call is one chunk", compat, v1Path, hi("#weather") + `,"stream":true,` + weather, 200,
			[]string{`"arguments":"{\"city\":\"Paris\"}"`, `"finish_reason":"tool_calls"`, "data: [DONE]"}, nil},
		{"a call comes in fragments", llama, v1Path, hi("#weather") + `,"stream":true,` + weather, 200,
			[]string{`"name":"get_weather","arguments":"{"`, `"delta":{"tool_calls":[{"index":0,"function":{"arguments":`, `"finish_reason":"tool_calls"`, "data: [DONE]"}, []string{`"arguments":"{\"city\":\"Paris\"}"`}},
		{"usage comes last, without choices", compat, v1Path, hi("hi") + `,"stream":true,"stream_options":{"include_usage":true}`, 200, []string{`"choices":[],"usage":{"prompt_tokens":`}, nil},
		{"usage comes last, without choices", llama, v1Path, hi("hi") + `,"stream":true,"stream_options":{"include_usage":true}`, 200, []string{`"choices":[]`, `"usage":{"completion_tokens":`}, nil},
		{"no usage unless asked for", llama, v1Path, hi("hi") + `,"stream":true`, 200, nil, []string{`"usage"`}},

		{"thinking has a field", native, chatPath, hi("#think"), 200, []string{`"thinking":"Let `}, []string{"<think>"}},
		{"thinking is called reasoning", compat, v1Path, hi("#think") + `,"stream":true`, 200, []string{`"reasoning":"Let `}, []string{"<think>", "reasoning_content"}},
		{"thinking is called reasoning_content", llama, v1Path, hi("#think") + `,"stream":true`, 200, []string{`"reasoning_content":"Let `}, []string{"<think>"}},
		{"thoughts that were not to be are text", native, chatPath, hi("#think") + `,"think":false,"stream":false`, 200, []string{`\u003cthink\u003e`}, []string{`"thinking":`}},

		{"a choice of none is ignored", compat, v1Path, hi("#weather") + `,"tool_choice":"none",` + weather, 200, []string{`"tool_calls":[`}, nil},
		{"a choice of none leaves the call in the text", llama, v1Path, hi("#weather") + `,"tool_choice":"none",` + weather, 200, []string{`<tool_call>`}, []string{`"tool_calls"`}},
		{"a required choice is ignored", compat, v1Path, hi("hi") + `,"tool_choice":"required",` + weather, 200, []string{`"finish_reason":"stop"`}, []string{`"tool_calls"`}},

		{"the newer limit is ignored", compat, v1Path, hi("hi") + `,"max_completion_tokens":2`, 200, []string{`"finish_reason":"stop"`}, nil},
		{"the newer limit is read", llama, v1Path, hi("hi") + `,"max_completion_tokens":2`, 200, []string{`"finish_reason":"length"`, `"completion_tokens":2`}, nil},
		{"no tokens at all is no limit", native, chatPath, hi("hi") + `,"stream":false,"options":{"num_predict":0}`, 200, []string{`"done_reason":"stop"`}, nil},

		{"a format needs think to be off", native, chatPath, hi("hi") + `,"stream":false,"format":{"type":"object"}`, 200, []string{"Hello from a model"}, nil},
		{"a format with think off", native, chatPath, hi("hi") + `,"stream":false,"think":false,"format":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},"options":{"num_predict":100}`, 200, []string{`"content":"{`}, []string{"Hello from"}},
		{"a format needs think to be off", compat, v1Path, hi("hi") + `,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object"}}}`, 200, []string{"Hello from a model"}, nil},
		{"a bad format is 500", native, chatPath, hi("hi") + `,"stream":false,"think":false,"format":{"type":"no such type"}`, 500, []string{`"error":`}, nil},
		{"a bad option is 500", native, chatPath, hi("hi") + `,"options":{"num_predict":"many"}`, 500, []string{`"error":`}, nil},

		{"too long, and not to be cut", native, chatPath, hi(strings.Repeat("blah ", 1000)) + `,"truncate":false`, 400, []string{"exceeds the context length"}, nil},
		{"too long", llama, v1Path, hi(strings.Repeat("blah ", 1000)), 400, []string{"exceed_context_size_error", `"n_prompt_tokens":`, `"n_ctx":`}, nil},
		{"bad JSON", native, chatPath, `"messages":[`, 400, []string{`"error":`}, nil},
		{"bad JSON", llama, v1Path, `"messages":[`, 500, []string{`"error":`}, nil},
		{"a message without content", compat, v1Path, `"messages":[{"role":"assistant"},{"role":"user","content":"hi"}]`, 400, []string{"invalid message content type"}, nil},
		{"a message without content", llama, v1Path, `"messages":[{"role":"assistant"},{"role":"user","content":"hi"}]`, 400, []string{`"error":`}, nil},
		{"a call without arguments", compat, v1Path, `"messages":[{"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"a","content":"x"}]`, 400, []string{"invalid tool call arguments"}, nil},
		{"an image by URL", compat, v1Path, `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://127.0.0.1/a.png"}}]}]`, 400, []string{"image URLs are not currently supported"}, nil},

		{"nothing to say loads the model", native, chatPath, `"messages":[]`, 200, []string{`"done_reason":"load"`}, nil},
		{"a call of no tool is lost", native, chatPath, hi("#both") + `,` + weather, 200, []string{`"name":"get_weather"`}, []string{"get_time"}},
	}
	for _, tt := range tests {
		t.Run(tt.on.name+", "+tt.name, func(t *testing.T) {
			t.Parallel()
			s := tt.on.tiny(t)
			status, got := post(t, s.url+tt.path, `{"model":"`+s.model+`",`+tt.body+`}`)
			if status != tt.status {
				t.Errorf("%s: got status %d, want %d", tt.body, status, tt.status)
			}
			for _, part := range tt.has {
				if !strings.Contains(got, part) {
					t.Errorf("%.200s: the answer lacks %s:\n%s", tt.body, part, got)
				}
			}
			for _, part := range tt.lacks {
				if strings.Contains(got, part) {
					t.Errorf("%.200s: the answer has %s:\n%s", tt.body, part, got)
				}
			}
		})
	}
}

// TestNoThinking: a model that cannot think must not be asked to, and a schema is heeded
// then without further words.
func TestNoThinking(t *testing.T) {
	t.Parallel()
	server := theOllama(t, modelservers.Ollama)
	const template = `{{ range .Messages }}<|{{ .Role }}|>{{ .Content }}<|end|>{{ end }}<|assistant|>`
	if err := server.CreateWith(soon(t), "plain", modelservers.Behaviour(), template); err != nil {
		t.Fatal(err)
	}
	const messages = `"messages":[{"role":"user","content":"hi"}],"stream":false`
	if status, got := post(t, server.URL+chatPath, `{"model":"plain","think":true,`+messages+`}`); status != 400 || !strings.Contains(got, "does not support thinking") {
		t.Errorf("think: got %d %s", status, got)
	}
	_, got := post(t, server.URL+chatPath, `{"model":"plain","format":{"type":"object"},"options":{"num_predict":50},`+messages+`}`)
	var answer struct {
		Message struct{ Content string }
	}
	if err := json.Unmarshal([]byte(got), &answer); err != nil || !strings.HasPrefix(answer.Message.Content, "{") {
		t.Errorf("a format: got %s, %v", got, err)
	}
	m := service{native, server.URL, "plain"}.client()
	for _, effort := range []llm.Effort{"", llm.EffortNone, llm.EffortLow, llm.EffortMax} {
		req := saying("Hello")
		req.Effort = effort
		if resp := ask(t, m, req); resp.Text() != modelservers.Behaviour().Default {
			t.Errorf("Generate: got %q", resp.Text())
		}
	}
	req := saying("hi")
	req.Schema, req.MaxTokens = json.RawMessage(`{"type":"array","items":{"type":"integer"}}`), 50
	if resp := ask(t, m, req); !bytes.HasPrefix([]byte(resp.Text()), []byte("[")) {
		t.Errorf("Generate with a schema: got %q", resp.Text())
	}
}
