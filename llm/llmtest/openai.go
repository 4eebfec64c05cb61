package llmtest

import (
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
)

// openAI is the dialect of /v1/chat/completions.
type openAI struct{}

func (openAI) contentType() string { return "text/event-stream" }
func (openAI) sse() bool           { return true }

func (openAI) errorBody(_ int, code, message string) string {
	var c any // null where there is none
	if code != "" {
		c = code
	}
	return encode(object{"error": object{"message": message, "type": "api_error", "param": nil, "code": c}})
}

// documents makes the events of a turn.
func (o openAI) documents(p *playing) documents {
	w := p.turn.wire
	var docs documents
	add := func(text string) { docs = append(docs, document{text: text}) }
	steps := p.turn.steps
	for len(steps) > 0 && steps[0].silent() { // an error before the first event is a status
		docs = append(docs, document{before: steps[0]})
		steps = steps[1:]
	}
	if w.Filter {
		add(encode(object{"id": "", "model": "", "choices": []any{}, "prompt_filter_results": []any{object{"prompt_index": 0}}}))
	}
	add(o.delta(p, object{"role": "assistant", "content": nil}))
	var calls []step
	thinking := 0 // steps of it that are still to come
	for _, s := range steps {
		if s.thinking != "" {
			thinking++
		}
	}
	for _, s := range steps {
		switch {
		case s.text != "" && w.Refusal:
			add(o.delta(p, object{"refusal": s.text}))
		case s.text != "":
			add(o.delta(p, object{"content": s.text}))
		case s.thinking != "":
			field := w.Reasoning
			if field == "" {
				field = "reasoning_content"
			}
			delta := object{field: s.thinking}
			if thinking--; p.service == OpenRouter && p.attached != "" {
				delta["reasoning_details"] = details(s.thinking, thinking == 0, p.number)
			}
			add(o.delta(p, delta))
		case s.name != "":
			calls = append(calls, s)
		default:
			docs = append(docs, document{before: s})
		}
	}
	for _, delta := range callDeltas(p, calls) {
		add(o.delta(p, object{"tool_calls": delta}))
	}
	add(o.chunk(p, object{"index": 0, "delta": object{}, "finish_reason": o.finish(p)}))
	if p.req.includeUsage && w.Usage == UsageLast {
		add(encode(object{
			"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": p.req.Model, "choices": []any{}, "usage": o.usage(p),
		}))
	}
	return docs
}

