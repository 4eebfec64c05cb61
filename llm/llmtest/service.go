package llmtest

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// Service is one whose ways a [Server] has beside its API: it attaches something to each answer that has calls, and refuses
// a conversation in which that does not come back as it was, by status 400 and with the service's own words. A call that
// it has not made, as of another service before it, needs what the service's documentation names for that, and nothing else will do.
type Service string

// The services.
const (
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
func (s *Server) attach(p *playing) {
	p.service = s.Service
	calls, thinking := 0, ""
	for _, st := range p.turn.steps {
		if st.name != "" {
			calls++
		}
		thinking += st.thinking
	}
	if s.Service == "" || calls == 0 {
		return
	}
	if thinking == "" {
		thinking = fmt.Sprintf("Turn %d needs a tool.", p.number)
		p.turn.steps = append([]step{{thinking: thinking[:5]}, {thinking: thinking[5:]}}, p.turn.steps...)
	}
	switch s.Service {
	case DeepSeek, Thinking:
		p.attached = thinking
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

// wants refuses a conversation that lacks what was attached, or has what was not.
func (s *Server) wants(req *llm.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	prompt := len(req.Messages) - 1 // the last one
	for prompt > 0 && (req.Messages[prompt].Role != llm.RoleUser || isResult(req.Messages[prompt].Content)) {
		prompt--
	}
	for i, m := range req.Messages {
		at := slices.IndexFunc(m.Content, func(c mcp.Content) bool { _, ok := c.(*mcp.ToolUseContent); return ok })
		if at < 0 {
			continue
		}
		first := m.Content[at].(*mcp.ToolUseContent).ID
		issued, ours := s.issued[first]
		if err := s.Service.wants(&m, first, issued, ours, i > prompt); err != nil {
			return err
		}
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
