package web

import (
	"net/http"
	"sync"

	"github.com/troupe-dev/troupe/internal/webserver"
)

// bodies are the large bodies of requests that have no answer yet. Their bytes are counted for each
// client: with many connections one client could fill the memory although each request is bounded
// (ROB-3).
type bodies struct {
	mu    sync.Mutex       // guards the field below, of goroutines of net/http, which no actor may delay
	bytes map[string]int64 // by the client; without those that have no large request
}

// maxClientBytes bounds the bodies of one client, in bytes. Decoded they take a few times
// as much. A single request is always accepted.
const maxClientBytes = 12 << 20

// add counts n bytes more of a request with own counted bytes, unless they exceed the
// bound of its client.
func (l *bodies) add(client string, own, n int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	has := l.bytes[client]
	if has > own && has+n > maxClientBytes {
		return false
	}
	if l.bytes == nil {
		l.bytes = make(map[string]int64)
	}
	l.bytes[client] = has + n
	return true
}

func (l *bodies) sub(client string, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes[client] -= n; l.bytes[client] <= 0 {
		delete(l.bytes, client)
	}
}

// largeBody is the share of one request. Its zero value counts nothing.
type largeBody struct {
	in     *bodies
	client string
	n      int64
}

// grow counts n bytes more, unless they exceed the bound of the client: its principal, or
// else its address.
func (l *largeBody) grow(in *bodies, r *http.Request, from Sender, n int64) bool {
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
	return "address " + webserver.Source(webserver.Address(r, false))
}
