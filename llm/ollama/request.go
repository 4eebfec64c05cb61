package ollama

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ollama/ollama/api"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/render"
	"github.com/troupe-dev/troupe/llm/internal/rest"
	"github.com/troupe-dev/troupe/mcp"
)

// chatRequest is the body of /api/chat.
type chatRequest struct {
	api.ChatRequest
	kept [][]byte // its messages, encoded; nil where they are in Messages
}

// echo gives the model its thinking back, as long as the turn of the conversation in which it was is under way.
type echo struct {
	provider, model string
	after           int // the message with which that turn began: thinking before it is left out
}

func echoOf(provider, model string, messages []llm.Message) echo {
	e := echo{provider, model, len(messages) - 1}
	for e.after > 0 && (messages[e.after].Role != llm.RoleUser || len(messages[e.after].Content) > 0 && isResult(messages[e.after].Content[0])) {
		e.after--
	}
	return e
}

// dialect is that of messages in [llm.Encodings]: what else decides about how they are written.
func (e *echo) dialect() string { return fmt.Sprintf("ollama %d %s/%s", e.after, e.provider, e.model) }

// thinking returns that of message i; empty for none.
func (e *echo) thinking(m *llm.Message, i int) (text string) {
	for _, s := range m.State {
		if i > e.after && s.Kind == kindThinking && s.Provider == e.provider && s.Model == e.model && jsonx.Unmarshal(s.Data, &text) != nil {
			return ""
		}
	}
	return text
}

// request maps a turn, which is valid, to the body of /api/chat.
func (s *Server) request(model string, req *llm.Request) (*chatRequest, error) {
	stream := true
	body := &chatRequest{ChatRequest: api.ChatRequest{
		Model:   cmp.Or(req.Model, model),
		Stream:  &stream,
		Format:  req.Schema,
		Options: s.options(req),
		Think:   think(req, s.thinks.get(cmp.Or(req.Model, model))),
	}}
	if s.opts.KeepAlive != 0 {
		body.KeepAlive = &api.Duration{Duration: s.opts.KeepAlive}
	}
	if req.ToolChoice != llm.ToolChoiceNone || rest.HasCalls(req) { // calls that were made are of no tools else
		for _, t := range req.Tools {
			tool, err := narrow(t)
			if err != nil {
				return nil, fmt.Errorf("%w: the schema of tool %q: %w", llm.ErrInvalidRequest, t.Name, err)
			}
			body.Tools = append(body.Tools, tool)
		}
	}
	if req.System != "" {
		body.Messages = append(body.Messages, api.Message{Role: "system", Content: req.System})
	}
	var err error
	back := echoOf(s.origin("").Provider, body.Model, req.Messages)
	if e := req.Encodings; e != nil {
		body.kept, err = e.Encode(back.dialect(), req.Messages, func(dst []byte, i int) ([]byte, error) { return encode(dst, req.Messages, i, &back) })
		return body, err
	}
	for i := range req.Messages {
		if body.Messages, err = appendMessage(body.Messages, req.Messages, i, &back); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// encode appends a message as the API has it, behind a comma if it is not the first.
func encode(dst []byte, messages []llm.Message, i int, back *echo) ([]byte, error) {
	list, err := appendMessage(nil, messages, i, back)
	if err != nil {
		return nil, err
	}
	for n, m := range list {
		raw, err := json.Marshal(m)
		if err != nil {
			return nil, fmt.Errorf("%w: message %d: %w", llm.ErrInvalidRequest, i, err)
		}
		if i > 0 || n > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, raw...)
	}
	return dst, nil
}

// body encodes the request.
func (r *chatRequest) body() (body rest.Body, err error) {
	messages := r.Messages
	if r.kept != nil {
		r.Messages = nil
	}
	// Ollama's types are made for encoding/json: its omitempty leaves out zeros too.
	whole, err := json.Marshal(&r.ChatRequest)
	if err != nil || r.kept == nil {
		return rest.Body{Tail: whole}, err
	}
	// Inside of a string these quotes would be escaped, and only the model's name stands before it.
	before, behind, _ := bytes.Cut(whole, []byte(`"messages":null`))
	head := append(append(make([]byte, 0, len(before)+256), before...), `"messages":[`...)
	for _, system := range messages {
		raw, err := json.Marshal(system)
		if err != nil {
			return body, err
		}
		head = append(append(head, raw...), ',')
	}
	return rest.Body{Head: head, Parts: r.kept, Tail: append([]byte("]"), behind...)}, nil
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

// appendMessage appends what a message of the conversation is for the API.
func appendMessage(out []api.Message, messages []llm.Message, i int, back *echo) ([]api.Message, error) {
	m := &messages[i]
	var msg api.Message
	var err error
	if m.Role == llm.RoleAssistant {
		msg, err = assistant(m.Content)
		msg.Thinking = back.thinking(m, i)
	} else if len(m.Content) > 0 && isResult(m.Content[0]) { // then all of them are
		return append(out, toolMessages(messages[i-1].Content, m.Content)...), nil
	} else {
		msg, err = user(m.Content)
	}
	if err != nil {
		return nil, fmt.Errorf("message %d: %w", i, err)
	}
	return append(out, msg), nil
}

func isResult(c mcp.Content) bool {
	_, ok := c.(*mcp.ToolResultContent)
	return ok
}

func assistant(content mcp.Contents) (api.Message, error) {
	msg := api.Message{Role: "assistant", Content: render.Assistant(content)}
	for _, c := range content {
		call, ok := c.(*mcp.ToolUseContent)
		if !ok {
			continue
		}
		args, err := arguments(render.Arguments(call))
		if err != nil {
			return msg, fmt.Errorf("the arguments of call %q: %w", call.ID, err)
		}
		msg.ToolCalls = append(msg.ToolCalls, api.ToolCall{
			ID:       call.ID,
			Function: api.ToolCallFunction{Index: len(msg.ToolCalls), Name: call.Name, Arguments: args},
		})
	}
	return msg, nil
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
// calls in the message before, and one of the user behind them all for their images.
func toolMessages(before, content mcp.Contents) []api.Message {
	results := make(map[string]*mcp.ToolResultContent, len(content))
	for _, c := range content {
		if r, ok := c.(*mcp.ToolResultContent); ok {
			results[r.ToolUseID] = r
		}
	}
	var out []api.Message
	var images []api.ImageData
	for _, c := range before {
		call, ok := c.(*mcp.ToolUseContent)
		if !ok {
			continue
		}
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
