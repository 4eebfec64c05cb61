package mcpclient

import (
	"context"
	"net/http"
	"net/url"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
	"github.com/troupe-dev/troupe/mcpclient/internal/oldsse"
)

// dialSSE connects by the old transport and waits for its endpoint (SSE-02).
func (c *Client) dialSSE(ctx context.Context, u *url.URL, header http.Header, auth httpguard.Auth, client *http.Client, sink mcp.CallSink) (mcp.Link, error) {
	c.web.link.Store(nil)
	link, err := oldsse.Dial(ctx, oldsse.Options{
		URL: u, Header: header, Client: client, Go: c.sys.Go, Name: c.server.Name, Log: c.log, Sink: sink, Denied: denied,
		MaxMessage: c.server.maxMessage(), TooLong: c.server.tooLong, Auth: auth,
	})
	if err = c.dialed(err); err != nil {
		return nil, err
	}
	return newPooled(link, client), nil
}

// oldTransport reports whether the server is to be reached, or was, by HTTP+SSE.
func (c *Client) oldTransport() bool {
	return c.server.Transport == TransportSSE || c.web.refused() != nil || c.opts.eras.get(c.server.sseKey()) == mcp.EraLegacy
}
