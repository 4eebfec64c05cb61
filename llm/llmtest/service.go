package llmtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// Service is one whose ways a [Server] has beside its API: it attaches something to each answer that has calls, and refuses
// a conversation in which that does not come back as it was, by status 400 and with the service's own words. A call that
// it has not made, as of another service before it, needs what the service's documentation names for that, and nothing else will do.
// All of them refuse a conversation with calls and no tools, one in which the assistant speaks twice, and an effort that they do not know.
type Service string

// The services.
const (
	OpenAI     Service = "gpt"        // OpenAI itself: tools by the Responses API only, unless the effort is none; encrypted reasoning before each call, none for others' calls
	DeepSeek   Service = "deepseek"   // thinking mode: reasoning_content on each message with calls; empty for others' calls
	Gemini     Service = "gemini"     // a signature at the first call of each message since the last prompt; a fixed word for others' calls
	OpenRouter Service = "openrouter" // signed reasoning_details, unchanged; none for others' calls
	Thinking   Service = "thinking"   // Ollama's API: the thinking of each message with calls since the last prompt; none for others' calls
)

// noSignature is what Gemini takes for calls that it has not made.
const noSignature = "skip_thought_signature_validator"

// refusal is what a service says, in its own words.
type refusal string

func (r refusal) Error() string { return string(r) }

