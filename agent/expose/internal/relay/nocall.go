// nocall.go: messages to the client that belong to no call.

package relay

import (
	"context"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// reachable returns an operation whose call waits and can carry a message that belongs to no
// call; nil if there is none. A shared client has one only if it has no other operation.
func (c *Client) reachable() *Operation {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Shared && len(c.running) > 1 {
		return nil
	}
	for op := range c.running {
		if op.ctx.Err() == nil && op.call != nil {
			return op
		}
	}
	return nil
}

func (c *Client) legacyPeer() *mcpserver.Peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peer
}

// Log sends a log message that belongs to no known call: with a call that waits, if there is
// one, else on its own to a legacy client.
func (c *Client) Log(level mcp.LogLevel, logger string, data any) {
	if op := c.reachable(); op != nil {
		op.Log(level, logger, data)
	} else if peer := c.legacyPeer(); peer != nil {
		peer.Log(level, logger, data)
	}
}

// Sample implements [mcpclient.Sampler] for requests that belong to no call: the client can
// be asked during a call only.
func (c *Client) Sample(ctx context.Context, req *mcpclient.SampleRequest) (*mcp.CreateMessageResult, error) {
	if op := c.reachable(); op != nil {
		return op.Sample(ctx, req)
	}
	return nil, mcp.ErrUserRejected
}

// Roots returns the client's roots: its answer if it can be asked now, else its last one.
func (c *Client) Roots(ctx context.Context) ([]mcp.Root, error) {
	if peer := c.legacyPeer(); peer != nil && peer.Client().Version.Era() == mcp.EraLegacy {
		roots, err := peer.Roots(ctx)
		if err == nil {
			c.keepRoots(roots)
		}
		return roots, err
	}
	if op := c.reachable(); op != nil {
		roots, err := op.Roots(ctx)
		if err == nil || op.ctx.Err() == nil || ctx.Err() != nil {
			return roots, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rootsOwed = c.roots == nil
	return c.roots, nil
}

// AskOwedRoots asks for the roots that a backend wanted while the client could not be asked,
// and has the backends ask again. Only runs use it: a call of the gateway asks nothing that
// its own backend does not ask.
func (c *Client) AskOwedRoots(op *Operation) {
	c.mu.Lock()
	owed := c.rootsOwed
	c.rootsOwed = false
	c.mu.Unlock()
	if !owed {
		return
	}
	c.ops.System.Go("expose", func() {
		if _, err := op.Roots(op.ctx); err == nil {
			c.session.RootsChanged()
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.rootsOwed = c.roots == nil // the next call may last longer
	})
}
