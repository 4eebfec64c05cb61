package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/internal/pause"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/openai"
	"github.com/troupe-dev/troupe/mcp"
)

// TestResponsesWire runs one turn over the ways in which the Responses API is put on the wire.
func TestResponsesWire(t *testing.T) {
	talk := llmtest.Join(llmtest.Think("hm, ", "ähem"), llmtest.Say("Grüße, ", "世界 \U0001F30D", " \"x\"\n"))
	calls := llmtest.Join(llmtest.Say("Both: "), llmtest.Call("weather", `{"city":"Zürich","day":9007199254740993}`), llmtest.Call("clock", ""), llmtest.Call("weather", `{"city":"Oslo"}`))
	const said = "(hm, ähem) Grüße, 世界 \U0001F30D \"x\" stop"
	const called = `Both:  weather{"city":"Zürich","day":9007199254740993} clock{} weather{"city":"Oslo"} tool_calls`
	tests := []struct {
		name string
		turn llmtest.Turn
		wire llmtest.Wire
		want string
	}{
		{"plain", talk, llmtest.Wire{}, said},
		{"in single bytes, inside of characters", talk, llmtest.Wire{Piece: 1}, said},
		{"gzip and CRLF", talk, llmtest.Wire{Gzip: true, CRLF: true}, said},
		{"event, id and retry lines", talk, llmtest.Wire{Named: true, KeepAlives: 3}, said},
		{"[DONE]", talk, llmtest.Wire{End: llmtest.EndTwice}, said},
		{"the connection stays open", talk, llmtest.Wire{End: llmtest.EndOpen}, said},
		{"a JSON document", talk, llmtest.Wire{NotAStream: true}, said},
		{"calls", calls, llmtest.Wire{Piece: 3}, called},
		{"calls in a JSON document", calls, llmtest.Wire{NotAStream: true}, called},
		{"a refusal", llmtest.Say("I ", "can't."), llmtest.Wire{Refusal: true}, "I can't. refusal"},
		{"a refusal in a JSON document", llmtest.Say("I can't."), llmtest.Wire{Refusal: true, NotAStream: true}, "I can't. refusal"},
		{"length", llmtest.Say("so far"), llmtest.Wire{Finish: "length"}, "so far length"},
		{"filter", llmtest.Say("so far"), llmtest.Wire{Finish: "content_filter"}, "so far content_filter"},
		{"nothing at all", llmtest.Say(), llmtest.Wire{}, "stop"},
		{"a call cut by the limit", llmtest.Join(llmtest.Call("a", `{"x":1}`), llmtest.Call("b", `{"y":`)), llmtest.Wire{Finish: "length"}, `a{"x":1} length, cut: b{"y":`},
		{"a call that is no JSON", llmtest.Join(llmtest.Call("a", `{"x":1}`), llmtest.Call("b", `{"y":}`)), llmtest.Wire{}, `a{"x":1} tool_calls, cut: b{"y":}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := llmtest.NewServer(tt.turn.Over(tt.wire).Usage(7, 5))
				resp, err := llm.Generate(t.Context(), client(t, s, openai.Options{API: openai.APIResponses}), hello())
				if err != nil {
					t.Fatalf("Generate: %v", err)
				}
				if got := summary(resp); got != tt.want {
					t.Errorf("Generate: got %s, want %s", got, tt.want)
				}
				if want := (llm.Usage{Input: 7, Output: 5}); resp.Usage != want || resp.Model != "m" {
					t.Errorf("Generate: got usage %+v of model %q, want %+v", resp.Usage, resp.Model, want)
				}
				checkServer(t, s)
			})
		})
	}
}

// events plays a stream of events of the Responses API, and keeps the last body it was sent.
func events(t *testing.T, sent *string, lines ...string) *openai.Client {
	t.Helper()
	return client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*sent = string(body)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, line := range lines {
			fmt.Fprintf(w, "data: %s\n\n", line)
		}
	}), openai.Options{API: openai.APIResponses})
}

// What a response has beside text and calls goes back in its place and as it was, and nothing that the server could not use.
func TestResponsesState(t *testing.T) {
	const (
		first  = `{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"a"}],"encrypted_content":"AAA=","extra": 1.50}`
		second = `{"id":"rs_2","type":"reasoning","summary":[],"encrypted_content":"BBB="}`
		third  = `{"id":"rs_3","type":"reasoning","summary":[],"encrypted_content":"CCC="}`
		local  = `{"id":"rs_4","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"t"}]}`
		empty  = `{"id":"rs_5","type":"reasoning","content":[],"summary":[]}`
		last   = `{"id":"rs_6","type":"reasoning","summary":[],"encrypted_content":"DDD="}`
	)
	item := func(i int, it string) string {
		return fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, i, it)
	}
	call := func(id, args string) string {
		return fmt.Sprintf(`{"type":"function_call","id":"fc_%s","call_id":"%s","name":"f","arguments":%q,"status":"completed"}`, id, id, args)
	}
	var sent string
	c := events(t, &sent,
		item(0, first), item(1, `{"type":"message","id":"msg","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"I look."}]}`),
		item(2, second), item(3, third), item(4, call("c1", `{}`)), item(5, call("c2", `{"a": 1}`)), item(6, local), item(7, call("c3", `{}`)), item(8, empty), item(9, call("c4", `{}`)), item(10, last),
		`{"type":"response.completed","response":{"status":"completed","model":"m-1","output":[]}}`)
	req := hello()
	req.Tools = []llm.Tool{{Name: "f"}}
	resp, err := llm.Generate(t.Context(), c, req)
	if err != nil || resp.Text() != "I look." {
		t.Fatalf("Generate: got %+v, %v", resp, err)
	}
	results := make(mcp.Contents, 0, 4)
	for _, call := range resp.Calls() {
		results = append(results, &mcp.ToolResultContent{ToolUseID: call.ID, Content: mcp.Contents{mcp.Text("r " + call.ID)}})
	}
	req.Messages = append(req.Messages, resp.Message(), llm.Message{Role: llm.RoleUser, Content: results})
	if _, err := llm.Generate(t.Context(), c, req); err != nil {
		t.Fatal(err)
	}
	made := func(id, args string) string {
		return fmt.Sprintf(`{"type":"function_call","call_id":"%s","name":"f","arguments":%q}`, id, args)
	}
	out := func(id string) string {
		return fmt.Sprintf(`{"type":"function_call_output","call_id":"%s","output":"r %s"}`, id, id)
	}
	want := `"input":[` + strings.Join([]string{`{"role":"user","content":"Hello"}`, first, `{"role":"assistant","content":"I look.","phase":"commentary"}`,
		second, third, made("c1", "{}"), made("c2", `{"a": 1}`), local, made("c3", "{}"), made("c4", "{}"), out("c1"), out("c2"), out("c3"), out("c4")}, ",") + `]`
	if !strings.Contains(sent, want) {
		t.Errorf("sent %s\nwant %s", sent, want)
	}
	var body struct {
		Store   *bool
		Include []string
		Key     string `json:"prompt_cache_key"`
	}
	if err := json.Unmarshal([]byte(sent), &body); err != nil || body.Store == nil || *body.Store || !slices.Equal(body.Include, []string{"reasoning.encrypted_content"}) || len(body.Key) != 24 {
		t.Errorf("sent %s, %v", sent, err)
	}
}

