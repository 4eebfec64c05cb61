package web

import (
	"net"
	"net/http"
	"sync"
)

// clientBytes counts the bytes of the large requests of each client, from the reading of
// their bodies until their answers: with many connections one client could fill the
// memory although each request is bounded (ROB-3).
type clientBytes struct {
	mu sync.Mutex       // guards by, of goroutines of net/http, which no actor may delay
	by map[string]int64 // by the client; without those that have no large request
}

// maxClientBytes bounds the bodies of one client, in bytes. Decoded they take a few times
// as much. A single request is always accepted.
const maxClientBytes = 12 << 20

// add counts n bytes more of a request with own counted bytes, unless they exceed the
// bound of its client.
func (c *clientBytes) add(client string, own, n int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	has := c.by[client]
	if has > own && has+n > maxClientBytes {
		return false
	}
	if c.by == nil {
		c.by = make(map[string]int64)
	}
	c.by[client] = has + n
	return true
}

func (c *clientBytes) sub(client string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by[client] -= n; c.by[client] <= 0 {
		delete(c.by, client)
	}
}

// largeBody is the share of one request. Its zero value counts nothing.
type largeBody struct {
	in     *clientBytes
	client string
	n      int64
}

// grow counts n bytes more, unless they exceed the bound of the client: its principal, or
// else its address.
func (l *largeBody) grow(in *clientBytes, r *http.Request, from Sender, n int64) bool {
	if l.in == nil {
		l.in, l.client = in, clientOf(r, from)
	}
	if !in.add(l.client, l.n, n) {
		return false
	}
	l.n += n
	return true
}

func (l *largeBody) release() {
	if l.n > 0 {
		l.in.sub(l.client, l.n)
	}
	*l = largeBody{}
}

func clientOf(r *http.Request, from Sender) string {
	if from.ID != "" {
		return "principal " + from.ID
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return "address " + host
}
