package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/troupe-dev/troupe/benchmarks/turn"
)

// remote is a model with OpenAI's API.
type remote struct {
	client *http.Client
	url    string
	tools  []wireTool
}

type wireTool struct {
	Type     string       `json:"type"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Arguments   string          `json:"arguments,omitempty"`
}

type wireCall struct {
	Index    int          `json:"index"`
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function wireFunction `json:"function"`
}

type wireMessage struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []wireCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type wireRequest struct {
	Model    string        `json:"model"`
	Messages []wireMessage `json:"messages"`
	Tools    []wireTool    `json:"tools"`
	Stream   bool          `json:"stream"`
}

type wireChunk struct {
	Choices []struct {
		Delta        wireMessage `json:"delta"`
		FinishReason string      `json:"finish_reason"`
	} `json:"choices"`
}

func newRemote(o *turn.Options) *remote {
	r := &remote{client: o.Client(), url: o.HTTP + "/chat/completions"}
	for _, name := range turn.Tools {
		r.tools = append(r.tools, wireTool{"function", wireFunction{Name: name, Description: turn.Description, Parameters: json.RawMessage(turn.Schema)}})
	}
	return r
}

func (r *remote) ask(ctx context.Context, history []message) ([]turn.Call, string, error) {
	body, err := json.Marshal(wireRequest{Model: turn.Model, Messages: wireMessages(history), Tools: r.tools, Stream: true})
	if err != nil {
		return nil, "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, "", errors.New(resp.Status)
	}
	return read(bufio.NewScanner(resp.Body))
}

// read reads the events of an answer.
func read(lines *bufio.Scanner) (calls []turn.Call, text string, err error) {
	var said, arguments []byte // all of the text, and of the last call
	whole := func() {
		if len(calls) > 0 {
			calls[len(calls)-1].Arguments = string(arguments)
		}
		arguments = arguments[:0]
	}
	finished := false
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok || string(data) == "[DONE]" {
			continue
		}
		var chunk wireChunk
		if err := json.Unmarshal(data, &chunk); err != nil {
			return nil, "", err
		}
		for _, c := range chunk.Choices {
			finished = finished || c.FinishReason != ""
			said = append(said, c.Delta.Content...)
			for _, call := range c.Delta.ToolCalls {
				if call.Index == len(calls) {
					whole()
					calls = append(calls, turn.Call{ID: call.ID, Tool: call.Function.Name})
				}
				arguments = append(arguments, call.Function.Arguments...)
			}
		}
	}
	whole()
	if err := lines.Err(); err != nil || !finished {
		return nil, "", fmt.Errorf("the answer was cut: %w", err)
	}
	return calls, string(said), nil
}

// wireMessages is the conversation as the API has it.
func wireMessages(history []message) (out []wireMessage) {
	var calls []turn.Call // that the results answer
	for _, m := range history {
		w := wireMessage{Role: m.Role, Content: m.Text}
		for i, text := range m.Results {
			out = append(out, wireMessage{Role: m.Role, Content: text, ToolCallID: calls[i].ID})
		}
		if m.Results != nil {
			continue
		}
		for i, c := range m.Calls {
			w.ToolCalls = append(w.ToolCalls, wireCall{Index: i, ID: c.ID, Type: "function", Function: wireFunction{Name: c.Tool, Arguments: c.Arguments}})
		}
		out, calls = append(out, w), m.Calls
	}
	return out
}
