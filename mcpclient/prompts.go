package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/capability"
	"github.com/troupe-dev/troupe/mcpclient/internal/lists"
)

// ListPrompts returns the server's prompts, all pages of them. What is kept, and
// for how long, is as with [Client.ListTools].
func (c *Client) ListPrompts(ctx context.Context) ([]mcp.Prompt, error) {
	return listOf(ctx, c, promptLists)
}

// GetPrompt gets a prompt with its arguments filled in. Their values are strings.
// What it returns is the server's text and may try to lead a model astray: a
// program shows it to its user before it uses it.
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

// completionLife is how long a completion is kept, so that deleting a character and
// typing it again costs nothing (CMP-04).
const completionLife = 10 * time.Second

// Complete asks for the values that an argument of a prompt or a resource template may
// have. Arguments that were chosen already belong into params.Context; servers before
// 2025-06-18 do not get it. At most 100 values are kept, the best. A server that does
// not complete is [ErrUnsupported]; for one of 2024-11-05, which cannot say so
// beforehand, that is found out by asking. Answers are kept for 10 s; a program that
// asks at each key still has to wait for a pause in the typing.
func (c *Client) Complete(ctx context.Context, params *mcp.CompleteParams) (*mcp.Completion, error) {
	if params == nil {
		params = new(mcp.CompleteParams)
	}
	if err := params.Validate(); err != nil {
		return nil, c.failed(mcp.MethodComplete, err)
	}
	if err := c.requests.require(ctx, mcp.MethodComplete); err != nil {
		return nil, err
	}
	info := c.info.Load()
	if !capability.Completes(info.Version, &info.Capabilities) {
		return nil, c.failed(mcp.MethodComplete, &UnsupportedError{Method: mcp.MethodComplete, Capability: "prompts or resources", Version: info.Version})
	}
	req, err := c.requests.request(mcp.MethodComplete, capability.CompleteParams(params, info.Version), nil)
	if err != nil {
		return nil, c.failed(mcp.MethodComplete, err)
	}
	req.Safe = true
	principal, key := c.principal(), string(req.Params)
	kept, ok, epoch := c.cache.Others().Completions.Get(key, principal)
	if ok {
		return kept, nil
	}
	raw, err := c.requests.do(ctx, req, nil)
	if errors.Is(err, mcp.ErrMethodNotFound) { // CMP-03
		return nil, c.failed(mcp.MethodComplete, &UnsupportedError{Method: mcp.MethodComplete, Capability: "completions", Version: info.Version})
	}
	if err != nil {
		return nil, err
	}
	res := new(mcp.CompleteResult)
	if err := jsonx.Unmarshal(raw, res); err != nil {
		return nil, c.failed(mcp.MethodComplete, &call.ResponseError{Method: mcp.MethodComplete, Err: err})
	}
	found := &res.Completion // without values it is an answer all the same (CMP-04)
	if len(found.Values) > mcp.MaxCompletions {
		found.Values, found.HasMore = found.Values[:mcp.MaxCompletions:mcp.MaxCompletions], true
	}
	f := lists.Freshness{Until: time.Now().Add(completionLife), Private: true, Principal: principal}
	c.cache.Others().Completions.Put(key, found, len(raw), f, epoch)
	return found, nil
}
