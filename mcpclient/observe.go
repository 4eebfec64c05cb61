package mcpclient

import (
	"encoding/json"
	"slices"

	"github.com/troupe-dev/troupe/mcp"
)

// Observers see what a server sends on its own account, before anything is done with
// it, for programs that show the wire. They are called at once, on the goroutine that
// reads, in the order of what came: they must not block, and what came before an
// answer has been seen when the call returns. The parameters are the observer's.
type Observers struct {
	// OnNotification sees every notification of the server, known or not, progress
	// included. Nil sees none.
	OnNotification func(method string, params json.RawMessage)
	// OnRequest sees every request of the server, answered or refused; in 2026-07-28,
	// which has none, what a result asks for instead (MRTR-01). Nil sees none.
	OnRequest func(method string, params json.RawMessage)
}

// observeNotification is to be called for each notification of the server.
func (c *Client) observeNotification(m *mcp.Message) {
	if c.opts.OnNotification != nil {
		c.opts.OnNotification(m.Method, slices.Clone(m.Params))
	}
}

// observeRequest is to be called for each request of the server, and for each entry
// of inputRequests.
func (c *Client) observeRequest(method string, params json.RawMessage) {
	if c.opts.OnRequest != nil {
		c.opts.OnRequest(method, slices.Clone(params))
	}
}