// attach adds what the service attaches to the answer, and remembers it by the answer's calls.
func (s *Server) attach(d dialect, p *playing) {
	p.service = s.Service
	calls, thinking := 0, ""
	for _, st := range p.turn.steps {
		if st.name != "" {
			calls++
		}
		thinking += st.thinking
	}
	_, byResponses := d.(responses)
	if s.Service == "" || calls == 0 || s.Service == OpenAI && !(byResponses && p.req.encrypted) {
		return
	}
	if thinking == "" && s.Service != OpenAI {
		thinking = fmt.Sprintf("Turn %d needs a tool.", p.number)
		p.turn.steps = append([]step{{thinking: thinking[:5]}, {thinking: thinking[5:]}}, p.turn.steps...)
	}
	switch s.Service {
	case DeepSeek, Thinking:
		p.attached = thinking
	case OpenAI:
		p.attached = fmt.Sprintf("reasoning-%d", p.number)
	case Gemini:
		p.attached = fmt.Sprintf("signature-%d", p.number)
	case OpenRouter:
		p.attached = encode([]any{object{"type": "reasoning.text", "text": thinking, "signature": fmt.Sprintf("signature-%d", p.number), "format": "anthropic-claude-v1", "index": 0}})
		p.turn.wire.Reasoning = "reasoning"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.issued == nil {
		s.issued = make(map[string]string)
	}
	for i := range calls {
		s.issued[p.callID(i)] = p.attached
	}
}

// details are the fragments in which OpenRouter streams a block of thinking.
func details(thinking string, last bool, signature int) []any {
	block := object{"type": "reasoning.text", "text": thinking, "format": "anthropic-claude-v1", "index": 0}
	if !last {
		return []any{block}
	}
	return []any{block, object{"type": "reasoning.text", "signature": fmt.Sprintf("signature-%d", signature), "format": "anthropic-claude-v1", "index": 0}}
}

// wants refuses a request as the service does: for what it is, or because the conversation lacks what was attached, or has what was not.
func (s *Server) wants(d dialect, req *llm.Request) error {
	if s.Service == "" {
		return nil
	}
	if err := s.Service.takes(d, req); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	prompt := len(req.Messages) - 1 // the last one
	for prompt > 0 && (req.Messages[prompt].Role != llm.RoleUser || isResult(req.Messages[prompt].Content)) {
		prompt--
	}
	for i, m := range req.Messages {
		if i > 0 && m.Role == llm.RoleAssistant && req.Messages[i-1].Role == llm.RoleAssistant {
			return refusal("Conversation roles must alternate user/assistant/user/assistant/...")
		}
		calls := callsOf(m.Content)
		if len(calls) == 0 {
			continue
		}
		if len(req.Tools) == 0 {
			return refusal("The toolConfig field must be defined when using toolUse and toolResult content blocks.")
		}
		if s.Service == OpenAI {
			if err := s.reasoned(d, &m, calls); err != nil {
				return err
			}
			continue
		}
		issued, ours := s.issued[calls[0]]
		if err := s.Service.wants(&m, calls[0], issued, ours, i > prompt); err != nil {
			return err
		}
	}
	return nil
}

// callsOf are the IDs of the calls in a message.
func callsOf(content mcp.Contents) (ids []string) {
	for _, c := range content {
		if call, ok := c.(*mcp.ToolUseContent); ok {
			ids = append(ids, call.ID)
		}
	}
	return ids
}

// takes refuses a request for its parameters.
func (s Service) takes(d dialect, req *llm.Request) error {
	efforts := map[Service]string{OpenAI: "none low medium high xhigh", DeepSeek: "none low high max", Gemini: "none minimal low medium high", Thinking: "none low medium high"}[s]
	if efforts != "" && req.Effort != "" && !slices.Contains(strings.Fields(efforts), string(req.Effort)) {
		return refusal(fmt.Sprintf("Unsupported value: 'reasoning_effort' does not support '%s' with this model. Supported values are: '%s'.", req.Effort, strings.ReplaceAll(efforts, " ", "', '")))
	}
	if s != OpenAI {
		return nil
	}
	if _, ok := d.(responses); !ok && len(req.Tools) > 0 && req.Effort != llm.EffortNone {
		return refusal("Function tools with reasoning_effort are not supported for " + req.Model + " in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'.")
	}
	if req.Temperature != nil {
		return refusal("Unsupported parameter: 'temperature' is not supported with this model.")
	}
	return nil
}

// reasoned refuses a message whose calls do not have before them the reasoning that led to them.
func (s *Server) reasoned(d dialect, m *llm.Message, calls []string) error {
	if _, ok := d.(responses); !ok {
		return nil
	}
	left := 0
	for _, st := range m.State {
		if st.Kind == "item" {
			left++
		}
	}
	spoken := !slices.ContainsFunc(m.State, func(st llm.ProviderState) bool { return st.Kind == "phase" && string(st.Data) == `"`+phase+`"` }) && m.Content.Text() != ""
	if _, ours := s.issued[calls[0]]; ours && spoken {
		return refusal("An assistant message was provided without its phase.")
	}
	for _, id := range calls {
		attached, ours := s.issued[id]
		if !ours {
			continue
		}
		at := slices.IndexFunc(m.State, func(st llm.ProviderState) bool { return st.Kind == "item" && st.Call == id })
		var it struct {
			ID        string `json:"id"`
			Encrypted string `json:"encrypted_content"`
		}
		if at < 0 || jsonx.Unmarshal(m.State[at].Data, &it) != nil || it.Encrypted != encrypted(attached, id) || it.ID != "rs_"+id {
			return refusal("Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_" + id + "'.")
		}
		left--
	}
	if left > 0 {
		return refusal("The encrypted content for item rs_1 could not be verified.")
	}
	return nil
}

func (s Service) wants(m *llm.Message, first, issued string, ours, underWay bool) error {
	said := func(call, kind string) (text string, ok bool) {
		for _, st := range m.State {
			if st.Kind == kind && st.Call == call {
				return string(st.Data), true
			}
		}
		return "", false
	}
	var text string
	switch s {
	case DeepSeek:
		raw, ok := said("", "reasoning_content")
		if !ok || jsonx.Unmarshal([]byte(raw), &text) != nil || text != issued {
			return refusal("The `reasoning_content` in the thinking mode must be passed back to the API.")
		}
	case Gemini:
		var extra struct {
			Google struct {
				Signature string `json:"thought_signature"`
			} `json:"google"`
		}
		if !ours {
			issued = noSignature
		}
		raw, _ := said(first, "extra_content")
		if _ = jsonx.Unmarshal([]byte(raw), &extra); underWay && extra.Google.Signature != issued {
			return refusal("Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `" + first + "`")
		}
	case OpenRouter:
		raw, ok := said("", "reasoning_details")
		if got, err := jsonx.Canonical([]byte(raw)); ok && (err != nil || string(got) != canonical(issued)) || ours && !ok {
			return refusal("messages: `thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.")
		}
	case Thinking:
		raw, _ := said("", "thinking")
		if _ = jsonx.Unmarshal([]byte(raw), &text); underWay && text != issued {
			return refusal("the thinking of the turn under way is missing")
		}
	}
	return nil
}

func canonical(text string) string {
	out, err := jsonx.Canonical([]byte(text))
	if err != nil {
		return text
	}
	return string(out)
}

func isResult(content mcp.Contents) bool {
	if len(content) == 0 {
		return false
	}
	_, ok := content[0].(*mcp.ToolResultContent)
	return ok
}

// state is what a message of a request has beside its content.
func state(kind, call string, raw jsonx.Value) []llm.ProviderState {
	if len(raw) == 0 || raw.Kind() == 'n' {
		return nil
	}
	return []llm.ProviderState{{Kind: kind, Call: call, Data: json.RawMessage(raw)}}
}
