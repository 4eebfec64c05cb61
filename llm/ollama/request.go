package ollama

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ollama/ollama/api"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/render"
	"github.com/troupe-dev/troupe/mcp"
)

// request maps a turn, which is valid, to the body of /api/chat.
func (s *Server) request(model string, req *llm.Request) (*api.ChatRequest, error) {
	stream := true
	body := &api.ChatRequest{
		Model:   cmp.Or(req.Model, model),
		Stream:  &stream,
		Format:  req.Schema,
		Options: s.options(req),
		Think:   think(req),
	}
	if s.opts.KeepAlive != 0 {
		body.KeepAlive = &api.Duration{Duration: s.opts.KeepAlive}
	}
	if req.ToolChoice != llm.ToolChoiceNone {
		for _, t := range req.Tools {
			tool, err := narrow(t)
			if err != nil {
				return nil, fmt.Errorf("%w: the schema of tool %q: %w", llm.ErrInvalidRequest, t.Name, err)
			}
			body.Tools = append(body.Tools, tool)
		}
	}
	var err error
	body.Messages, err = messages(req)
	return body, err
}

// options sets only what the request has: every other option stays the model's own.
func (s *Server) options(req *llm.Request) map[string]any {
	options := make(map[string]any)
	if req.MaxTokens > 0 {
		options["num_predict"] = req.MaxTokens
	}
	if req.Temperature != nil {
		options["temperature"] = *req.Temperature
	}
	if len(req.Stop) > 0 {
		options["stop"] = req.Stop
	}
	if s.opts.ContextLength > 0 {
		options["num_ctx"] = s.opts.ContextLength
	}
	return options
}

// think maps the wish about thinking. A schema switches it off unless it was asked for:
// Ollama applies the grammar only once a model that can think has done so, and a model
// that then does not think would answer in free text.
func think(req *llm.Request) *api.ThinkValue {
	switch {
	case req.Thinking != nil:
		return &api.ThinkValue{Value: *req.Thinking}
	case len(req.Schema) > 0:
		return &api.ThinkValue{Value: false}
	}
	return nil
}

// messages maps the conversation.
func messages(req *llm.Request) ([]api.Message, error) {
	var out []api.Message
	if req.System != "" {
		out = append(out, api.Message{Role: "system", Content: req.System})
	}
	var calls []*mcp.ToolUseContent // of the assistant's last message
	for i, m := range req.Messages {
		if m.Role == llm.RoleAssistant {
			msg, cs, err := assistant(m.Content)
			if err != nil {
				return nil, fmt.Errorf("message %d: %w", i, err)
			}
			out, calls = append(out, msg), cs
			continue
		}
		if results := toolMessages(calls, m.Content); len(results) > 0 {
			out = append(out, results...)
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

func assistant(content mcp.Contents) (api.Message, []*mcp.ToolUseContent, error) {
	msg := api.Message{Role: "assistant", Content: render.Assistant(content)}
	var calls []*mcp.ToolUseContent
	for _, c := range content {
		call, ok := c.(*mcp.ToolUseContent)
		if !ok {
			continue
		}
		args, err := arguments(render.Arguments(call))
		if err != nil {
			return msg, nil, fmt.Errorf("the arguments of call %q: %w", call.ID, err)
		}
		msg.ToolCalls = append(msg.ToolCalls, api.ToolCall{
			ID:       call.ID,
			Function: api.ToolCallFunction{Index: len(calls), Name: call.Name, Arguments: args},
		})
		calls = append(calls, call)
	}
	return msg, calls, nil
}

// arguments keeps the order of the members, and their values in their own text: Ollama's
// decoder would make float64 of large integers.
func arguments(data []byte) (api.ToolCallFunctionArguments, error) {
	args := api.NewToolCallFunctionArguments()
	var order api.ToolCallFunctionArguments
	if err := order.UnmarshalJSON(data); err != nil {
		return args, err
	}
	var values map[string]jsonx.Value
	if err := jsonx.Unmarshal(data, &values); err != nil {
		return args, err
	}
	for name := range order.All() {
		args.Set(name, json.RawMessage(values[name]))
	}
	return args, nil
}

// toolMessages maps the results in content to one message for each, in the order of the
// calls, and one of the user behind them all for their images.
func toolMessages(calls []*mcp.ToolUseContent, content mcp.Contents) []api.Message {
	results := make(map[string]*mcp.ToolResultContent)
	for _, c := range content {
		if r, ok := c.(*mcp.ToolResultContent); ok {
			results[r.ToolUseID] = r
		}
	}
	if len(results) == 0 {
		return nil
	}
	var out []api.Message
	var images []api.ImageData
	for _, call := range calls {
		text, imgs := render.ToolResult(results[call.ID])
		out = append(out, api.Message{Role: "tool", Content: text, ToolName: call.Name, ToolCallID: call.ID})
		for _, img := range imgs {
			images = append(images, img.Data)
		}
	}
	if len(images) > 0 {
		out = append(out, api.Message{Role: "user", Content: "The images from the results above.", Images: images})
	}
	return out
}

// user maps a message of the user: its texts as lines of one, its images beside them.
func user(content mcp.Contents) (api.Message, error) {
	msg := api.Message{Role: "user"}
	var texts []string
	for _, c := range content {
		switch c := c.(type) {
		case *mcp.ImageContent:
			msg.Images = append(msg.Images, c.Data)
		case *mcp.AudioContent:
			return msg, fmt.Errorf("%w: audio (%s) cannot be sent", llm.ErrUnsupported, c.MIMEType)
		default:
			if text, ok := render.Text(c); ok && text != "" {
				texts = append(texts, text)
			}
		}
	}
	msg.Content = strings.Join(texts, "\n")
	return msg, nil
}
