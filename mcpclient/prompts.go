package mcpclient

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// ListPrompts returns the server's prompts, all pages of them. What is kept, and
// for how long, is as with [Client.ListTools].
func (c *Client) ListPrompts(ctx context.Context) ([]mcp.Prompt, error) {
	return listOf(ctx, c, promptLists)
}

// GetPrompt gets a prompt with its arguments filled in. Their values are strings
// (PRM-02). What it returns is the server's text and may try to lead a model astray
// (PRM-06): a program shows it to its user before it uses it.
func (c *Client) GetPrompt(ctx context.Context, name string, args map[string]string, opts *CallOptions) (*mcp.GetPromptResult, error) {
	if err := c.requests.require(ctx, mcp.MethodGetPrompt); err != nil {
		return nil, err
	}
	params := &mcp.GetPromptParams{Name: name, Arguments: args}
	if err := params.Validate(); err != nil {
		return nil, c.failed(mcp.MethodGetPrompt, err)
	}
	req, err := c.requests.request(mcp.MethodGetPrompt, params, opts)
	if err != nil {
		return nil, c.failed(mcp.MethodGetPrompt, fmt.Errorf("writing the arguments: %w", err))
	}
	req.Name = name
	raw, err := c.requests.do(ctx, req, opts)
	if err != nil {
		return nil, err
	}
	res := new(mcp.GetPromptResult)
	if err := decode(raw, res); err != nil {
		return nil, c.failed(mcp.MethodGetPrompt, &call.ResponseError{Method: mcp.MethodGetPrompt, Err: err})
	}
	return res, nil
}
