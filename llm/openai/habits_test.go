package openai_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/openai"
	"github.com/troupe-dev/troupe/mcp"
)

// refusing answers a request whose path and body have one of these parts, or with ! do not have it, and others behind &, with status 400
// and the text behind it, and all others well.
func refusing(t *testing.T, sent *[]string, refuses ...string) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		text := r.URL.Path + " " + string(body)
		*sent = append(*sent, text)
		for i := 0; i < len(refuses); i += 2 {
			lacks := func(part string) bool {
				part, not := strings.CutPrefix(part, "!")
				return strings.Contains(text, part) == not
			}
			if !slices.ContainsFunc(strings.Split(refuses[i], "&"), lacks) {
				status, why := http.StatusBadRequest, refuses[i+1]
				if gone, ok := strings.CutPrefix(why, "404 "); ok {
					status, why = http.StatusNotFound, gone
				}
				w.WriteHeader(status)
				_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": why}})
				return
			}
		}
		if strings.HasSuffix(r.URL.Path, "/responses") {
			_, _ = io.WriteString(w, "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n")
			return
		}
		_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	})
}

// What a server refuses, in the words of services, is sent no more or otherwise; that is learned once for each model.
func TestRefusals(t *testing.T) {
	half := 0.5
	tool := []llm.Tool{{Name: "f"}}
	const chat, responses = "/v1/chat/completions ", "/v1/responses "
	tests := []struct {
		name    string
		model   string
		opts    openai.Options
		req     llm.Request
		refuses []string // what is in a request, and the text of the refusal
		want    string   // parts of the last request
		wantNot string
	}{
		{"the API", "gpt-5.5", openai.Options{}, llm.Request{Tools: tool, Effort: llm.EffortHigh},
			[]string{chat, "Function tools with reasoning_effort are not supported for gpt-5.5 in /v1/chat/completions. Please use /v1/responses instead."}, responses + `|"effort":"high"`, "messages"},
		{"the API, by a status", "codex-mini-latest", openai.Options{}, llm.Request{}, []string{chat, "404 This model is only supported in v1/responses and not in v1/chat/completions."}, responses, ""},
		{"the other API", "gpt-6", openai.Options{BaseURL: "http://api.openai.com"}, llm.Request{}, []string{responses, "404 Not Found"}, chat, ""},
		{"tools without thinking, where chat is asked for", "gpt-5.6", openai.Options{API: openai.APIChat}, llm.Request{Tools: tool},
			[]string{`!"none"`, "Function tools with reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions. Please use /v1/responses instead."}, chat + `|"reasoning_effort":"none"`, ""},
		{"an effort, with a list", "m", openai.Options{}, llm.Request{Effort: llm.EffortMax},
			[]string{`"high"`, "Unsupported value: 'reasoning_effort' does not support 'high' with this model. Supported values are: 'low' and 'medium'."}, `"reasoning_effort":"medium"`, ""},
		{"an effort, of the Responses API", "gpt-6.1-sol", openai.Options{API: openai.APIResponses}, llm.Request{Effort: llm.EffortNone},
			[]string{`"none"`, "Unsupported value: 'none' is not supported with the 'gpt-6.1-sol' model. Supported values are: 'low', 'medium', 'high', 'xhigh' and 'max'."}, `"effort":"low"`, ""},
		{"an effort, without a list", "gpt-6-astra", openai.Options{}, llm.Request{Effort: llm.EffortNone}, []string{`"none"`, "reasoning effort 'none' is not supported"}, `"reasoning_effort":"low"`, ""},
		{"efforts at all", "m", openai.Options{}, llm.Request{Effort: llm.EffortLow}, []string{"reasoning_effort", "Argument not supported on this model: reasoningEffort"}, chat, "reasoning_effort"},
		{"an effort of Ollama's", "m", openai.Options{}, llm.Request{Effort: llm.EffortMax}, []string{`"max"`, "invalid reasoning value: 'max' (must be \"high\", \"medium\", \"low\", or \"none\")"}, `"reasoning_effort":"high"`, ""},
		{"the option's own effort", "m", openai.Options{ReasoningEffort: "default"}, llm.Request{}, []string{"reasoning_effort", "`reasoning_effort` is not supported with this model"}, chat, "reasoning_effort"},
		{"a temperature", "m", openai.Options{}, llm.Request{Temperature: &half}, []string{"temperature", "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) value is supported."}, chat, "temperature"},
		{"the name of the limit", "m", openai.Options{}, llm.Request{MaxTokens: 9}, []string{`"max_tokens"`, "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."}, `"max_completion_tokens":9`, `"max_tokens"`},
		{"a limit that is too large", "m", openai.Options{}, llm.Request{MaxTokens: 99999}, []string{`"max_tokens"`, "max_tokens is too large: 99999. This model supports at most 16384 completion tokens, whereas you provided 99999."}, chat, `99999`},
		{"a limit beyond the window", "m", openai.Options{}, llm.Request{MaxTokens: 5000}, []string{`"max_tokens"`, "'max_tokens' or 'max_completion_tokens' is too large: 5000. This model's maximum context length is 4096 tokens and your request has 22 input tokens (5000 > 4096 - 22)."}, chat, "5000"},
		{"a limit at all", "m", openai.Options{}, llm.Request{MaxTokens: 9}, []string{`"max_`, "Unknown parameter: max_tokens, max_completion_tokens"}, chat, `"max_`},
		{"encrypted reasoning", "gpt-4o", openai.Options{API: openai.APIResponses}, llm.Request{}, []string{"encrypted", "Encrypted content is not supported with this model."}, responses, "encrypted"},
		{"a cache key", "m", openai.Options{API: openai.APIResponses}, llm.Request{}, []string{"prompt_cache_key", "Unrecognized request argument supplied: prompt_cache_key"}, responses + "|encrypted", "prompt_cache_key"},
		{"one call", "m", openai.Options{OneCall: true}, llm.Request{Tools: tool}, []string{"parallel_tool_calls", "Unsupported parameter: 'parallel_tool_calls' is not supported with this model."}, `"tools"`, "parallel_tool_calls"},
		{"one thing after the other", "m", openai.Options{}, llm.Request{Temperature: &half, Effort: llm.EffortLow, MaxTokens: 9},
			[]string{"temperature", "`temperature` is deprecated for this model.", "reasoning_effort", "unknown field: reasoning_effort", `"max_tokens"`, "max_tokens: Extra inputs are not permitted"}, chat + `|"max_completion_tokens":9`, "temperature"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var sent []string
			if tt.opts.BaseURL == "" {
				tt.opts.BaseURL = "http://llm.test"
			}
			tt.opts.HTTPClient = memhttp.Serve(t, refusing(t, &sent, tt.refuses...))
			c := openai.New(tt.model, &tt.opts)
			tt.req.Messages = []llm.Message{llm.User("Hi")}
			var first int
			for range 2 {
				if _, err := llm.Generate(t.Context(), c, &tt.req); err != nil {
					t.Fatalf("Generate: %v after %q", err, sent)
				}
				first += len(sent)
			}
			if 2*len(sent) != first+1 {
				t.Errorf("the second turn took more than one request: %q", sent)
			}
			last := sent[len(sent)-1]
			for part := range strings.SplitSeq(tt.want, "|") {
				if !strings.Contains(last, part) {
					t.Errorf("sent %s, want %s", last, part)
				}
			}
			if tt.wantNot != "" && strings.Contains(last, tt.wantNot) {
				t.Errorf("sent %s, want no %s", last, tt.wantNot)
			}
		})
	}
}

