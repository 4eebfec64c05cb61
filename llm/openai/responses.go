package openai

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"github.com/sashabaranov/go-openai"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/render"
	"github.com/troupe-dev/troupe/mcp"
)

// leastOutput is the least limit of the output that the Responses API takes.
const leastOutput = 16

// responseRequest is the request for a response, of which the server keeps nothing: what it needs of its reasoning it gives us
// encrypted.
func (c *Client) responseRequest(req *llm.Request, a *attempt) openai.CreateResponseRequest {
	body := openai.CreateResponseRequest{
		Model:        a.own.Model,
		Instructions: req.System,
		Store:        new(false),
		Temperature:  c.temperature(req, a),
	}
	if limit := c.limit(req, a); limit > 0 {
		body.MaxOutputTokens = max(limit, leastOutput)
	}
	if effort := c.effort(req, a); effort != "" {
		body.Reasoning = &openai.ResponseReasoning{Effort: effort}
	}
	if g := generationOf(a.own.Model); (g.reasons() || !c.isOpenAI()) && a.sends(fieldEncrypted) {
		body.Include = []openai.ResponseInclude{openai.ResponseIncludeReasoningEncryptedContent}
	}
	if a.sends(fieldCacheKey) {
		body.PromptCacheKey = cacheKey(req)
	}
	if c.sendsTools(req, a) {
		body.Tools = placeholder
		if c.oneCall(a) {
			body.ParallelToolCalls = new(false)
		}
		if req.ToolChoice != llm.ToolChoiceAuto {
			body.ToolChoice = string(req.ToolChoice)
		}
	}
	if len(req.Schema) > 0 {
		body.Text = &openai.ResponseTextConfig{Format: &openai.ResponseTextFormat{
			Type: "json_schema", Name: answerName, Schema: req.Schema, Strict: isStrict(req.Schema),
		}}
	}
	for key, value := range c.metadata(req) {
		if body.Metadata == nil {
			body.Metadata = make(map[string]any)
		}
		body.Metadata[key] = value
	}
	return body
}

// cacheKey keeps a conversation, which is known by how it begins, on one cache of the server: also when it is taken up by
// another process.
func cacheKey(req *llm.Request) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d %s", len(req.System), req.System)
	for _, block := range req.Messages[0].Content {
		if text, ok := render.Text(block); ok {
			h.Write([]byte(text))
		}
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:18])
}

var responseParts = parts{`{"type":"input_text","text":`, `{"type":"input_image","image_url":"data:`, `"},`}

// appendItems appends the items of a message, behind a comma if it is not the first message. Ids of calls go back as they came.
func appendItems(dst []byte, messages []llm.Message, i int, back *echo) (_ []byte, err error) {
	if i > 0 {
		dst = append(dst, ',')
	}
	m := &messages[i]
	switch {
	case m.Role == llm.RoleAssistant:
		return appendOutput(dst, m, back), nil
	case len(m.Content) > 0 && isResult(m.Content[0]): // then all of them are
		dst, err = appendOutputs(dst, callsOf(messages[i-1].Content), m.Content, back)
	default:
		dst, err = appendUser(dst, m.Content, &responseParts)
	}
	if err != nil {
		return nil, fmt.Errorf("message %d: %w", i, err)
	}
	return dst, nil
}

// appendOutput appends the items that the model has made: its reasoning before that to which it led.
func appendOutput(dst []byte, m *llm.Message, back *echo) []byte {
	calls := callsOf(m.Content)
	text := render.Assistant(m.Content)
	if text == "" && len(calls) == 0 {
		text = " "
	}
	start := len(dst)
	dst = back.appendItemsBefore(dst, m, "")
	if text != "" {
		dst = jsonx.AppendQuote(append(dst, `{"role":"assistant","content":`...), text)
		if phase := back.of(m, "", kindPhase); phase != nil && back.gives(kindPhase) {
			dst = append(append(dst, `,"phase":`...), phase...)
		}
		dst = append(dst, "},"...)
	}
	for _, call := range calls {
		dst = back.appendItemsBefore(dst, m, call.ID)
		dst = jsonx.AppendQuote(append(dst, `{"type":"function_call","call_id":`...), back.id(call.ID))
		dst = jsonx.AppendQuote(append(dst, `,"name":`...), call.Name)
		dst = jsonx.AppendQuote(append(dst, `,"arguments":`...), string(render.Arguments(call)))
		dst = append(dst, "},"...)
	}
	return dst[:max(start, len(dst)-1)]
}

// appendItemsBefore appends what stood before a call of a message, or before its text, with a comma behind each.
func (e *echo) appendItemsBefore(dst []byte, m *llm.Message, call string) []byte {
	if !e.gives(kindItem) {
		return dst
	}
	for i := range m.State {
		if s := &m.State[i]; s.Kind == kindItem && s.Call == call && e.mine(s) {
			dst = append(append(dst, s.Data...), ',')
		}
	}
	return dst
}

// appendOutputs appends the results of calls, in the order of these.
func appendOutputs(dst []byte, calls []*mcp.ToolUseContent, content mcp.Contents, back *echo) (_ []byte, err error) {
	results := resultsOf(content)
	for i, call := range calls {
		if i > 0 {
			dst = append(dst, ',')
		}
		text, images := render.ToolResult(results[call.ID])
		dst = jsonx.AppendQuote(append(dst, `{"type":"function_call_output","call_id":`...), back.id(call.ID))
		dst = append(dst, `,"output":`...)
		if len(images) == 0 {
			dst = append(jsonx.AppendQuote(dst, text), '}')
			continue
		}
		dst = responseParts.appendText(append(dst, '['), text)
		for _, img := range images {
			if dst, err = responseParts.appendImage(dst, img); err != nil {
				return nil, err
			}
		}
		dst = append(dst[:len(dst)-1], "]}"...)
	}
	return dst, nil
}
