package llmtest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// conversation turns the messages of a request back into ours.
type conversation struct {
	system    string
	messages  []llm.Message
	reasoning []jsonx.Value // of the Responses API, before it is known to what it led
}

func at(i int, err error) error { return fmt.Errorf("messages[%d]: %w", i, err) }

var errNoContent = errors.New("invalid message content type: <nil>") // Ollama's words

// openAI takes the next message. It refuses what OpenAI or Ollama's /v1 refuses.
func (c *conversation) openAI(m openAIMessage) error {
	if len(m.Content) == 0 && len(m.ToolCalls) == 0 {
		return errNoContent
	}
	content, err := openAIContent(m.Content)
	if err != nil {
		return err
	}
	switch m.Role {
	case "system", "developer":
		c.system = content.Text()
	case "user":
		c.add(llm.RoleUser, content)
	case "assistant":
		for _, call := range m.ToolCalls {
			if call.Function.Arguments == nil {
				return errors.New("invalid tool call arguments")
			}
			content = append(content, &mcp.ToolUseContent{
				ID: call.ID, Name: call.Function.Name, Input: json.RawMessage(*call.Function.Arguments),
			})
		}
		c.add(llm.RoleAssistant, content)
		back := slices.Concat(state("reasoning_content", "", m.ReasoningContent), state("reasoning", "", m.Reasoning), state("reasoning_details", "", m.Details), state("extra_content", "", m.Extra))
		for _, call := range m.ToolCalls {
			back = append(back, state("extra_content", call.ID, call.Extra)...)
		}
		c.messages[len(c.messages)-1].State = back
	case "tool":
		c.result(m.ToolCallID, content)
	default:
		return fmt.Errorf("invalid role: %q", m.Role)
	}
	return nil
}

func (c *conversation) add(role llm.Role, content mcp.Contents) {
	c.messages = append(c.messages, llm.Message{Role: role, Content: content})
}

// result adds a tool's result to the message that holds its siblings.
func (c *conversation) result(id string, content mcp.Contents) {
	block := &mcp.ToolResultContent{ToolUseID: id, Content: content}
	block.IsError = strings.HasPrefix(content.Text(), "Error: ")
	if n := len(c.messages); n > 0 && c.messages[n-1].Role == llm.RoleUser {
		last := &c.messages[n-1]
		if _, ok := last.Content[0].(*mcp.ToolResultContent); ok {
			last.Content = append(last.Content, block)
			return
		}
	}
	c.add(llm.RoleUser, mcp.Contents{block})
}

// openAIContent reads a string or a list of parts.
func openAIContent(raw jsonx.Value) (mcp.Contents, error) {
	if len(raw) == 0 || raw.Kind() == 'n' {
		return nil, nil
	}
	if raw.Kind() == '"' {
		var text string
		if err := jsonx.Unmarshal(raw, &text); err != nil {
			return nil, err
		}
		if text == "" {
			return nil, errNoContent
		}
		return mcp.Contents{mcp.Text(text)}, nil
	}
	var parts []struct {
		Type     string      `json:"type"`
		Text     string      `json:"text"`
		ImageURL jsonx.Value `json:"image_url"`
	}
	if err := jsonx.UnmarshalKnown(raw, &parts); err != nil {
		return nil, err
	}
	var content mcp.Contents
	for _, p := range parts {
		switch p.Type {
		case "text", "input_text":
			content = append(content, mcp.Text(p.Text))
		case "image_url", "input_image":
			image, err := dataURL(p.Type, p.ImageURL)
			if err != nil {
				return nil, err
			}
			content = append(content, image)
		default:
			return nil, fmt.Errorf("invalid part of type %q", p.Type)
		}
	}
	return content, nil
}

// dataURL reads the image of a part: chat completions have its URL in an object.
func dataURL(part string, raw jsonx.Value) (*mcp.ImageContent, error) {
	var object struct {
		URL    string `json:"url"`
		Detail string `json:"detail"`
	}
	url, err := "", error(nil)
	if part == "input_image" {
		err = jsonx.Unmarshal(raw, &url)
	} else {
		err = jsonx.UnmarshalKnown(raw, &object)
		url = object.URL
	}
	if err != nil {
		return nil, fmt.Errorf("invalid image input: %w", err)
	}
	mime, data, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	if !ok {
		return nil, errors.New("image URLs are not currently supported, please use base64 encoded data instead")
	}
	bytes, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return nil, fmt.Errorf("invalid image input: %w", err)
	}
	return &mcp.ImageContent{MIMEType: mime, Data: bytes}, nil
}

// ollama takes the next message.
func (c *conversation) ollama(m ollamaMessage) error {
	var content mcp.Contents
	if m.Content != "" {
		content = append(content, mcp.Text(m.Content))
	}
	for _, data := range m.Images {
		content = append(content, &mcp.ImageContent{Data: data})
	}
	switch m.Role {
	case "system":
		c.system = m.Content
	case "user":
		c.add(llm.RoleUser, content)
	case "assistant":
		for _, call := range m.ToolCalls {
			if call.Function.Arguments.Kind() != '{' {
				return errors.New("invalid tool call arguments")
			}
			content = append(content, &mcp.ToolUseContent{
				ID: call.ID, Name: call.Function.Name, Input: json.RawMessage(call.Function.Arguments),
			})
		}
		c.add(llm.RoleAssistant, content)
		if m.Thinking != "" {
			c.messages[len(c.messages)-1].State = state("thinking", "", jsonx.AppendQuote(nil, m.Thinking))
		}
	case "tool":
		if m.Content == "" {
			return errNoContent
		}
		c.result(m.ToolCallID, content)
	default:
		return fmt.Errorf("invalid role: %q", m.Role)
	}
	return nil
}
