package openai

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/sashabaranov/go-openai"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/rest"
	"github.com/troupe-dev/troupe/mcp"
)

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

// answerName is how the schema of an answer is called.
const answerName = "answer"

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