// Events that say nothing new, come in another way or are unknown cost nothing.
func TestResponsesEvents(t *testing.T) {
	const done = `{"type":"response.completed","response":{"status":"completed"}}`
	tests := []struct {
		name, want string
		lines      []string
	}{
		{"nothing but the end", `said f{"a":1} tool_calls`, []string{`{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"said"}]},{"type":"function_call","call_id":"1","name":"f","arguments":"{\"a\":1}"}]}}`}},
		{"items and deltas", `said f{"a":1} tool_calls`, []string{
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"message","content":[]}}`, `{"type":"response.output_text.delta","output_index":0,"delta":"said"}`,
			`{"type":"response.output_text.done","output_index":0,"text":"said"}`, `{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"said"}]}}`,
			`{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"1","name":"f","arguments":""}}`,
			`{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"a\":1}"}`, `{"type":"response.function_call_arguments.done","output_index":1,"arguments":"{\"a\":1}"}`,
			`{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"1","name":"f","arguments":"{\"a\":1}"}}`,
			`{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"said"}]},{"type":"function_call","call_id":"1","name":"f","arguments":"{\"a\":1}"}]}}`}},
		{"items without numbers", `f{"a":1} f{"a":2} tool_calls`, []string{ // llama-server
			`{"type":"response.output_item.added","item":{"type":"function_call","id":"fc_1","call_id":"1","name":"f","arguments":""}}`, `{"type":"response.function_call_arguments.delta","item_id":"fc_1","delta":"{\"a\":1}"}`,
			`{"type":"response.output_item.added","item":{"type":"function_call","id":"fc_2","call_id":"2","name":"f","arguments":""}}`, `{"type":"response.function_call_arguments.delta","item_id":"fc_2","delta":"{\"a\":2}"}`,
			`{"type":"response.output_item.done","item":{"type":"function_call","id":"fc_1","call_id":"1","name":"f","arguments":"{\"a\":1}"}}`, `{"type":"response.output_item.done","item":{"type":"function_call","id":"fc_2","call_id":"2","name":"f","arguments":"{\"a\":2}"}}`, done}},
		{"items with the same number", `f{"a":1} f{"a":2} tool_calls`, []string{ // Ollama
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"1","name":"f","arguments":""}}`, `{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":0,"delta":"{\"a\":1}"}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"1","name":"f","arguments":"{\"a\":1}"}}`,
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc_2","call_id":"2","name":"f","arguments":""}}`, `{"type":"response.function_call_arguments.delta","item_id":"fc_2","output_index":0,"delta":"{\"a\":2}"}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"fc_2","call_id":"2","name":"f","arguments":"{\"a\":2}"}}`, done}},
		{"items with another ID in each event", `said f{"a":1} f{"a":2} tool_calls`, []string{ // a proxy that hides them
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"x1","content":[]}}`, `{"type":"response.output_text.delta","output_index":0,"item_id":"x2","delta":"said"}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"x3","content":[{"type":"output_text","text":"said"}]}}`,
			`{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"x4","call_id":"1","name":"f","arguments":""}}`, `{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","id":"x5","call_id":"2","name":"f","arguments":""}}`,
			`{"type":"response.function_call_arguments.delta","output_index":2,"item_id":"x6","delta":"{\"a\":2}"}`, `{"type":"response.function_call_arguments.delta","output_index":1,"item_id":"x7","delta":"{\"a\":1}"}`,
			`{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"x8","call_id":"1","name":"f","arguments":"{\"a\":1}"}}`, `{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","id":"x9","call_id":"2","name":"f","arguments":"{\"a\":2}"}}`, done}},
		{"two messages", "one\n\ntwo stop", []string{`{"type":"response.output_text.delta","output_index":0,"delta":"one"}`, `{"type":"response.output_text.delta","output_index":"1","delta":"two"}`, done}},
		{"summaries and unknown things", "(a\n\nb) ok stop", []string{
			`{"type":"response.reasoning_summary_part.added","summary_index":0}`, `{"type":"response.reasoning_summary_text.delta","delta":"a"}`, `{"type":"response.reasoning_summary_part.added","summary_index":1}`,
			`{"type":"response.reasoning_summary_text.delta","delta":"b"}`, `{"type":"keepalive"}`, `{"type":"response.new","delta":{"x":1}}`, `{}`, `{"type":"response.output_item.done","output_index":3,"item":{"type":"web_search_call"}}`,
			`{"type":"response.output_item.done","output_index":4,"item":null}`, `{"type":"response.output_text.delta","output_index":5,"delta":"ok"}`, done}},
		{"a reason that is new", "x tired", []string{`{"type":"response.output_text.delta","output_index":0,"delta":"x"}`, `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"tired"}}}`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var sent string
			resp, err := llm.Generate(t.Context(), events(t, &sent, tt.lines...), hello())
			if err != nil {
				t.Fatal(err)
			}
			if got := summary(resp); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A response that has failed says why.
func TestResponsesFailed(t *testing.T) {
	for _, tt := range []struct {
		line, text string
		retryable  bool
	}{
		{`{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow down"}}}`, "slow down", true},
		{`{"type":"error","code":"server_error","message":"it broke","param":null}`, "it broke", true},
		{`{"type":"error","error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"too long"}}`, "too long", false},
		{`{"type":"response.cancelled","response":{"status":"cancelled"}}`, "cancelled", true},
	} {
		var sent string
		_, err := llm.Generate(t.Context(), events(t, &sent, tt.line), hello())
		if e, ok := err.(*llm.Error); !ok || !strings.Contains(err.Error(), tt.text) || e.Retryable != tt.retryable { //nolint:errorlint // it is the error itself
			t.Errorf("%s: got %v", tt.line, err)
		}
	}
}

// TestResponsesThinks: a model may think for longer than a stream may be silent otherwise.
func TestResponsesThinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(d time.Duration) *openai.Client {
			return client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, "data: {\"type\":\"response.created\",\"response\":{}}\n\n")
				_ = http.NewResponseController(w).Flush()
				_ = pause.For(r.Context(), 5*time.Minute)
				fmt.Fprint(w, "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"ok\"}\n\n")
				_ = http.NewResponseController(w).Flush()
				_ = pause.For(r.Context(), d) // who leaves is gone
				fmt.Fprint(w, "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n")
			}), openai.Options{API: openai.APIResponses})
		}
		if resp, err := llm.Generate(t.Context(), slow(30*time.Second), hello()); err != nil || resp.Text() != "ok" {
			t.Errorf("Generate: got %+v, %v", resp, err)
		}
		if _, err := llm.Generate(t.Context(), slow(2*time.Minute), hello()); err == nil || !strings.Contains(err.Error(), "nothing came for 1m0s") {
			t.Errorf("a silence after text: got %v", err)
		}
	})
}

