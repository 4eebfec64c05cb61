package openai

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/sashabaranov/go-openai"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/render"
	"github.com/troupe-dev/troupe/llm/internal/rest"
	"github.com/troupe-dev/troupe/mcp"
)

// emptySchema is the schema of a tool that takes nothing.
var emptySchema = json.RawMessage(`{"type":"object","properties":{}}`)

// request maps a turn to the body of a chat completion, but for its messages and tools:
// see [splice].
func (c *Client) request(req *llm.Request) (openai.ChatCompletionRequest, error) {
	var none openai.ChatCompletionRequest
	if err := req.Validate(); err != nil {
		return none, err
	}
	body := openai.ChatCompletionRequest{
		Model:           cmp.Or(req.Model, c.model),
		Stop:            c.stops(req)[0],
		ReasoningEffort: c.effort(req),
		Metadata:        c.metadata(req),
	}
	if !c.opts.OmitStreamOptions {
		body.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
	}
	c.limit(&body, req)
	c.choose(&body, req)
	if len(req.Schema) > 0 {
		body.ResponseFormat = &openai.ChatCompletionResponseFormat{
			Type:       openai.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{Name: "answer", Schema: req.Schema, Strict: isStrict(req.Schema)},
		}
	}
	return body, nil
}

// maxStops is how many stop sequences OpenAI takes, and many others with it.
const maxStops = 4

// stops returns the stop sequences that the server looks for, and those that it is not
// given, because they are too many or its model takes none.
func (c *Client) stops(req *llm.Request) [2][]string {
	n := min(len(req.Stop), maxStops)
	if isReasoning(cmp.Or(req.Model, c.model)) {
		n = 0
	}
	return [2][]string{req.Stop[:n:n], req.Stop[n:]}
}

// leastTemperature stands for zero, which go-openai would leave out. Ollama's runner dies
// of much smaller ones, since it divides by them.
const leastTemperature = 1e-5

// limit sets the token limit and the temperature in the way the model takes them.
func (c *Client) limit(body *openai.ChatCompletionRequest, req *llm.Request) {
	reasoning := isReasoning(body.Model)
	field := c.opts.MaxTokensField
	if field == "" && (reasoning || c.isOpenAI()) {
		field = "max_completion_tokens"
	}
	if field == "max_completion_tokens" {
		body.MaxCompletionTokens = req.MaxTokens
	} else {
		//lint:ignore SA1019 it is deprecated at OpenAI; others, Ollama among them, read no other
		body.MaxTokens = req.MaxTokens
	}
	if req.Temperature != nil && !reasoning {
		body.Temperature = max(float32(*req.Temperature), leastTemperature)
	}
}

// choose sets the tools. With "none" they are only sent where the conversation has calls,
// which some servers refuse to see without them.
func (c *Client) choose(body *openai.ChatCompletionRequest, req *llm.Request) {
	if req.ToolChoice == llm.ToolChoiceNone && !hasCalls(req) {
		return
	}
	if len(req.Tools) > 0 {
		body.Tools = placeholder
	}
	if c.opts.OneCall && len(body.Tools) > 0 {
		body.ParallelToolCalls = false
	}
	if req.ToolChoice != llm.ToolChoiceAuto && len(body.Tools) > 0 {
		body.ToolChoice = string(req.ToolChoice)
	}
}

// placeholder stands for tools in a request that go-openai encodes.
var placeholder = []openai.Tool{{}}

// splice encodes a request: what go-openai has made of all but messages and tools, with
// these in their places. Inside of a string the quotes of a place would be escaped, and
// what may hold it otherwise, a schema, stands between the two.
func splice(head []byte, req *llm.Request, tools []byte, back echo) (body rest.Body, err error) {
	before, behind, ok := bytes.Cut(head, []byte(`"messages":null`))
	if !ok {
		return body, errors.New("the request has no place for messages")
	}
	encode := func(dst []byte, i int) ([]byte, error) { return appendMessage(dst, req.Messages, i, &back) }
	size := len(head) + len(tools) + len(req.System) + 256
	if e := req.Encodings; e != nil {
		if body.Parts, err = e.Encode(back.dialect(), req.Messages, encode); err != nil {
			return body, err
		}
	} else {
		size += sizeOf(req.Messages)
	}
	dst := append(append(make([]byte, 0, size), before...), `"messages":[`...)
	if req.System != "" {
		dst = append(jsonx.AppendQuote(append(dst, `{"role":"system","content":`...), req.System), "},"...)
	}
	end := len(dst) // of what stands before the messages
	if req.Encodings == nil {
		for i := range req.Messages {
			if dst, err = encode(dst, i); err != nil {
				return body, err
			}
		}
		end = 0
	}
	dst = append(dst, ']')
	const place = `"tools":[{"type":""}]`
	if i := bytes.LastIndex(behind, []byte(place)); i >= 0 && len(tools) > 0 {
		dst = append(append(append(dst, behind[:i]...), `"tools":`...), tools...)
		behind = behind[i+len(place):]
	}
	dst = append(dst, behind...)
	body.Head, body.Tail = dst[:end], dst[end:]
	return body, nil
}

// sizeOf is about how many bytes messages have once they are encoded.
func sizeOf(messages []llm.Message) (size int) {
	const around = 256 // of a block
	for _, m := range messages {
		for _, c := range m.Content {
			size += around
			switch c := c.(type) {
			case *mcp.TextContent:
				size += len(c.Text)
			case *mcp.ToolResultContent:
				for _, b := range c.Content {
					if text, ok := b.(*mcp.TextContent); ok {
						size += max(0, len(text.Text)-around/2)
					}
				}
			}
		}
	}
	return size
}

func parameters(schema json.RawMessage) json.RawMessage {
	if len(schema) == 0 {
		return emptySchema
	}
	return schema
}

