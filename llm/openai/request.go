package openai

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/sashabaranov/go-openai"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/render"
	"github.com/troupe-dev/troupe/mcp"
)

// emptySchema is the schema of a tool that takes nothing.
var emptySchema = json.RawMessage(`{"type":"object","properties":{}}`)

// request maps a turn to the body of a chat completion.
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
	messages, err := messages(req)
	if err != nil {
		return none, err
	}
	body.Messages = messages
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
	for _, t := range req.Tools {
		body.Tools = append(body.Tools, openai.Tool{
			Type: openai.ToolTypeFunction,
			Function: &openai.FunctionDefinition{
				Name: t.Name, Description: t.Description, Parameters: parameters(t.InputSchema),
				Strict: c.opts.StrictTools && isStrict(t.InputSchema),
			},
		})
	}
	if c.opts.OneCall && len(body.Tools) > 0 {
		body.ParallelToolCalls = false
	}
	if req.ToolChoice != llm.ToolChoiceAuto && len(body.Tools) > 0 {
		body.ToolChoice = string(req.ToolChoice)
	}
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

// messages maps the conversation. Ids of calls go back as they came.
func messages(req *llm.Request) ([]openai.ChatCompletionMessage, error) {
	var out []openai.ChatCompletionMessage
	if req.System != "" {
		out = append(out, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleSystem, Content: req.System})
	}
	var calls []*mcp.ToolUseContent // of the assistant's last message
	for i, m := range req.Messages {
		if m.Role == llm.RoleAssistant {
			var msg openai.ChatCompletionMessage
			msg, calls = assistant(m.Content)
			out = append(out, msg)
			continue
		}
		results := toolResults(m.Content)
		if len(results) > 0 {
			more, err := toolMessages(calls, results)
			if err != nil {
				return nil, fmt.Errorf("message %d: %w", i, err)
			}
			out = append(out, more...)
			continue
		}
		msg, err := user(m.Content)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		out = append(out, msg)
	}
	return out, nil
}

// assistant maps a message of the assistant. Its content may only be missing where there
// are calls: an empty one is not sent by go-openai and refused by the servers.
func assistant(content mcp.Contents) (openai.ChatCompletionMessage, []*mcp.ToolUseContent) {
	msg := openai.ChatCompletionMessage{Role: openai.ChatMessageRoleAssistant, Content: render.Assistant(content)}
	var calls []*mcp.ToolUseContent
	for _, c := range content {
		call, ok := c.(*mcp.ToolUseContent)
		if !ok {
			continue
		}
		calls = append(calls, call)
		msg.ToolCalls = append(msg.ToolCalls, openai.ToolCall{
			ID: call.ID, Type: openai.ToolTypeFunction,
			Function: openai.FunctionCall{Name: call.Name, Arguments: string(render.Arguments(call))},
		})
	}
	if msg.Content == "" && len(calls) == 0 {
		msg.Content = " "
	}
	return msg, calls
}

func toolResults(content mcp.Contents) map[string]*mcp.ToolResultContent {
	results := make(map[string]*mcp.ToolResultContent)
	for _, c := range content {
		if r, ok := c.(*mcp.ToolResultContent); ok {
			results[r.ToolUseID] = r
		}
	}
	return results
}

// toolMessages maps results to one message for each, in the order of the calls, and
// one of the user behind them all for their images.
func toolMessages(calls []*mcp.ToolUseContent, results map[string]*mcp.ToolResultContent) ([]openai.ChatCompletionMessage, error) {
	var out []openai.ChatCompletionMessage
	var images []openai.ChatMessagePart
	for _, call := range calls {
		text, imgs := render.ToolResult(results[call.ID])
		out = append(out, openai.ChatCompletionMessage{
			Role: openai.ChatMessageRoleTool, ToolCallID: call.ID, Content: text,
		})
		for _, img := range imgs {
			part, err := image(img)
			if err != nil {
				return nil, err
			}
			images = append(images, openai.ChatMessagePart{
				Type: openai.ChatMessagePartTypeText, Text: "An image from the result of " + call.Name + ":",
			}, part)
		}
	}
	if len(images) > 0 {
		out = append(out, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, MultiContent: images})
	}
	return out, nil
}

// user maps a message of the user: one text as a string, everything else as parts.
func user(content mcp.Contents) (openai.ChatCompletionMessage, error) {
	msg := openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser}
	var parts []openai.ChatMessagePart
	for _, c := range content {
		switch c := c.(type) {
		case *mcp.ImageContent:
			part, err := image(c)
			if err != nil {
				return msg, err
			}
			parts = append(parts, part)
		case *mcp.AudioContent:
			return msg, fmt.Errorf("%w: audio (%s) cannot be sent", llm.ErrUnsupported, c.MIMEType)
		default:
			if text, ok := render.Text(c); ok && text != "" {
				parts = append(parts, openai.ChatMessagePart{Type: openai.ChatMessagePartTypeText, Text: text})
			}
		}
	}
	switch {
	case len(parts) == 0:
		msg.Content = " "
	case len(parts) == 1 && parts[0].Type == openai.ChatMessagePartTypeText:
		msg.Content = parts[0].Text
	default:
		msg.MultiContent = parts
	}
	return msg, nil
}

// image maps an image of one of the four types that vision models take.
func image(c *mcp.ImageContent) (openai.ChatMessagePart, error) {
	switch c.MIMEType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return openai.ChatMessagePart{}, fmt.Errorf("%w: an image of type %q cannot be sent", llm.ErrUnsupported, c.MIMEType)
	}
	data := "data:" + c.MIMEType + ";base64," + base64.StdEncoding.EncodeToString(c.Data)
	return openai.ChatMessagePart{
		Type:     openai.ChatMessagePartTypeImageURL,
		ImageURL: &openai.ChatMessageImageURL{URL: data},
	}, nil
}
