package auth

import (
	"net/http"

	"github.com/troupe-dev/troupe/mcpclient"
)

// WithClient has the authorizer of o ask c in place of the network, so that a test may run in
// a synctest bubble.
func WithClient(o Options, c *http.Client) Options {
	o.client = c
	return o
}

// Awaits reports the message of a request that waits for a login.
func Awaits(msg any) bool {
	_, ok := msg.(*awaits)
	return ok
}

// Bounds that tests hold the package to.
const (
	MaxLogins   = maxLogins
	LoginWindow = loginWindow
)

// ClientFor is what asks the authorization servers of an MCP server.
func ClientFor(a *Authorizer, endpoint string, cfg *mcpclient.OAuth) (*http.Client, error) {
	return a.client(endpoint, cfg)
}