// An ID that another service, or a server, has given to a call may be one that this service does not take.
func TestShortIDs(t *testing.T) {
	for _, why := range []string{
		"Tool call id was functions.f:0 but must be a-z, A-Z, 0-9, with a length of 9.",
		"Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 52 instead.",
		"messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
		"Tool call IDs should be alphanumeric strings with length 9!",
	} {
		for _, api := range []openai.API{openai.APIChat, openai.APIResponses} {
			var sent []string
			c := openai.New("m", &openai.Options{API: api, BaseURL: "http://llm.test", HTTPClient: memhttp.Serve(t, refusing(t, &sent, "functions.f:0", why))})
			req := called()
			req.Messages[1].Content[0].(*mcp.ToolUseContent).ID = "functions.f:0"
			req.Messages[2].Content[0].(*mcp.ToolResultContent).ToolUseID = "functions.f:0"
			if _, err := llm.Generate(t.Context(), c, req); err != nil {
				t.Fatal(err)
			}
			ids := regexp.MustCompile(`"(?:id|tool_call_id|call_id)":"([a-z0-9]{9})"`).FindAllStringSubmatch(sent[1], -1)
			if len(ids) != 4 || ids[0][1] != ids[2][1] || ids[1][1] != ids[3][1] || ids[0][1] == ids[1][1] {
				t.Errorf("%s: sent %s", why, sent[1])
			}
		}
	}
}

// A conversation with calls that goes on without tools keeps those that it has called, where a server wants that; none may be called.
func TestHistoryWithoutTools(t *testing.T) {
	for _, why := range []string{
		"The toolConfig field must be defined when using toolUse and toolResult content blocks.",
		"Requests which include `tool_use` or `tool_result` blocks must define tools.",
		"Bedrock doesn't support tool calling without `tools=` param specified.",
	} {
		for _, api := range []openai.API{openai.APIChat, openai.APIResponses} {
			var sent []string
			c := openai.New("m", &openai.Options{API: api, BaseURL: "http://llm.test", HTTPClient: memhttp.Serve(t, refusing(t, &sent, `!"tools"`, why))})
			req := called()
			req.Tools = nil
			for range 2 {
				if _, err := llm.Generate(t.Context(), c, req); err != nil {
					t.Fatal(err)
				}
			}
			if len(sent) != 3 || strings.Count(sent[2], `"parameters"`) != 1 || !strings.Contains(sent[2], `"tool_choice":"none"`) {
				t.Errorf("%s: sent %q", why, sent)
			}
		}
	}
}

