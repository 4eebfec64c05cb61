package llmtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// responses is the dialect of OpenAI's Responses API.
type responses struct{ openAI }

// documents makes the events of a turn. Items come in the order of the steps, calls behind all else.
func (r responses) documents(p *playing) documents {
	if p.turn.wire.End == EndDone {
		p.turn.wire.End = EndNothing // there is no [DONE]
	}
	var docs documents
	add := func(kind string, more object) {
		more["type"], more["sequence_number"] = kind, len(docs)
		docs = append(docs, document{text: encode(more)})
	}
	steps := p.turn.steps
	for len(steps) > 0 && steps[0].silent() { // an error before the first event is a status
		docs, steps = append(docs, document{before: steps[0]}), steps[1:]
	}
	add("response.created", object{"response": r.response(p, "in_progress", []any{})})
	output := r.output(p)
	text := slices.IndexFunc(output, func(it object) bool { return it["type"] == "message" })
	for i, it := range output {
		if i == text {
			r.message(p, steps, i, add, func(s step) { docs = append(docs, document{before: s}) })
		} else {
			r.item(i, it, add)
		}
		add("response.output_item.done", object{"output_index": i, "item": it})
	}
	if text < 0 {
		for _, s := range steps {
			if s.silent() {
				docs = append(docs, document{before: s})
			}
		}
	}
	kind, status := "response.completed", r.status(p)
	if status != "completed" {
		kind = "response.incomplete"
	}
	items := make([]any, len(output))
	for i := range output {
		items[i] = output[i]
	}
	add(kind, object{"response": r.response(p, status, items)})
	return docs
}

