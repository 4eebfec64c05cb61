package openai

import (
	"bytes"
	"fmt"

	"github.com/sashabaranov/go-openai"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/render"
	"github.com/troupe-dev/troupe/mcp"
)

// chatRequest is the request for a chat completion. The model's name is filled in by splice: go-openai has a list of names
// whose requests it would refuse by itself.
func (c *Client) chatRequest(req *llm.Request, a *attempt) openai.ChatCompletionRequest {
	body := openai.ChatCompletionRequest{
		Stop:            c.stops(req, a)[0],
		ReasoningEffort: c.effort(req, a),
		Metadata:        c.metadata(req),
	}
	if !c.opts.OmitStreamOptions {
		body.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
	}
	if limit := c.limit(req, a); c.limitField(a) == "max_completion_tokens" {
		body.MaxCompletionTokens = limit
	} else {
		//lint:ignore SA1019 it is deprecated at OpenAI; others, Ollama among them, read no other
		body.MaxTokens = limit
	}
	if temperature := c.temperature(req, a); temperature != nil {
		body.Temperature = *temperature
	}
	if c.sendsTools(req, a) {
		body.Tools = placeholder
		if c.oneCall(a) {
			body.ParallelToolCalls = false
		}
		if req.ToolChoice != llm.ToolChoiceAuto {
			body.ToolChoice = string(req.ToolChoice)
		}
	}
	if len(req.Schema) > 0 {
		body.ResponseFormat = &openai.ChatCompletionResponseFormat{
			Type:       openai.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{Name: answerName, Schema: req.Schema, Strict: isStrict(req.Schema)},
		}
	}
	return body
}

// limitField is how chat completions call that.
func (c *Client) limitField(a *attempt) string {
	field := c.opts.MaxTokensField
	if field == "" {
		field = "max_tokens"
		if (generationOf(a.own.Model).reasons() || c.isOpenAI()) != a.otherLimit {
			field = "max_completion_tokens"
		}
	}
	return field
}

// appendChatHead appends what stands before the messages of a chat completion: before is that of go-openai.
func (c *Client) appendChatHead(dst, before []byte, req *llm.Request, a *attempt) []byte {
	dst = jsonx.AppendQuote(append(dst, `{"model":`...), a.own.Model)
	dst = append(dst, bytes.TrimPrefix(before, []byte(`{"model":""`))...)
	if a.sent&fieldSwitch != 0 {
		kind := "enabled"
		if req.Effort == llm.EffortNone {
			kind = "disabled"
		}
		dst = append(append(append(dst, `"thinking":{"type":"`...), kind...), `"},`...)
	}
	dst = append(dst, `"messages":[`...)
	if req.System != "" {
		dst = append(jsonx.AppendQuote(append(dst, `{"role":"system","content":`...), req.System), "},"...)
	}
	return dst
}

// between is what the assistant is made to say where the user speaks twice and a server refuses that: Mistral's, and those with the
// templates of many local models.
const between = `{"role":"assistant","content":"OK."},`

// appendMessage appends a message, behind a comma if it is not the first, as go-openai would
// write it. Ids of calls go back as they came.
func appendMessage(dst []byte, messages []llm.Message, i int, back *echo) (_ []byte, err error) {
	if i > 0 {
		dst = append(dst, ',')
	}
	m := &messages[i]
	switch {
	case m.Role == llm.RoleAssistant:
		return appendAssistant(dst, m, back), nil
	case len(m.Content) > 0 && isResult(m.Content[0]): // then all of them are
		dst, err = appendResults(dst, callsOf(messages[i-1].Content), m.Content, back)
	default:
		if back.alternates && i > 0 && messages[i-1].Role == llm.RoleUser {
			dst = append(dst, between...)
		}
		dst, err = appendUser(dst, m.Content, &chatParts)
	}
	if err != nil {
		return nil, fmt.Errorf("message %d: %w", i, err)
	}
	return dst, nil
}

// appendAssistant appends a message of the assistant. Its content may only be missing
// where there are calls: the servers refuse an empty one.
func appendAssistant(dst []byte, m *llm.Message, back *echo) []byte {
	calls := callsOf(m.Content)
	dst = append(dst, `{"role":"assistant"`...)
	text := render.Assistant(m.Content)
	if text == "" && len(calls) == 0 {
		text = " "
	}
	if text != "" {
		dst = jsonx.AppendQuote(append(dst, `,"content":`...), text)
	}
	dst = back.appendTo(dst, m, len(calls) > 0)
	for i, call := range calls {
		next := `,"tool_calls":[{"id":`
		if i > 0 {
			next = `,{"id":`
		}
		dst = jsonx.AppendQuote(append(dst, next...), back.id(call.ID))
		dst = jsonx.AppendQuote(append(dst, `,"type":"function","function":{"name":`...), call.Name)
		dst = jsonx.AppendQuote(append(dst, `,"arguments":`...), string(render.Arguments(call)))
		dst = append(back.appendToCall(append(dst, '}'), m, i, call.ID), '}')
	}
	if len(calls) > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// appendResults appends one message for each result, in the order of the calls, and one
// of the user behind them all for their images.
func appendResults(dst []byte, calls []*mcp.ToolUseContent, content mcp.Contents, back *echo) (_ []byte, err error) {
	results := resultsOf(content)
	var images []byte
	for i, call := range calls {
		if i > 0 {
			dst = append(dst, ',')
		}
		text, imgs := render.ToolResult(results[call.ID])
		dst = jsonx.AppendQuote(append(dst, `{"role":"tool","content":`...), text)
		dst = jsonx.AppendQuote(append(dst, `,"tool_call_id":`...), back.id(call.ID))
		dst = append(dst, '}')
		for _, img := range imgs {
			images = chatParts.appendText(images, "An image from the result of "+call.Name+":")
			if images, err = chatParts.appendImage(images, img); err != nil {
				return nil, err
			}
		}
	}
	if len(images) > 0 {
		dst = append(append(dst, `,{"role":"user","content":[`...), images[:len(images)-1]...)
		dst = append(dst, "]}"...)
	}
	return dst, nil
}