// A note behind results, or a second prompt, is no reason to lose the turn where roles must alternate.
func TestRolesAlternate(t *testing.T) {
	for _, why := range []string{"Unexpected role 'user' after role 'tool'", "Conversation roles must alternate user/assistant/user/assistant/..."} {
		var sent []string
		c := openai.New("m", &openai.Options{BaseURL: "http://llm.test", HTTPClient: memhttp.Serve(t, refusing(t, &sent, "!OK.", why))})
		req := called()
		req.Messages = append(req.Messages, llm.User("Note."), llm.User("And?"))
		for range 2 {
			if _, err := llm.Generate(t.Context(), c, req); err != nil {
				t.Fatal(err)
			}
		}
		_, text, _ := strings.Cut(sent[2], " ")
		var body struct{ Messages []struct{ Role string } }
		if err := json.Unmarshal([]byte(text), &body); err != nil {
			t.Fatal(err)
		}
		roles := ""
		for _, m := range body.Messages {
			roles += m.Role + " "
		}
		if roles != "user assistant tool tool assistant user assistant user " || len(sent) != 3 {
			t.Errorf("%s: sent %s", why, sent)
		}
	}
}

// The caller sees an error if a value is wrong, or if the model does not exist.
func TestRefusalsThatStay(t *testing.T) {
	three := 3.0
	for _, tt := range []struct {
		model string
		req   llm.Request
		why   string
		tries int
	}{
		{"m", llm.Request{Temperature: &three}, "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 instead.", 1},
		{"m", llm.Request{Temperature: &three}, "temperature must be between 0 and 2", 1},
		{"m", llm.Request{MaxTokens: 9}, "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens in the messages, 9 in max_tokens.", 1},
		{"m", llm.Request{MaxTokens: 9}, "404 The model `m` does not exist", 1},
		{"m", llm.Request{Effort: llm.EffortLow}, "Unknown parameter: 'messages'.", 1},
	} {
		var sent []string
		c := openai.New(tt.model, &openai.Options{BaseURL: "http://llm.test", HTTPClient: memhttp.Serve(t, refusing(t, &sent, "/v1", tt.why))})
		tt.req.Messages = []llm.Message{llm.User("Hi")}
		_, err := llm.Generate(t.Context(), c, &tt.req)
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Retryable || len(sent) != tt.tries {
			t.Errorf("%s: got %v after %d requests", tt.why, err, len(sent))
		}
	}
}

// What one model refuses is no habit of another.
func TestHabitsAreOfOneModel(t *testing.T) {
	var sent []string
	half := 0.5
	c := openai.New("a", &openai.Options{BaseURL: "http://llm.test", HTTPClient: memhttp.Serve(t, refusing(t, &sent, `"model":"a"&temperature`, "unsupported: temperature"))})
	for _, model := range []string{"a", "b", "a"} {
		if _, err := llm.Generate(t.Context(), c, &llm.Request{Model: model, Temperature: &half, Messages: []llm.Message{llm.User("Hi")}}); err != nil {
			t.Fatal(err)
		}
	}
	if len(sent) != 4 || !strings.Contains(sent[2], "temperature") || strings.Contains(sent[3], "temperature") {
		t.Errorf("sent %q", sent)
	}
}

// Efforts are those of the generation, or of the server.
func TestEfforts(t *testing.T) {
	for _, tt := range []struct{ model, base, efforts string }{
		{"o3", "http://api.openai.com", "low low low medium high high high"},
		{"gpt-5-mini", "http://api.openai.com", "minimal minimal low medium high high high"},
		{"gpt-5.1", "http://api.openai.com", "none low low medium high high high"},
		{"gpt-5.2", "http://api.openai.com", "none low low medium high xhigh xhigh"},
		{"gpt-6-sol", "http://api.openai.com", "none low low medium high xhigh max"},
		{"gpt-4o", "http://api.openai.com", "- - - - - - -"},
		{"qwen3", "http://llm.test", "none low low medium high high high"},
		{"x/y", "http://openrouter.ai", "none minimal low medium high xhigh max"},
		{"deepseek-v4", "http://api.deepseek.com", "disabled low low low high high max"},
	} {
		var sent []string
		c := openai.New(tt.model, &openai.Options{BaseURL: tt.base, API: openai.APIChat, HTTPClient: memhttp.Serve(t, refusing(t, &sent))})
		var got []string
		for _, effort := range append([]llm.Effort{""}, llm.Efforts...) {
			if _, err := llm.Generate(t.Context(), c, &llm.Request{Effort: effort, Messages: []llm.Message{llm.User("Hi")}}); err != nil {
				t.Fatal(err)
			}
			_, text, _ := strings.Cut(sent[len(sent)-1], " ")
			var body struct {
				Effort   string `json:"reasoning_effort"`
				Thinking struct{ Type string }
			}
			if err := json.Unmarshal([]byte(text), &body); err != nil {
				t.Fatal(err)
			}
			switch {
			case body.Effort == "" && body.Thinking.Type == "":
				body.Effort = "-"
			case body.Effort == "":
				body.Effort = body.Thinking.Type
			}
			got = append(got, body.Effort)
		}
		if want := "- " + tt.efforts; strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %q", tt.model, got, want)
		}
	}
}
