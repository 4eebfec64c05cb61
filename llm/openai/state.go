package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// The kinds of state are the members that servers attach to a message, or to a call of it.
const (
	kindReasoningContent = "reasoning_content" // DeepSeek, Moonshot, z.ai, xAI, llama.cpp: the reasoning
	kindReasoning        = "reasoning"         // vLLM, Groq, Ollama: the reasoning
	kindDetails          = "reasoning_details" // OpenRouter: blocks, some of them signed or encrypted
	kindExtra            = "extra_content"     // Gemini: a thought signature, of a call or of the message
	kindItem             = "item"              // of the Responses API: what stood before the message or the call, as it came
	kindPhase            = "phase"             // of the Responses API: a member of the message
)

// kinds are all of them; those of chat completions in the order in which they are written into a message.
var kinds = []string{kindReasoningContent, kindReasoning, kindDetails, kindExtra, kindItem, kindPhase}

// messageKinds are those of chat completions.
var messageKinds = kinds[:4]

// noSignature is what Gemini takes in place of a thought signature for a call that it has not made, or that is not known any more
// (https://ai.google.dev/gemini-api/docs/thought-signatures).
const noSignature = `{"google":{"thought_signature":"skip_thought_signature_validator"}}`

// attached collects what a server attaches to an answer.
type attached struct {
	reasoningContent, reasoning []byte
	details                     []json.RawMessage
	extra                       json.RawMessage
	size                        int // of all; above [llm.MaxState] nothing is kept
}

func (a *attached) room(n int) bool {
	a.size += n
	return a.size <= llm.MaxState
}

func (a *attached) add(d *delta) {
	if d.ReasoningContent != "" && a.room(len(d.ReasoningContent)) {
		a.reasoningContent = append(a.reasoningContent, d.ReasoningContent...)
	}
	if d.Reasoning != "" && a.room(len(d.Reasoning)) {
		a.reasoning = append(a.reasoning, d.Reasoning...)
	}
	for _, raw := range d.Details {
		if a.room(len(raw)) {
			a.details = append(a.details, raw)
		}
	}
	if len(d.Extra) > 0 && a.room(len(d.Extra)) {
		a.extra = d.Extra
	}
}

// state returns what is to be given back. The reasoning itself is not, where its blocks are.
func (a *attached) state(own llm.ProviderState) (list []llm.ProviderState) {
	if a.size == 0 || a.size > llm.MaxState {
		return nil
	}
	add := func(kind string, data []byte) {
		own.Kind, own.Data = kind, data
		list = append(list, own)
	}
	if len(a.reasoningContent) > 0 {
		add(kindReasoningContent, jsonx.AppendQuote(nil, string(a.reasoningContent)))
	}
	if len(a.reasoning) > 0 && len(a.reasoningContent) == 0 && len(a.details) == 0 {
		add(kindReasoning, jsonx.AppendQuote(nil, string(a.reasoning)))
	}
	if len(a.details) > 0 {
		if data, err := json.Marshal(joined(a.details)); err == nil {
			add(kindDetails, data)
		}
	}
	if len(a.extra) > 0 {
		add(kindExtra, a.extra)
	}
	return list
}

// joined puts the fragments of streamed blocks together: neighbours of one type and index, whose texts follow each other and
// whose other members come with one of them. Blocks that came whole stay as they are.
func joined(blocks []json.RawMessage) (out []json.RawMessage) {
	var last map[string]json.RawMessage
	for _, raw := range blocks {
		var next map[string]json.RawMessage
		if jsonx.Unmarshal(raw, &next) != nil {
			next = nil
		}
		if !follows(last, next) {
			out, last = append(out, raw), next
			continue
		}
		for name, v := range next {
			if name == "text" || name == "summary" {
				v = concat(last[name], v)
			}
			if string(v) != "null" {
				last[name] = v
			}
		}
		if whole, err := json.Marshal(last); err == nil {
			out[len(out)-1] = whole
		}
	}
	return out
}

// follows reports whether next is a fragment of the block that last is of.
func follows(last, next map[string]json.RawMessage) bool {
	kind := string(next["type"])
	return last != nil && len(next["index"]) > 0 && kind == string(last["type"]) && string(next["index"]) == string(last["index"]) &&
		(kind == `"reasoning.text"` || kind == `"reasoning.summary"`) && (len(last["signature"]) == 0 || string(last["signature"]) == "null") // behind a signature another begins
}