// TestResponsesParameters holds everything in a body but its input.
func TestResponsesParameters(t *testing.T) {
	half, yes := 0.5, true
	const fixed = `"store":false,"stream":true`
	const reasons = `"include":["reasoning.encrypted_content"],` + fixed
	strict := json.RawMessage(`{"type":"object","properties":{},"required":[],"additionalProperties":false}`)
	tests := []struct {
		name  string
		model string
		opts  openai.Options
		req   llm.Request
		want  string
	}{
		{"nothing", "m", openai.Options{}, llm.Request{}, `{"model":"m",` + reasons + `}`},
		{"a system text", "m", openai.Options{}, llm.Request{System: "Be brief."}, `{"model":"m","instructions":"Be brief.",` + reasons + `}`},
		{"limits", "m", openai.Options{}, llm.Request{MaxTokens: 5, Temperature: &half, Stop: []string{"x"}}, `{"model":"m","max_output_tokens":16,"temperature":0.5,` + reasons + `}`},
		{"a model of OpenAI's without reasoning", "gpt-4o", openai.Options{BaseURL: "http://api.openai.com"}, llm.Request{Effort: llm.EffortHigh, Temperature: &half}, `{"model":"gpt-4o","temperature":0.5,` + fixed + `}`},
		{"a model of OpenAI's with reasoning", "gpt-6.1-sol", openai.Options{BaseURL: "http://api.openai.com"}, llm.Request{Effort: llm.EffortMinimal, Temperature: &half}, `{"model":"gpt-6.1-sol","reasoning":{"effort":"low"},` + reasons + `}`},
		{"tools", "m", openai.Options{StrictTools: yes, OneCall: yes}, llm.Request{ToolChoice: llm.ToolChoiceNone, Tools: []llm.Tool{{Name: "f", Description: "does", InputSchema: strict}, {Name: "g"}}},
			`{"model":"m","tool_choice":"none","parallel_tool_calls":false,"tools":[{"type":"function","name":"f","description":"does","strict":true,"parameters":` + string(strict) + `},
			  {"type":"function","name":"g","strict":false,"parameters":{"type":"object","properties":{}}}],` + reasons + `}`},
		{"a schema", "m", openai.Options{}, llm.Request{Schema: strict}, `{"model":"m","text":{"format":{"type":"json_schema","name":"answer","schema":` + string(strict) + `,"strict":true}},` + reasons + `}`},
		{"metadata", "m", openai.Options{MetadataKeys: []string{"a", "c"}}, llm.Request{Metadata: map[string]string{"a": "1", "b": "2"}}, `{"model":"m","metadata":{"a":"1"},` + reasons + `}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.Messages, tt.opts.API = []llm.Message{llm.User("Hi")}, openai.APIResponses
			body := sent(t, tt.model, tt.opts, &tt.req)
			delete(body, "input")
			delete(body, "prompt_cache_key")
			if want := decoded(t, tt.want); !reflect.DeepEqual(any(body), want) {
				t.Errorf("body:\ngot  %s\nwant %s", encoded(body), encoded(want))
			}
		})
	}
}

// TestResponsesInput holds how messages are written: images and results with images too.
func TestResponsesInput(t *testing.T) {
	png := &mcp.ImageContent{MIMEType: "image/png", Data: []byte{1, 2, 3}}
	body := sent(t, "m", openai.Options{API: openai.APIResponses}, &llm.Request{Messages: []llm.Message{
		{Role: llm.RoleUser, Content: mcp.Contents{mcp.Text("look"), png}},
		{Role: llm.RoleAssistant, Content: mcp.Contents{&mcp.ToolUseContent{ID: "1", Name: "f"}}},
		{Role: llm.RoleUser, Content: mcp.Contents{&mcp.ToolResultContent{ToolUseID: "1", IsError: true, Content: mcp.Contents{png, mcp.Text("x")}}}},
		{Role: llm.RoleAssistant},
		llm.User("and now?"),
	}})
	want := decoded(t, `[{"role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","image_url":"data:image/png;base64,AQID"}]},
	  {"type":"function_call","call_id":"1","name":"f","arguments":"{}"},
	  {"type":"function_call_output","call_id":"1","output":[{"type":"input_text","text":"Error: (an image: image/png)\nx"},{"type":"input_image","image_url":"data:image/png;base64,AQID"}]},
	  {"role":"assistant","content":" "},{"role":"user","content":"and now?"}]`)
	if !reflect.DeepEqual(body["input"], want) {
		t.Errorf("input:\ngot  %s\nwant %s", encoded(body["input"]), encoded(want))
	}
}

// TestWhichAPI: the generation decides at servers that are known to have both, and what a server says everywhere.
func TestWhichAPI(t *testing.T) {
	const chat, responses = "/v1/chat/completions", "/v1/responses"
	tests := []struct {
		model, base string
		api         openai.API
		want        string
	}{
		{"gpt-5.4", "http://api.openai.com", "", responses},
		{"gpt-5.6-mini-2026-05-01", "http://eu.api.openai.com", "", responses},
		{"gpt-6-astra", "http://api.openai.com", openai.APIAuto, responses},
		{"gpt-7", "http://api.openai.com", "", responses},
		{"gpt-6-sol", "http://api.openai.com", openai.APIChat, chat},
		{"gpt-5.3", "http://api.openai.com", "", chat},
		{"gpt-5-mini", "http://api.openai.com", "", chat},
		{"gpt-4.1", "http://api.openai.com", "", chat},
		{"gpt-4o", "http://api.openai.com", openai.APIResponses, responses},
		{"o3", "http://api.openai.com", "", chat},
		{"gpt-5.4", "http://name.openai.azure.com/v1", "", responses},
		{"gpt-6", "http://name.services.ai.azure.com/v1", "", responses},
		{"gpt-6", "http://llm.test", "", chat},
		{"gpt-oss-120b", "http://llm.test", "", chat},
		{"gpt-35-turbo", "http://name.openai.azure.com/v1", "", chat},
	}
	for _, tt := range tests {
		s := llmtest.NewServer(llmtest.Say("ok"))
		c := openai.New(tt.model, &openai.Options{BaseURL: tt.base, API: tt.api, HTTPClient: memhttp.Serve(t, s)})
		req := hello()
		req.Tools = []llm.Tool{{Name: "f"}}
		if _, err := llm.Generate(t.Context(), c, req); err != nil || s.Requests()[0].Path != tt.want {
			t.Errorf("%s at %s, %q: got %v, want %s", tt.model, tt.base, tt.api, err, tt.want)
		}
		checkServer(t, s)
	}
	if _, err := llm.Generate(t.Context(), openai.New("m", &openai.Options{API: "assistants"}), hello()); err == nil || !strings.Contains(err.Error(), `"assistants"`) {
		t.Errorf("an unknown API: got %v", err)
	}
}

// TestAzureResponses holds where Azure's older API has responses: it says itself which model has them.
func TestAzureResponses(t *testing.T) {
	s := llmtest.NewServer(llmtest.Say("ok"))
	s.Service, s.Key = llmtest.OpenAI, key
	c := openai.New("my deployment", &openai.Options{BaseURL: "http://name.openai.azure.test", APIVersion: "2025-04-01-preview", APIKey: key, HTTPClient: memhttp.Serve(t, s)})
	req := hello()
	req.Tools = []llm.Tool{{Name: "f"}}
	if resp, err := llm.Generate(t.Context(), c, req); err != nil || resp.Text() != "ok" {
		t.Fatalf("Generate: got %+v, %v", resp, err)
	}
	checkServer(t, s)
	if r := s.Requests()[1]; r.Path != "/openai/responses" || !strings.Contains(string(r.Body), `"model":"my deployment"`) {
		t.Errorf("got %s with %s", r.Path, r.Body)
	}
}
