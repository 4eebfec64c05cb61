package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/gathering"
	"github.com/troupe-dev/troupe/mcpclient/internal/lists"
	"github.com/troupe-dev/troupe/mcpclient/internal/login"
)

// ListTools returns the server's tools, all pages of them, in the server's order.
// The list is kept until the server says that it has changed, until it expires, or
// until the server was connected to anew. If it cannot be read anew for want of a
// connection, one that expired less than 10 minutes ago is returned, which is
// logged. The caller must not change it. Of a tool that is not valid, or comes
// twice, there is a log entry and no more.
func (c *Client) ListTools(ctx context.Context) ([]mcp.Tool, error) {
	return listOf(ctx, c, toolLists)
}

// relistAge is how old a list must be for an unexpected refusal to make it stale:
// a caller that keeps on sending nonsense must not make us list all the time.
const relistAge = 10 * time.Second

// suspectTools is told that a tool that should be there is refused: perhaps it is
// gone (TOOL-13, CACHE-06).
func (c toolCalls) suspectTools() {
	if c.cache.Tools.OlderThan(relistAge) {
		c.cache.Tools.Invalidate()
		c.cache.Tools.Notify()
	}
}

// listOf is readList for a caller that can do with a list that is out of date.
func listOf[T any](ctx context.Context, c *Client, k listKind[T]) ([]T, error) {
	items, err := readList(ctx, c, k)
	err = login.Until(ctx, err, func() (err error) {
		items, err = readList(ctx, c, k)
		return err
	})
	if err != nil && items != nil {
		c.log.Warn("a list is out of date: it cannot be read anew", "list", k.list(c).What, "stale", true, "error", err)
		return items, nil
	}
	return items, err
}

// listSource is a client as its lists see it.
type listSource Client

// Fetch implements [lists.Source], as all other methods do.
func (s *listSource) Fetch(ctx context.Context, method string, params []byte) (json.RawMessage, error) {
	return (*Client)(s).requests.do(ctx, &call.Request{Method: method, Params: params, Safe: true}, &CallOptions{listed: true})
}

func (s *listSource) Invalid(method string, err error) error {
	return (*Client)(s).failed(method, &call.ResponseError{Method: method, Err: err})
}

func (s *listSource) Closed() error               { return ErrClosed }
func (s *listSource) Era() mcp.Era                { return (*Client)(s).era() }
func (s *listSource) Principal() string           { return (*Client)(s).principal() }
func (s *listSource) Go(what string, f func())    { s.sys.Go(what+" of "+s.server.Name, f) }
func (s *listSource) Notify(f func())             { (*Client)(s).events().Add(f) }
func (s *listSource) Log() *slog.Logger           { return s.log }
func (s *listSource) CheckTool(t *mcp.Tool) error { return (*Client)(s).tools.checkTool(t) }
func (s *listSource) Allows(tool string) bool     { return s.server.allows(tool) }

// listKind says where the lists of one kind are: with the client and in the host.
type listKind[T any] struct {
	name     string
	list     func(*Client) *lists.List[T]
	last     func(*entry) *gathering.Last[T]
	declared func(*mcp.ServerCapabilities) bool
}

var (
	toolLists = listKind[mcp.Tool]{
		name:     "tools",
		list:     func(c *Client) *lists.List[mcp.Tool] { return &c.cache.Tools },
		last:     func(e *entry) *gathering.Last[mcp.Tool] { return &e.tools },
		declared: func(c *mcp.ServerCapabilities) bool { return c.Tools != nil },
	}
	resourceLists = listKind[mcp.Resource]{
		name:     "resources",
		list:     func(c *Client) *lists.List[mcp.Resource] { return &c.cache.Others().Resources },
		last:     func(e *entry) *gathering.Last[mcp.Resource] { return &e.resources },
		declared: func(c *mcp.ServerCapabilities) bool { return c.Resources != nil },
	}
	templateLists = listKind[mcp.ResourceTemplate]{
		name:     "resource templates",
		list:     func(c *Client) *lists.List[mcp.ResourceTemplate] { return &c.cache.Others().Templates },
		last:     func(e *entry) *gathering.Last[mcp.ResourceTemplate] { return &e.templates },
		declared: func(c *mcp.ServerCapabilities) bool { return c.Resources != nil },
	}
	promptLists = listKind[mcp.Prompt]{
		name:     "prompts",
		list:     func(c *Client) *lists.List[mcp.Prompt] { return &c.cache.Others().Prompts },
		last:     func(e *entry) *gathering.Last[mcp.Prompt] { return &e.prompts },
		declared: func(c *mcp.ServerCapabilities) bool { return c.Prompts != nil },
	}
	skillLists = listKind[mcp.Skill]{
		name: "skills",
		list: func(c *Client) *lists.List[mcp.Skill] { return &c.cache.Others().Skills },
		last: func(e *entry) *gathering.Last[mcp.Skill] { return &e.skills },
		declared: func(c *mcp.ServerCapabilities) bool {
			_, ok := c.Extension(mcp.ExtensionSkills)
			return ok
		},
	}
)

// readList returns a list of a server; one that the server does not have is empty.
func readList[T any](ctx context.Context, c *Client, k listKind[T]) ([]T, error) {
	info, err := c.Info(ctx)
	if err != nil || !k.declared(&info.Capabilities) {
		return nil, err
	}
	l := k.list(c)
	c.changes.wantFresh(l.Method)
	items, err := l.Get(ctx)
	if err != nil && errors.Is(err, mcp.ErrMethodNotFound) && l.Method == mcp.MethodListResourceTemplates {
		return nil, nil // servers with resources and without templates forget it
	}
	return items, err
}