func hasCalls(req *llm.Request) bool {
	return slices.ContainsFunc(req.Messages, func(m llm.Message) bool {
		return slices.ContainsFunc(m.Content, func(c mcp.Content) bool {
			_, ok := c.(*mcp.ToolUseContent)
			return ok
		})
	})
}

// isOpenAI reports whether the server is OpenAI's own, which refuses max_tokens for its
// newer models.
func (c *Client) isOpenAI() bool {
	u, err := url.Parse(c.opts.BaseURL)
	return err == nil && (u.Hostname() == "openai.com" || strings.HasSuffix(u.Hostname(), ".openai.com"))
}

// isReasoning reports whether a name is of OpenAI's reasoning models, for which
// go-openai refuses max_tokens and any temperature but 1.
func isReasoning(model string) bool {
	for _, prefix := range []string{"o1", "o3", "o4", "gpt-5", "gpt-6"} {
		if strings.HasPrefix(model, prefix) {
			return true
		}
	}
	return false
}

// effort maps the wish about thinking. There is no field that switches it off
// everywhere: the least effort of the model's family stands for it.
func (c *Client) effort(req *llm.Request) string {
	model := cmp.Or(req.Model, c.model)
	switch {
	case req.Thinking == nil || *req.Thinking:
		return c.opts.ReasoningEffort
	case strings.HasPrefix(model, "gpt-5"):
		return openai.ReasoningEffortMinimal
	case strings.HasPrefix(model, "gpt-6"):
		return openai.ReasoningEffortNone
	case isReasoning(model):
		return openai.ReasoningEffortLow
	case c.isOpenAI(): // a model without thinking, which refuses the field
		return ""
	}
	return openai.ReasoningEffortNone
}

func (c *Client) metadata(req *llm.Request) map[string]string {
	var sent map[string]string
	for _, key := range c.opts.MetadataKeys {
		if v, ok := req.Metadata[key]; ok {
			if sent == nil {
				sent = make(map[string]string)
			}
			sent[key] = v
		}
	}
	return sent
}

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
		dst, err = appendResults(dst, callsOf(messages[i-1].Content), m.Content)
	default:
		dst, err = appendUser(dst, m.Content)
	}
	if err != nil {
		return nil, fmt.Errorf("message %d: %w", i, err)
	}
	return dst, nil
}

func callsOf(content mcp.Contents) (calls []*mcp.ToolUseContent) {
	for _, c := range content {
		if call, ok := c.(*mcp.ToolUseContent); ok {
			calls = append(calls, call)
		}
	}
	return calls
}

func isResult(c mcp.Content) bool {
	_, ok := c.(*mcp.ToolResultContent)
	return ok
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
		dst = jsonx.AppendQuote(append(dst, next...), call.ID)
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
func appendResults(dst []byte, calls []*mcp.ToolUseContent, content mcp.Contents) (_ []byte, err error) {
	results := make(map[string]*mcp.ToolResultContent, len(content))
	for _, c := range content {
		if r, ok := c.(*mcp.ToolResultContent); ok {
			results[r.ToolUseID] = r
		}
	}
	var images []byte
	for i, call := range calls {
		if i > 0 {
			dst = append(dst, ',')
		}
		text, imgs := render.ToolResult(results[call.ID])
		dst = jsonx.AppendQuote(append(dst, `{"role":"tool","content":`...), text)
		dst = jsonx.AppendQuote(append(dst, `,"tool_call_id":`...), call.ID)
		dst = append(dst, '}')
		for _, img := range imgs {
			images = appendText(images, "An image from the result of "+call.Name+":")
			if images, err = appendImage(images, img); err != nil {
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

// appendUser appends a message of the user: one text as a string, everything else as parts.
func appendUser(dst []byte, content mcp.Contents) (_ []byte, err error) {
	dst = append(dst, `{"role":"user","content":`...)
	start, parts, only := len(dst), 0, " " // the text of a message that has no other part
	dst = append(dst, '[')
	for _, c := range content {
		switch c := c.(type) {
		case *mcp.ImageContent:
			if parts == 1 && only != "" {
				dst = appendText(dst, only)
			}
			if dst, err = appendImage(dst, c); err != nil {
				return nil, err
			}
			parts, only = parts+1, ""
		case *mcp.AudioContent:
			return nil, fmt.Errorf("%w: audio (%s) cannot be sent", llm.ErrUnsupported, c.MIMEType)
		default:
			text, ok := render.Text(c)
			if !ok || text == "" {
				continue
			}
			if parts == 1 && only != "" {
				dst = appendText(dst, only)
			}
			if parts++; parts == 1 {
				only = text
				continue
			}
			dst, only = appendText(dst, text), ""
		}
	}
	if only != "" {
		return append(jsonx.AppendQuote(dst[:start], only), '}'), nil
	}
	dst[len(dst)-1] = ']' // in place of a comma
	return append(dst, '}'), nil
}

// appendText appends a part of a message and a comma.
func appendText(dst []byte, text string) []byte {
	return append(jsonx.AppendQuote(append(dst, `{"type":"text","text":`...), text), "},"...)
}

// appendImage appends an image of one of the four types that vision models take, and a comma.
func appendImage(dst []byte, c *mcp.ImageContent) ([]byte, error) {
	switch c.MIMEType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return nil, fmt.Errorf("%w: an image of type %q cannot be sent", llm.ErrUnsupported, c.MIMEType)
	}
	dst = append(append(dst, `{"type":"image_url","image_url":{"url":"data:`...), c.MIMEType...)
	dst = base64.StdEncoding.AppendEncode(append(dst, ";base64,"...), c.Data)
	return append(dst, "\"}},"...), nil
}
