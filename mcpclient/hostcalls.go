package mcpclient

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/troupe-dev/troupe/mcp"
)

// Call calls a tool of the catalogue by its qualified name. Errors are as in
// [Client.CallTool]; a name that is not in the catalogue is [ErrUnknownTool].
func (h *Host) Call(ctx context.Context, name string, args json.RawMessage, opts *CallOptions) (*mcp.CallToolResult, error) {
	c, tool, err := h.toCall(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	return c.CallTool(ctx, tool.Tool.Name, args, h.unchanging(tool, opts))
}

// Start is [Host.Call] for a caller that does not wait; see [Client.StartTool].
func (h *Host) Start(ctx context.Context, name string, args json.RawMessage, opts *CallOptions) *ToolCall {
	t := new(ToolCall)
	t.begin(ctx, args, func() (*Client, string, *CallOptions, error) {
		c, tool, err := h.toCall(ctx, name, opts)
		if err != nil {
			return nil, "", nil, err
		}
		return c, tool.Tool.Name, h.unchanging(tool, opts), nil
	})
	return t
}

// Task returns the handle of a task that a call of a tool with these options has become, in
// whatever process: see [Client.Task]. The server's questions go where those of the call would.
func (h *Host) Task(ctx context.Context, name, id string, opts *CallOptions) (*Task, error) {
	c, tool, err := h.toCall(ctx, name, opts)
	if err == nil {
		_, err = c.Task(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	return c.changes.task(id, tool.Tool.Name, opts)
}

// toCall finds a tool of the catalogue that may be called, and its server's client.
func (h *Host) toCall(ctx context.Context, name string, opts *CallOptions) (*Client, *Tool, error) {
	tool := h.catalogue().find(name)
	if tool == nil {
		if _, err := h.Tools(ctx); err != nil {
			return nil, nil, err
		}
		if tool = h.catalogue().find(name); tool == nil {
			return nil, nil, fmt.Errorf("%w: %q", ErrUnknownTool, name)
		}
	}
	c, err := h.Client(tool.Server)
	if err != nil {
		return nil, nil, err
	}
	if err := h.checkPin(ctx, tool, opts); err != nil {
		return nil, nil, &notSentError{err}
	}
	return c, tool, nil
}

// unchanging returns the options of a call that is written only as long as its tool is not known to be another
// one than was checked: it may wait long for a connection or an instance of its server.
func (h *Host) unchanging(tool *Tool, opts *CallOptions) *CallOptions {
	o := *cmp.Or(opts, &noOptions)
	o.unchanged = func() error {
		if now := h.catalogue().own(tool.Server, tool.Tool.Name); now != nil && now.Hash != tool.Hash {
			return &ToolChangedError{Server: tool.Server, Tool: tool.Tool.Name, Pinned: tool.Hash, Hash: now.Hash, Before: &tool.Tool, Now: &now.Tool}
		}
		return nil
	}
	return &o
}

// ReadResource reads a resource of a server; see [Client.ReadResource].
func (h *Host) ReadResource(ctx context.Context, server, uri string, opts *CallOptions) (*mcp.ReadResourceResult, error) {
	return at(h, server, func(c *Client) (*mcp.ReadResourceResult, error) { return c.ReadResource(ctx, uri, opts) })
}

// GetPrompt gets a prompt of a server; see [Client.GetPrompt].
func (h *Host) GetPrompt(ctx context.Context, server, name string, args map[string]string, opts *CallOptions) (*mcp.GetPromptResult, error) {
	return at(h, server, func(c *Client) (*mcp.GetPromptResult, error) { return c.GetPrompt(ctx, name, args, opts) })
}

// Complete asks a server for completions; see [Client.Complete].
func (h *Host) Complete(ctx context.Context, server string, params *mcp.CompleteParams) (*mcp.Completion, error) {
	return at(h, server, func(c *Client) (*mcp.Completion, error) { return c.Complete(ctx, params) })
}

// GetSkill returns the entry of a skill of a server; see [Client.GetSkill].
func (h *Host) GetSkill(ctx context.Context, server, uri string) (*mcp.Skill, error) {
	return at(h, server, func(c *Client) (*mcp.Skill, error) { return c.GetSkill(ctx, uri) })
}

// LoadSkill loads a skill from the server that its entry came from; see
// [Client.LoadSkill].
func (h *Host) LoadSkill(ctx context.Context, skill *Skill) (*LoadedSkill, error) {
	return at(h, skill.Server, func(c *Client) (*LoadedSkill, error) { return c.LoadSkill(ctx, &skill.Skill) })
}

// at calls f with the client of a server.
func at[T any](h *Host, server string, f func(*Client) (*T, error)) (*T, error) {
	c, err := h.Client(server)
	if err != nil {
		return nil, err
	}
	return f(c)
}
