package mcpserver

import (
	"context"

	"github.com/troupe-dev/troupe/mcp"
)

// Roots asks for the places that the client lets the server know of. They are
// guidance, not a sandbox (ROOT-05).
func (q *Request) Roots(ctx context.Context, key string) ([]mcp.Root, error) {
	one := RootsQuestion(key)
	err := q.ask(ctx, one)
	return one.Roots, err
}