func (o openAI) delta(p *playing, delta object) string {
	return o.chunk(p, object{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": nil})
}

func (o openAI) chunk(p *playing, choice object) string {
	c := object{
		"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": p.req.Model,
		"system_fingerprint": nil, "choices": []any{choice}, "usage": nil,
	}
	if p.turn.wire.Usage == UsageEach {
		c["usage"] = o.usage(p)
	}
	return encode(c)
}

func (openAI) usage(p *playing) object {
	u := p.turn.cost(&p.req.Request)
	return object{"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output}
}

func (openAI) finish(p *playing) string {
	if p.turn.wire.Finish != "" {
		return p.turn.wire.Finish
	}
	return string(p.turn.reason())
}

// callDeltas makes the values of tool_calls for a turn's calls, in order.
func callDeltas(p *playing, calls []step) [][]any {
	w := p.turn.wire
	var each [][]object // the pieces of each call
	for i, s := range calls {
		each = append(each, callPieces(w, i, p.callID(i), s))
		if p.service == Gemini && i == 0 {
			each[0][0]["extra_content"] = signature(p.attached)
		}
	}
	var deltas [][]any
	switch w.Calls {
	case CallsTogether:
		var all []any
		for _, pieces := range each {
			all = append(all, pieces[0])
		}
		if len(all) > 0 {
			deltas = append(deltas, all)
		}
	case CallsInterleaved:
		for n, more := 0, true; more; n++ {
			more = false
			for _, pieces := range each {
				if n < len(pieces) {
					deltas, more = append(deltas, []any{pieces[n]}), true
				}
			}
		}
	default:
		for _, pieces := range each {
			for _, piece := range pieces {
				deltas = append(deltas, []any{piece})
			}
		}
	}
	return deltas
}

// signature is what Gemini attaches to a call.
func signature(s string) object { return object{"google": object{"thought_signature": s}} }

// callPieces cuts a call.
func callPieces(w Wire, index int, id string, s step) []object {
	var pieces []object
	if w.Calls == CallsWhole || w.Calls == CallsTogether {
		pieces = []object{{"type": "function", "function": object{"name": s.name, "arguments": s.args}}}
	} else {
		pieces = []object{{"type": "function", "function": object{"name": s.name, "arguments": ""}}}
		for _, part := range cut(s.args) {
			pieces = append(pieces, object{"function": object{"arguments": part}})
		}
	}
	for i, piece := range pieces {
		switch {
		case w.ZeroIndex:
			piece["index"] = 0
		case !w.NoIndex:
			piece["index"] = index
		}
		switch {
		case w.IDs == IDNone:
		case w.IDs == IDRepeated:
			piece["id"] = "call_0"
		case i == 0 || w.IDs == IDEach:
			piece["id"] = id
		case w.IDs == IDNull:
			piece["id"] = nil
		}
	}
	return pieces
}

// cut cuts arguments into pieces of about five bytes, between characters but inside of
// anything else.
func cut(s string) []string {
	var parts []string
	for len(s) > 0 {
		n := min(5, len(s))
		for n < len(s) && !utf8.RuneStart(s[n]) {
			n++
		}
		parts = append(parts, s[:n])
		s = s[n:]
	}
	return parts
}

// whole makes the answer that is no stream.
func (o openAI) whole(p *playing) string {
	var content, thinking strings.Builder
	var calls []any
	for _, s := range p.turn.steps {
		content.WriteString(s.text)
		thinking.WriteString(s.thinking)
		if s.name != "" {
			call := object{"id": p.callID(len(calls)), "type": "function", "function": object{"name": s.name, "arguments": s.args}}
			if p.service == Gemini && len(calls) == 0 {
				call["extra_content"] = signature(p.attached)
			}
			calls = append(calls, call)
		}
	}
	message := object{"role": "assistant", "content": content.String()}
	if thinking.Len() > 0 {
		message["reasoning_content"] = thinking.String()
	}
	if p.service == OpenRouter && p.attached != "" {
		message["reasoning_details"] = jsonx.Value(p.attached)
	}
	if len(calls) > 0 {
		message["tool_calls"] = calls
	}
	return encode(object{
		"id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": p.req.Model,
		"choices": []any{object{"index": 0, "message": message, "finish_reason": o.finish(p)}}, "usage": o.usage(p),
	})
}

// openAIRequest is the body of a chat, with all fields of the API.
type openAIRequest struct {
	Model         string          `json:"model"`
	Messages      []openAIMessage `json:"messages"`
	Stream        bool            `json:"stream"`
	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Tools []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string      `json:"name"`
			Description string      `json:"description"`
			Parameters  jsonx.Value `json:"parameters"`
			Strict      bool        `json:"strict"`
		} `json:"function"`
	} `json:"tools"`
	ToolChoice          jsonx.Value       `json:"tool_choice"`
	MaxTokens           int               `json:"max_tokens"`
	MaxCompletionTokens int               `json:"max_completion_tokens"`
	Temperature         *float64          `json:"temperature"`
	Stop                jsonx.Value       `json:"stop"`
	ResponseFormat      *responseFormat   `json:"response_format"`
	ReasoningEffort     string            `json:"reasoning_effort"`
	Metadata            map[string]string `json:"metadata"`

	// What only other clients send.
	TopP              *float64    `json:"top_p"`
	N                 *int        `json:"n"`
	Seed              *int        `json:"seed"`
	PresencePenalty   *float64    `json:"presence_penalty"`
	FrequencyPenalty  *float64    `json:"frequency_penalty"`
	LogitBias         jsonx.Value `json:"logit_bias"`
	Logprobs          *bool       `json:"logprobs"`
	TopLogprobs       *int        `json:"top_logprobs"`
	User              string      `json:"user"`
	ParallelToolCalls *bool       `json:"parallel_tool_calls"`
	ServiceTier       string      `json:"service_tier"`
	Store             *bool       `json:"store"`
	Verbosity         string      `json:"verbosity"`
	Thinking          *struct {   // DeepSeek's
		Type string `json:"type"`
	} `json:"thinking"`
}

type responseFormat struct {
	Type       string `json:"type"`
	JSONSchema *struct {
		Name        string      `json:"name"`
		Description string      `json:"description"`
		Schema      jsonx.Value `json:"schema"`
		Strict      *bool       `json:"strict"`
	} `json:"json_schema"`
}

type openAIMessage struct {
	Role       string      `json:"role"`
	Content    jsonx.Value `json:"content"`
	Name       string      `json:"name"`
	Refusal    string      `json:"refusal"`
	ToolCallID string      `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string      `json:"id"`
		Type     string      `json:"type"`
		Index    *int        `json:"index"`
		Extra    jsonx.Value `json:"extra_content"`
		Function struct {
			Name      string  `json:"name"`
			Arguments *string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`

	// What services attach to their answers and want back.
	ReasoningContent jsonx.Value `json:"reasoning_content"`
	Reasoning        jsonx.Value `json:"reasoning"`
	Details          jsonx.Value `json:"reasoning_details"`
	Extra            jsonx.Value `json:"extra_content"`
}

func (s *Server) listOpenAI(w http.ResponseWriter, r *http.Request) {
	s.record(r, nil, nil)
	data := []any{}
	for _, name := range s.names() {
		data = append(data, object{"id": name, "object": "model", "created": 1700000000, "owned_by": "library"})
	}
	sendJSON(w, object{"object": "list", "data": data})
}

func (openAI) decode(body []byte) (*chatRequest, error) {
	var in openAIRequest
	if err := jsonx.UnmarshalKnown(body, &in); err != nil {
		return nil, err
	}
	out := &chatRequest{stream: in.Stream, includeUsage: in.StreamOptions != nil && in.StreamOptions.IncludeUsage}
	out.Model, out.Metadata, out.Temperature = in.Model, in.Metadata, in.Temperature
	out.MaxTokens, out.Effort = max(in.MaxTokens, in.MaxCompletionTokens), llm.Effort(in.ReasoningEffort)
	if in.Thinking != nil && in.Thinking.Type == "disabled" {
		out.Effort = llm.EffortNone
	}
	for _, t := range in.Tools {
		out.Tools = append(out.Tools, llm.Tool{
			Name: t.Function.Name, Description: t.Function.Description, InputSchema: []byte(t.Function.Parameters),
		})
	}
	_ = jsonx.Unmarshal(in.ToolChoice, &out.ToolChoice) // one named tool is none of ours
	if out.ToolChoice == "auto" {
		out.ToolChoice = llm.ToolChoiceAuto
	}
	if jsonx.Unmarshal(in.Stop, &out.Stop) != nil && len(in.Stop) > 0 {
		out.Stop = []string{strings.Trim(string(in.Stop), `"`)}
	}
	if f := in.ResponseFormat; f != nil && f.JSONSchema != nil {
		out.Schema = []byte(f.JSONSchema.Schema)
	}
	var conv conversation
	for i, m := range in.Messages {
		if err := conv.openAI(m); err != nil {
			return nil, at(i, err)
		}
	}
	out.System, out.Messages = conv.system, conv.messages
	return out, nil
}