// message sends the texts of the turn, with what happens between them.
func (r responses) message(p *playing, steps []step, i int, add func(string, object), before func(step)) {
	add("response.output_item.added", object{"output_index": i, "item": object{"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []any{}}})
	for _, s := range steps {
		switch {
		case s.text != "" && p.turn.wire.Refusal:
			add("response.refusal.delta", object{"output_index": i, "content_index": 0, "delta": s.text})
		case s.text != "":
			add("response.output_text.delta", object{"output_index": i, "content_index": 0, "delta": s.text, "logprobs": []any{}, "obfuscation": "x"})
		case s.silent():
			before(s)
		}
	}
}

// item sends the begin of an item that is not the message, and its parts.
func (r responses) item(i int, it object, add func(string, object)) {
	switch it["type"] {
	case "reasoning":
		add("response.output_item.added", object{"output_index": i, "item": object{"type": "reasoning", "id": it["id"], "summary": []any{}}})
		for n, part := range it["summary"].([]any) {
			add("response.reasoning_summary_part.added", object{"output_index": i, "summary_index": n})
			add("response.reasoning_summary_text.delta", object{"output_index": i, "summary_index": n, "delta": part.(object)["text"]})
		}
	case "function_call":
		add("response.output_item.added", object{"output_index": i, "item": object{"type": "function_call", "id": it["id"], "status": "in_progress", "call_id": it["call_id"], "name": it["name"], "arguments": ""}})
		for _, part := range cut(it["arguments"].(string)) {
			add("response.function_call_arguments.delta", object{"output_index": i, "item_id": it["id"], "delta": part, "obfuscation": "x"})
		}
	}
}

// output is the answer: what the model thinks, its text, and its calls with what was attached to each before it.
func (r responses) output(p *playing) (out []object) {
	var text, thinking strings.Builder
	for _, s := range p.turn.steps {
		text.WriteString(s.text)
		thinking.WriteString(s.thinking)
	}
	if thinking.Len() > 0 && p.service == "" {
		out = append(out, object{"type": "reasoning", "id": "rs_0", "summary": []any{object{"type": "summary_text", "text": thinking.String()}}})
	}
	if text.Len() > 0 {
		content := object{"type": "output_text", "text": text.String(), "annotations": []any{}}
		if p.turn.wire.Refusal {
			content = object{"type": "refusal", "refusal": text.String()}
		}
		message := object{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []any{content}}
		if p.attached != "" {
			message["phase"] = phase
		}
		out = append(out, message)
	}
	calls := 0
	for _, s := range p.turn.steps {
		if s.name == "" {
			continue
		}
		id := p.callID(calls)
		if p.attached != "" {
			out = append(out, object{"type": "reasoning", "id": "rs_" + id, "summary": []any{}, "encrypted_content": encrypted(p.attached, id)})
		}
		out = append(out, object{"type": "function_call", "id": fmt.Sprintf("fc_%d", calls), "call_id": id, "name": s.name, "arguments": s.args, "status": "completed"})
		calls++
	}
	return out
}

// phase is that of a text before calls.
const phase = "commentary"

// encrypted is the reasoning that led to a call.
func encrypted(attached, call string) string { return "gAAAA " + attached + " " + call }

func (r responses) status(p *playing) string {
	switch r.finish(p) {
	case "length", "content_filter":
		return "incomplete"
	}
	return "completed"
}

func (r responses) response(p *playing, status string, output []any) object {
	out := object{"id": "resp_1", "object": "response", "created_at": 1700000000, "model": p.req.Model, "status": status, "error": nil,
		"incomplete_details": nil, "output": output, "usage": nil, "store": false, "metadata": object{}}
	if status == "incomplete" {
		reason := r.finish(p)
		if reason == "length" {
			reason = "max_output_tokens"
		}
		out["incomplete_details"] = object{"reason": reason}
	}
	if status != "in_progress" && p.turn.wire.Usage != UsageNone {
		u := p.turn.cost(&p.req.Request)
		out["usage"] = object{"input_tokens": u.Input, "output_tokens": u.Output, "total_tokens": u.Input + u.Output,
			"input_tokens_details": object{"cached_tokens": 0}, "output_tokens_details": object{"reasoning_tokens": 0}}
	}
	return out
}

// whole makes the answer that is no stream.
func (r responses) whole(p *playing) string {
	output := []any{}
	for _, it := range r.output(p) {
		output = append(output, it)
	}
	return encode(r.response(p, r.status(p), output))
}

// responseRequest is the body of a request, with the fields of the API that a client may send.
type responseRequest struct {
	Model        string        `json:"model"`
	Input        []jsonx.Value `json:"input"`
	Instructions string        `json:"instructions"`
	Stream       bool          `json:"stream"`
	Store        *bool         `json:"store"`
	Include      []string      `json:"include"`
	Tools        []struct {
		Type        string      `json:"type"`
		Name        string      `json:"name"`
		Description string      `json:"description"`
		Parameters  jsonx.Value `json:"parameters"`
		Strict      *bool       `json:"strict"`
	} `json:"tools"`
	ToolChoice        llm.ToolChoice `json:"tool_choice"`
	ParallelToolCalls *bool          `json:"parallel_tool_calls"`
	MaxOutputTokens   int            `json:"max_output_tokens"`
	Temperature       *float64       `json:"temperature"`
	Reasoning         struct {
		Effort  llm.Effort `json:"effort"`
		Summary string     `json:"summary"`
	} `json:"reasoning"`
	Text struct {
		Format struct {
			Type   string      `json:"type"`
			Name   string      `json:"name"`
			Schema jsonx.Value `json:"schema"`
			Strict bool        `json:"strict"`
		} `json:"format"`
		Verbosity string `json:"verbosity"`
	} `json:"text"`
	Metadata       map[string]string `json:"metadata"`
	PromptCacheKey string            `json:"prompt_cache_key"`
}

func (responses) decode(body []byte) (*chatRequest, error) {
	var in responseRequest
	if err := jsonx.UnmarshalKnown(body, &in); err != nil {
		return nil, err
	}
	switch {
	case in.Store == nil || *in.Store:
		return nil, errors.New("what is said here must not be stored")
	case in.MaxOutputTokens > 0 && in.MaxOutputTokens < 16:
		return nil, errors.New("'max_output_tokens' is below the minimum value, which is 16")
	}
	out := &chatRequest{stream: in.Stream, encrypted: slices.Contains(in.Include, "reasoning.encrypted_content")}
	out.Model, out.System, out.Metadata, out.Temperature = in.Model, in.Instructions, in.Metadata, in.Temperature
	out.MaxTokens, out.ToolChoice, out.Effort, out.Schema = in.MaxOutputTokens, in.ToolChoice, in.Reasoning.Effort, []byte(in.Text.Format.Schema)
	if out.ToolChoice == "auto" {
		out.ToolChoice = llm.ToolChoiceAuto
	}
	for _, t := range in.Tools {
		if t.Strict == nil {
			return nil, fmt.Errorf("the tool %q does not say whether it is strict", t.Name)
		}
		out.Tools = append(out.Tools, llm.Tool{Name: t.Name, Description: t.Description, InputSchema: []byte(t.Parameters)})
	}
	var conv conversation
	for i, raw := range in.Input {
		if err := conv.item(raw); err != nil {
			return nil, fmt.Errorf("input[%d]: %w", i, err)
		}
	}
	if conv.reasoning != nil {
		return nil, errors.New("the last reasoning item was provided without its required following item")
	}
	out.Messages = conv.messages
	return out, nil
}

// item takes the next item of an input.
func (c *conversation) item(raw jsonx.Value) error {
	var it struct {
		Type      string      `json:"type"`
		ID        string      `json:"id"`
		Role      string      `json:"role"`
		Content   jsonx.Value `json:"content"`
		Phase     string      `json:"phase"`
		CallID    string      `json:"call_id"`
		Name      string      `json:"name"`
		Arguments *string     `json:"arguments"`
		Output    jsonx.Value `json:"output"`
		Summary   jsonx.Value `json:"summary"`
		Encrypted string      `json:"encrypted_content"`
		Status    string      `json:"status"`
	}
	if err := jsonx.UnmarshalKnown(raw, &it); err != nil {
		return err
	}
	ofAssistant := it.Role == "assistant" || it.Type == "function_call" || it.Type == "reasoning"
	if c.reasoning != nil && !ofAssistant {
		return errors.New("an item of type 'reasoning' was provided without its required following item")
	}
	switch {
	case it.Type == "reasoning":
		c.reasoning = append(c.reasoning, raw)
		return nil
	case it.Type == "function_call":
		if it.Arguments == nil {
			return errors.New("invalid tool call arguments")
		}
		call := &mcp.ToolUseContent{ID: it.CallID, Name: it.Name, Input: []byte(*it.Arguments)}
		m := c.assistant()
		m.Content = append(m.Content, call)
		c.attached(m, it.CallID)
		return nil
	case it.Type == "function_call_output":
		content, err := openAIContent(it.Output)
		if err != nil {
			return err
		}
		c.result(it.CallID, content)
		return nil
	case it.Type != "" && it.Type != "message":
		return fmt.Errorf("invalid type: %q", it.Type)
	}
	content, err := openAIContent(it.Content)
	switch {
	case err != nil:
		return err
	case len(content) == 0:
		return errNoContent
	case it.Role == "user":
		c.add(llm.RoleUser, content)
	case it.Role == "assistant":
		c.add(llm.RoleAssistant, content)
		m := &c.messages[len(c.messages)-1]
		c.attached(m, "")
		if it.Phase != "" {
			m.State = append(m.State, state("phase", "", jsonx.AppendQuote(nil, it.Phase))...)
		}
	default:
		return fmt.Errorf("invalid role: %q", it.Role)
	}
	return nil
}

// assistant is the message of the assistant that calls belong to.
func (c *conversation) assistant() *llm.Message {
	if n := len(c.messages); n == 0 || c.messages[n-1].Role != llm.RoleAssistant {
		c.add(llm.RoleAssistant, nil)
	}
	return &c.messages[len(c.messages)-1]
}

// attached attaches the reasoning before an item to it.
func (c *conversation) attached(m *llm.Message, call string) {
	for _, raw := range c.reasoning {
		m.State = append(m.State, state("item", call, raw)...)
	}
	c.reasoning = nil
}