// concat is the JSON string of two JSON strings, either of which may be missing or null.
func concat(a, b json.RawMessage) json.RawMessage {
	var x, y string
	if jsonx.Unmarshal(a, &x) != nil {
		return b
	}
	if jsonx.Unmarshal(b, &y) != nil {
		return a
	}
	return jsonx.AppendQuote(nil, x+y)
}

// has reports whether a request was sent with state of a kind.
func (e *echo) has(req *llm.Request, kind string) bool {
	return slices.ContainsFunc(req.Messages, func(m llm.Message) bool {
		return slices.ContainsFunc(m.State, func(s llm.ProviderState) bool { return s.Kind == kind && e.mine(&s) }) ||
			kind == kindReasoningContent && e.empty && len(callsOf(m.Content)) > 0
	})
}

// lacksReasoning reports whether a message with calls was sent without reasoning_content.
func (e *echo) lacksReasoning(req *llm.Request) bool {
	return slices.ContainsFunc(req.Messages, func(m llm.Message) bool {
		return len(callsOf(m.Content)) > 0 && e.of(&m, "", kindReasoningContent) == nil
	})
}

// own is state of a model of the client.
func (c *Client) own(model string) llm.ProviderState {
	return llm.ProviderState{Provider: c.opts.Provider, Model: model, Server: c.address.Host}
}

// echo writes the state of messages into a request.
type echo struct {
	own llm.ProviderState // without a kind and data
	habits
}

// dialect is that of messages in [llm.Encodings]: what else decides about how they are written by an API.
func (e *echo) dialect(api API) string {
	mode := []byte{'0' + e.refused}
	if e.alternates {
		mode = append(mode, '~')
	}
	if e.shortIDs {
		mode = append(mode, '#')
	}
	if e.empty {
		mode = append(mode, '+')
	}
	if e.placeholders {
		mode = append(mode, '*')
	}
	return "openai " + string(api) + string(mode) + " " + e.own.Server + " " + e.own.Provider + "/" + e.own.Model
}

func (e *echo) mine(s *llm.ProviderState) bool {
	return s.Provider == e.own.Provider && s.Model == e.own.Model && s.Server == e.own.Server
}

// of finds the state of a message, or of a call in it.
func (e *echo) of(m *llm.Message, call, kind string) json.RawMessage {
	for i := range m.State {
		if s := &m.State[i]; s.Kind == kind && s.Call == call && e.mine(s) {
			return s.Data
		}
	}
	return nil
}

// gives reports whether state of a kind is given back.
func (e *echo) gives(kind string) bool { return e.refused&(1<<slices.Index(kinds, kind)) == 0 }

// id is the ID of a call as the server takes it.
func (e *echo) id(call string) string {
	if !e.shortIDs {
		return call
	}
	sum := sha256.Sum256([]byte(call))
	return hex.EncodeToString(sum[:])[:9]
}

// appendTo appends the members of a message.
func (e *echo) appendTo(dst []byte, m *llm.Message, calls bool) []byte {
	for _, kind := range messageKinds {
		if !e.gives(kind) {
			continue
		}
		data := e.of(m, "", kind)
		if data == nil && kind == kindReasoningContent && e.empty && calls {
			data = json.RawMessage(`""`)
		}
		if data != nil {
			dst = append(append(append(append(dst, `,"`...), kind...), `":`...), data...)
		}
	}
	return dst
}

// signed reports whether any call of a message has what a server has attached to it.
func (e *echo) signed(m *llm.Message) bool {
	return slices.ContainsFunc(callsOf(m.Content), func(call *mcp.ToolUseContent) bool { return e.of(m, call.ID, kindExtra) != nil })
}

// appendToCall appends the member of call i.
func (e *echo) appendToCall(dst []byte, m *llm.Message, i int, id string) []byte {
	if !e.gives(kindExtra) {
		return dst
	}
	data := e.of(m, id, kindExtra)
	if data == nil && i == 0 && e.placeholders && !e.signed(m) {
		data = json.RawMessage(noSignature)
	}
	if data == nil {
		return dst
	}
	return append(append(dst, `,"extra_content":`...), data...)
}
