package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
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

// sender has go-openai's client build and send a request.
type sender func(ctx context.Context, client *openai.Client) error

// request maps a turn to the body of a request, but for its messages and tools: see [Client.splice]. It notes in a what it sends.
func (c *Client) request(req *llm.Request, a *attempt) (sender, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	switch a.api {
	case APIChat:
		body := c.chatRequest(req, a)
		return func(ctx context.Context, client *openai.Client) error {
			_, err := client.CreateChatCompletionStream(ctx, body)
			return err
		}, nil
	case APIResponses:
		body := c.responseRequest(req, a)
		return func(ctx context.Context, client *openai.Client) error {
			_, err := client.CreateResponseStream(ctx, body)
			return err
		}, nil
	}
	return nil, fmt.Errorf("%w: there is no API %q, but %q, %q and %q", llm.ErrInvalidRequest, a.api, APIAuto, APIChat, APIResponses)
}

// chatRequest is the request for a chat completion. The model's name is filled in by splice: go-openai has a list of names
// whose requests it would refuse by itself.
func (c *Client) chatRequest(req *llm.Request, a *attempt) openai.ChatCompletionRequest {
	body := openai.ChatCompletionRequest{
		Stop:            c.stops(req)[0],
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

// answerName is how the schema of an answer is called.
const answerName = "answer"

// sends reports whether an optional field is sent, and notes that it is.
func (a *attempt) sends(f field) bool {
	if a.omit&f != 0 {
		return false
	}
	a.sent |= f
	return true
}

// maxStops is how many stop sequences OpenAI takes, and many others with it.
const maxStops = 4

// stops returns the stop sequences that the server looks for, and those that it is not
// given, because they are too many or its model takes none.
func (c *Client) stops(req *llm.Request) [2][]string {
	n := min(len(req.Stop), maxStops)
	if generationOf(cmp.Or(req.Model, c.model)).reasons() {
		n = 0
	}
	return [2][]string{req.Stop[:n:n], req.Stop[n:]}
}

// leastTemperature stands for zero, which go-openai would leave out. Ollama's runner dies
// of much smaller ones, since it divides by them.
const leastTemperature = 1e-5

// limit is the limit of the output; 0 for none.
func (c *Client) limit(req *llm.Request, a *attempt) int {
	if req.MaxTokens > 0 && a.sends(fieldLimit) {
		return req.MaxTokens
	}
	return 0
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

// temperature is nil where there is none, or the model takes none.
func (c *Client) temperature(req *llm.Request, a *attempt) *float32 {
	if req.Temperature == nil || generationOf(a.own.Model).reasons() || !a.sends(fieldTemperature) {
		return nil
	}
	return new(max(float32(*req.Temperature), leastTemperature))
}

// oneCall reports whether the model is asked for one call at most.
func (c *Client) oneCall(a *attempt) bool { return c.opts.OneCall && a.sends(fieldOneCall) }

// sendsTools reports whether tools are sent. With "none" chat completions have them only where the conversation has calls, which
// some servers refuse to see without them.
func (c *Client) sendsTools(req *llm.Request, a *attempt) bool {
	return len(req.Tools) > 0 && (req.ToolChoice != llm.ToolChoiceNone || a.api == APIResponses || hasCalls(req))
}

// placeholder stands for tools in a request that go-openai encodes.
var placeholder = []openai.Tool{{}}

// splice encodes a request: what go-openai has made of all but model, messages and tools, with these in their places. Inside of a
// string the quotes of a place would be escaped, and what may hold it otherwise, a schema, stands between the two.
func (c *Client) splice(head []byte, req *llm.Request, a *attempt) (body rest.Body, err error) {
	place, appendOne := `"messages":null`, appendMessage
	if a.api == APIResponses {
		place, appendOne = `"input":null`, appendItems
	}
	before, behind, ok := bytes.Cut(head, []byte(place))
	if !ok {
		return body, errors.New("the request has no place for messages")
	}
	var tools []byte
	if c.sendsTools(req, a) {
		tools = c.encodedTools(req.Tools, a.api)
	}
	encode := func(dst []byte, i int) ([]byte, error) { return appendOne(dst, req.Messages, i, &a.echo) }
	size := len(head) + len(tools) + len(req.System) + 256
	if e := req.Encodings; e != nil {
		if body.Parts, err = e.Encode(a.dialect(a.api), req.Messages, encode); err != nil {
			return body, err
		}
	} else {
		size += sizeOf(req.Messages)
	}
	dst := make([]byte, 0, size)
	if a.api == APIChat {
		dst = c.appendChatHead(dst, before, req, a)
	} else {
		dst = append(append(dst, before...), `"input":[`...)
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
	const toolsPlace = `"tools":[{"type":""}]`
	if i := bytes.LastIndex(behind, []byte(toolsPlace)); i >= 0 && len(tools) > 0 {
		dst = append(append(append(dst, behind[:i]...), `"tools":`...), tools...)
		behind = behind[i+len(toolsPlace):]
	}
	dst = append(dst, behind...)
	body.Head, body.Tail = dst[:end], dst[end:]
	return body, nil
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
	host := c.address.Hostname()
	return host == "openai.com" || strings.HasSuffix(host, ".openai.com")
}

// commonEfforts are those that most servers take for models that think.
var commonEfforts = []llm.Effort{llm.EffortNone, llm.EffortLow, llm.EffortMedium, llm.EffortHigh}

// effort is the nearest effort that the model takes, in the servers' word for it.
func (c *Client) effort(req *llm.Request, a *attempt) string {
	effort := req.Effort
	if a.unthinking && len(req.Tools) > 0 {
		effort = llm.EffortNone
	}
	switch {
	case a.omit&fieldEffort != 0:
		return ""
	case effort == "":
		if c.opts.ReasoningEffort != "" {
			a.sent |= fieldEffort
		}
		return c.opts.ReasoningEffort
	case a.switched && a.api == APIChat && a.sends(fieldSwitch) && effort == llm.EffortNone:
		return ""
	}
	if a.efforts = a.habits.efforts; a.efforts == 0 {
		a.efforts = setOf(generationOf(a.own.Model).efforts()...)
	}
	if a.efforts == 0 && !c.isOpenAI() { // its models of which nothing is known do not think, and refuse the field
		a.efforts = setOf(commonEfforts...)
	}
	if a.effort = effort.Nearest(a.efforts.list()); a.effort != "" {
		a.sent |= fieldEffort
	}
	return string(a.effort)
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
		dst, err = appendUser(dst, m.Content, &chatParts)
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

// resultsOf are the results in a message, by their calls.
func resultsOf(content mcp.Contents) map[string]*mcp.ToolResultContent {
	results := make(map[string]*mcp.ToolResultContent, len(content))
	for _, c := range content {
		if r, ok := c.(*mcp.ToolResultContent); ok {
			results[r.ToolUseID] = r
		}
	}
	return results
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
	results := resultsOf(content)
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

// parts are how an API writes the parts of a message.
type parts struct{ text, image, imageEnd string }

var chatParts = parts{`{"type":"text","text":`, `{"type":"image_url","image_url":{"url":"data:`, `"}},`}

// appendUser appends a message of the user: one text as a string, everything else as parts.
func appendUser(dst []byte, content mcp.Contents, p *parts) (_ []byte, err error) {
	dst = append(dst, `{"role":"user","content":`...)
	start, n, only := len(dst), 0, " " // the text of a message that has no other part
	dst = append(dst, '[')
	for _, c := range content {
		switch c := c.(type) {
		case *mcp.ImageContent:
			if n == 1 && only != "" {
				dst = p.appendText(dst, only)
			}
			if dst, err = p.appendImage(dst, c); err != nil {
				return nil, err
			}
			n, only = n+1, ""
		case *mcp.AudioContent:
			return nil, fmt.Errorf("%w: audio (%s) cannot be sent", llm.ErrUnsupported, c.MIMEType)
		default:
			text, ok := render.Text(c)
			if !ok || text == "" {
				continue
			}
			if n == 1 && only != "" {
				dst = p.appendText(dst, only)
			}
			if n++; n == 1 {
				only = text
				continue
			}
			dst, only = p.appendText(dst, text), ""
		}
	}
	if only != "" {
		return append(jsonx.AppendQuote(dst[:start], only), '}'), nil
	}
	dst[len(dst)-1] = ']' // in place of a comma
	return append(dst, '}'), nil
}

// appendText appends a part of a message and a comma.
func (p *parts) appendText(dst []byte, text string) []byte {
	return append(jsonx.AppendQuote(append(dst, p.text...), text), "},"...)
}

// appendImage appends an image of one of the four types that vision models take, and a comma.
func (p *parts) appendImage(dst []byte, c *mcp.ImageContent) ([]byte, error) {
	switch c.MIMEType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return nil, fmt.Errorf("%w: an image of type %q cannot be sent", llm.ErrUnsupported, c.MIMEType)
	}
	dst = append(append(dst, p.image...), c.MIMEType...)
	dst = base64.StdEncoding.AppendEncode(append(dst, ";base64,"...), c.Data)
	return append(dst, p.imageEnd...), nil
}
