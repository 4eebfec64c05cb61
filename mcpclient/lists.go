package mcpclient

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// ListTools returns the server's tools, all pages of them, in the server's order.
// The list is kept until the server says that it has changed, until it expires
// (CACHE-02), or until the server was connected to anew. If it cannot be read anew
// for want of a connection, one that expired less than 10 minutes ago is returned,
// which is logged. The caller must not change it. Of a tool that is not valid, or
// comes twice, there is a log entry and no more.
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

// allows reports whether the definition lets a tool be used.
func (s *Server) allows(tool string) bool {
	return !slices.Contains(s.Deny, tool) && (s.Allow == nil || slices.Contains(s.Allow, tool))
}

// listOf is readList for a caller that can do with a list that is out of date.
func listOf[T any](ctx context.Context, c *Client, k listKind[T]) ([]T, error) {
	items, err := readList(ctx, c, k)
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
	return (*Client)(s).requests.do(ctx, &call.Request{Method: method, Params: params, Safe: true}, nil)
}

func (s *listSource) Invalid(method string, err error) error {
	return (*Client)(s).failed(method, &call.ResponseError{Method: method, Err: err})
}

func (s *listSource) Closed() error               { return ErrClosed }
func (s *listSource) Era() mcp.Era                { return (*Client)(s).era() }
func (s *listSource) Principal() string           { return (*Client)(s).principal() }
func (s *listSource) Go(what string, f func())    { s.sys.Go(what+" of "+s.server.Name, f) }
func (s *listSource) Notify(f func())             { s.events.Add(f) }
func (s *listSource) Log() *slog.Logger           { return s.log }
func (s *listSource) CheckTool(t *mcp.Tool) error { return (*Client)(s).tools.checkTool(t) }
func (s *listSource) Allows(tool string) bool     { return s.server.allows(tool) }
