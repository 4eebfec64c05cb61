package mcpclient

import (
	"context"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// ListTools returns the server's tools, all pages of them, in the server's order.
// The list is kept until the server says that it has changed, until it expires
// (CACHE-02), or until the server was connected to anew. If it cannot be read anew
// for want of a connection, one that expired less than 10 minutes ago is returned,
// which is logged. The caller must not change it. Of a tool that is not valid, or
// comes twice, there is a log entry and no more.
func (c *Client) ListTools(ctx context.Context) ([]mcp.Tool, error) {
	return listOf(ctx, c, toolShelves)
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
