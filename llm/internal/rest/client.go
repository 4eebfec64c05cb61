package rest

import (
	"cmp"
	"net/http"
	"sync"
)

// Client returns a copy of c that follows no redirects: what we send is meant for one server, key and
// conversation alike. Without c, or a Transport of it, requests share the connections of this package.
func Client(c *http.Client) *http.Client {
	own := *cmp.Or(c, new(http.Client))
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if own.Transport == nil {
		own.Transport = transport()
	}
	return &own
}

// idlePerHost is how many connections to one server are kept for the next requests. The default
// transport keeps two: of many requests at once most would open a connection of their own, with a
// handshake each.
const idlePerHost = 128

// transport is the default one as the program has set it, with room for more idle connections.
var transport = sync.OnceValue(func() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = max(t.MaxIdleConns, 2*idlePerHost), max(t.MaxIdleConnsPerHost, idlePerHost)
	return t
})
