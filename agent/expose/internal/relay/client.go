package relay

import (
	"context"
	"sync"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// maxPages bounds the open pages whose end a client is notified of.
const maxPages = 64

// Identity is the identity of a client.
type Identity struct {
	Name  string // in logs and in the actor tree
	Owner string // the ID of its principal; empty for an anonymous client
	// Shared is true if the client may be several: it has no session and no principal. Then
	// no question, log or run of one call is shown to another call (SECA-6).
	Shared bool
}

// Session is the session of a client with the front.
type Session interface {
	// PageEnded notifies the client that a page has ended.
	PageEnded(elicitationID string) error
	// RootsChanged has the backends ask for the roots again.
	RootsChanged()
	// OperationEnded notes that an operation of the client has ended.
	OperationEnded()
}

// Client is one client of a front.
type Client struct {
	Identity
	session Session
	ops     *Operations
	ctx     context.Context // ends with the session

	mu        sync.Mutex              // guards the fields below, and those of its operations: requests, backends and runs change them in passing; an actor would cost each idle client a mailbox and each log message a hop
	caps      *mcp.ClientCapabilities // nil before the first request
	fixed     bool                    // backends know caps
	peer      *mcpserver.Peer         // of a legacy client; nil for others, and before its first request
	running   map[*Operation]struct{}
	roots     []mcp.Root           // as last reported; nil before
	rootsOwed bool                 // a backend wanted the roots while the client could not be asked
	pages     map[pageKey][]string // the IDs of open pages
}

// pageKey is a page of a backend that the client's user was sent to.
type pageKey struct{ server, url string }

// NewClient returns a client whose operations are among ops. They end with ctx.
func (t *Operations) NewClient(ctx context.Context, s Session, id Identity) *Client {
	return &Client{Identity: id, session: s, ops: t, ctx: ctx, running: make(map[*Operation]struct{}), pages: make(map[pageKey][]string)}
}

// Seen records the client's capabilities and peer, as a request has them. The capabilities
// stay as they are once they were read by [Client.Capabilities].
func (c *Client) Seen(caps *mcp.ClientCapabilities, peer *mcpserver.Peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if peer != nil {
		c.peer = peer
	}
	if !c.fixed {
		c.caps = caps
	}
}

// Capabilities returns the client's capabilities, for backends.
func (c *Client) Capabilities() *mcp.ClientCapabilities {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fixed = true
	return c.caps
}

// Inbox reports whether questions that the client cannot be asked go to the inbox.
func (c *Client) Inbox() bool { return c.ops.Inbox != nil }

// Samples reports whether the client's model answers the backends.
func (c *Client) Samples() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.caps != nil && c.caps.Sampling != nil
}

// HasRoots reports whether the client has roots.
func (c *Client) HasRoots() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.caps != nil && c.caps.Roots != nil
}

// Working reports whether an operation of the client is under way.
func (c *Client) Working() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.running) > 0
}

func (c *Client) add(op *Operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[op] = struct{}{}
}

func (c *Client) remove(op *Operation) {
	c.mu.Lock()
	delete(c.running, op)
	c.mu.Unlock()
	c.session.OperationEnded()
}

func (c *Client) keepRoots(roots []mcp.Root) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roots = append([]mcp.Root{}, roots...)
}

// pageOpened records that the client's user was sent to a page of a backend.
func (c *Client) pageOpened(key pageKey, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id != "" && len(c.pages) < maxPages {
		c.pages[key] = append(c.pages[key], id)
	}
}

// PageDone notifies the client that a page has ended (URL-30).
func (c *Client) PageDone(p mcpclient.PageDone) {
	key := pageKey{p.Server, p.URL.URL}
	c.mu.Lock()
	ids := c.pages[key]
	delete(c.pages, key)
	c.mu.Unlock()
	if p.Err != nil {
		return
	}
	for _, id := range ids {
		if err := c.session.PageEnded(id); err != nil {
			c.ops.Log.Debug("a client is not notified that a page has ended", "server", p.Server, "error", err)
		}
	}
}
