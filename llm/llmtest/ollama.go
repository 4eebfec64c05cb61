package llmtest

import (
	"io"
	"net/http"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
)

// ollama is the dialect of /api/chat.
type ollama struct{}

func (ollama) contentType() string { return "application/x-ndjson" }
func (ollama) sse() bool           { return false }

func (ollama) errorBody(_ int, _, message string) string { return encode(object{"error": message}) }

// documents makes the lines of a turn.
func (o ollama) documents(p *playing) documents {
	var docs documents
	add := func(message object) {
		message["role"] = "assistant"
		docs = append(docs, document{text: encode(o.line(p, object{"message": message, "done": false}))})
	}
	var together []any
	calls := 0
	for _, s := range p.turn.steps {
		switch {
		case s.text != "":
			add(object{"content": s.text})
		case s.thinking != "":
			add(object{"content": "", "thinking": s.thinking})
		case s.name != "":
			call := ollamaCall(p, calls, s)
			calls++
			if p.turn.wire.Calls == CallsTogether {
				together = append(together, call)
			} else {
				add(object{"content": "", "tool_calls": []any{call}})
			}
		default:
			docs = append(docs, document{before: s})
		}
	}
	if len(together) > 0 {
		add(object{"content": "", "tool_calls": together})
	}
	return append(docs, document{text: encode(o.last(p, object{"role": "assistant", "content": ""}))})
}

func (ollama) line(p *playing, fields object) object {
	fields["model"], fields["created_at"] = p.req.Model, "2026-01-02T03:04:05.678901234Z"
	return fields
}

// last is the line that says done.
func (o ollama) last(p *playing, message object) object {
	line := o.line(p, object{"message": message, "done": true})
	reason := string(p.turn.reason())
	if reason == string(llm.FinishToolCalls) {
		reason = "stop" // Ollama has no word for calls
	}
	if p.turn.wire.Finish != "" {
		reason = p.turn.wire.Finish
	}
	if reason != "none" {
		line["done_reason"] = reason
	}
	if p.turn.wire.Usage != UsageNone {
		u := p.turn.cost(&p.req.Request)
		line["prompt_eval_count"], line["eval_count"], line["total_duration"] = u.Input, u.Output, 1234567
	}
	return line
}

// ollamaCall makes a call. Arguments that are no JSON are sent as a string, since a line
// that is no JSON is another fault.
func ollamaCall(p *playing, index int, s step) object {
	var args any = s.args
	if jsonx.Valid([]byte(s.args)) {
		args = jsonx.Value(s.args)
	}
	call := object{"function": object{"index": index, "name": s.name, "arguments": args}}
	switch p.turn.wire.IDs {
	case IDNone:
	case IDRepeated:
		call["id"] = "call_0"
	default:
		call["id"] = p.callID(index)
	}
	return call
}

func (o ollama) whole(p *playing) string {
	var content, thinking strings.Builder
	var calls []any
	for _, s := range p.turn.steps {
		content.WriteString(s.text)
		thinking.WriteString(s.thinking)
		if s.name != "" {
			calls = append(calls, ollamaCall(p, len(calls), s))
		}
	}
	message := object{"role": "assistant", "content": content.String()}
	if thinking.Len() > 0 {
		message["thinking"] = thinking.String()
	}
	if len(calls) > 0 {
		message["tool_calls"] = calls
	}
	return encode(o.last(p, message))
}

// ollamaRequest is the body of a chat, with all fields of the API.
type ollamaRequest struct {
	Model    string          `json:"model"`
	Messages []ollamaMessage `json:"messages"`
	Stream   *bool           `json:"stream"` // nil is true
	Format   jsonx.Value     `json:"format"`
	Tools    []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string      `json:"name"`
			Description string      `json:"description"`
			Parameters  jsonx.Value `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	Options     map[string]jsonx.Value `json:"options"`
	Think       jsonx.Value            `json:"think"`
	KeepAlive   jsonx.Value            `json:"keep_alive"`
	Truncate    *bool                  `json:"truncate"`
	Shift       *bool                  `json:"shift"`
	Logprobs    *bool                  `json:"logprobs"`
	TopLogprobs *int                   `json:"top_logprobs"`
}

type ollamaMessage struct {
	Role       string   `json:"role"`
	Content    string   `json:"content"`
	Thinking   string   `json:"thinking"`
	Images     [][]byte `json:"images"`
	ToolName   string   `json:"tool_name"`
	ToolCallID string   `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Index     int         `json:"index"`
			Name      string      `json:"name"`
			Arguments jsonx.Value `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

func (ollama) decode(body []byte) (*chatRequest, error) {
	var in ollamaRequest
	if err := jsonx.UnmarshalKnown(body, &in); err != nil {
		return nil, err
	}
	out := &chatRequest{stream: in.Stream == nil || *in.Stream}
	out.Model = in.Model
	if len(in.Format) > 0 && in.Format.Kind() == '{' {
		out.Schema = []byte(in.Format)
	}
	for _, t := range in.Tools {
		out.Tools = append(out.Tools, llm.Tool{
			Name: t.Function.Name, Description: t.Function.Description, InputSchema: []byte(t.Function.Parameters),
		})
	}
	if err := options(&out.Request, in.Options); err != nil {
		return nil, err
	}
	switch string(in.Think) {
	case "", "null", "true":
	case "false":
		out.Effort = llm.EffortNone
	default:
		if err := jsonx.Unmarshal(in.Think, &out.Effort); err != nil {
			return nil, err
		}
	}
	var conv conversation
	for i, m := range in.Messages {
		if err := conv.ollama(m); err != nil {
			return nil, at(i, err)
		}
	}
	out.System, out.Messages = conv.system, conv.messages
	return out, nil
}

// options reads the options that our clients send; Ollama itself ignores unknown ones.
func options(req *llm.Request, in map[string]jsonx.Value) error {
	for name, target := range map[string]any{
		"num_predict": &req.MaxTokens, "temperature": &req.Temperature, "stop": &req.Stop,
	} {
		if raw, ok := in[name]; ok {
			if err := jsonx.Unmarshal(raw, target); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Server) tags(w http.ResponseWriter, r *http.Request) {
	s.record(r, nil, nil)
	models := []any{}
	for _, name := range s.names() {
		models = append(models, object{
			"name": name, "model": name, "modified_at": "2026-01-02T03:04:05Z", "size": 1300000, "digest": "0",
			"details": object{"family": "llama", "parameter_size": "1M", "quantization_level": "F32"},
		})
	}
	sendJSON(w, object{"models": models})
}

func (s *Server) show(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	s.record(r, body, nil)
	var in struct {
		Model   string `json:"model"`
		Name    string `json:"name"` // the older word for it
		System  string `json:"system"`
		Verbose bool   `json:"verbose"`
	}
	if err == nil {
		err = jsonx.UnmarshalKnown(body, &in)
	}
	if err != nil {
		s.fail("%s: %v", r.URL.Path, err)
		s.refuse(w, ollama{}, http.StatusBadRequest, "", err)
		return
	}
	capabilities := s.Capabilities
	if capabilities == nil {
		capabilities = []string{"completion", "tools", "vision", "thinking"}
	}
	context := s.Context
	if context == 0 {
		context = 131_072
	}
	sendJSON(w, object{
		"capabilities": capabilities, "details": object{"family": "llama"},
		"model_info": object{"general.architecture": "llama", "llama.context_length": context},
	})
}

func (s *Server) version(w http.ResponseWriter, r *http.Request) {
	s.record(r, nil, nil)
	version := s.Version
	if version == "" {
		version = "0.17.4"
	}
	sendJSON(w, object{"version": version})
}
