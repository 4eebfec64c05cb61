package web

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// bodies are the bodies of requests that are being read, and the large ones of those that have
// no answer yet.
//
// One clock ends the reading of those that take too long (ROB-8): a deadline of the connection
// would cost each request more, and most bodies are complete before the clock ticks. The bytes
// of the large ones are counted for each client: with many connections one client could fill
// the memory although each request is bounded (ROB-3).
type bodies struct {
	mu    sync.Mutex  // guards the fields below, of goroutines of net/http, which no actor may delay
	clock *time.Timer // runs while the list has elements
	first *slowBody
	runs  bool
	bytes map[string]int64 // by the client; without those that have no large request
}

// slowBody is one body being read: an element of the list.
type slowBody struct {
	next, prev *slowBody
	w          http.ResponseWriter
	ticks      int
	late       bool // its reading was ended
}

// A body is ended at the fourth tick: after 30 to 40 s.
const (
	bodyTick  = 10 * time.Second
	bodyTicks = 4
)

func (l *bodies) watch(b *slowBody, w http.ResponseWriter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*b = slowBody{w: w, next: l.first}
	if l.first != nil {
		l.first.prev = b
	}
	l.first = b
	if l.runs {
		return
	}
	l.runs = true
	if l.clock == nil {
		l.clock = time.AfterFunc(bodyTick, l.tick)
		return
	}
	l.clock.Reset(bodyTick)
}

// done reports whether the reading was ended.
func (l *bodies) done(b *slowBody) (late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.prev != nil {
		b.prev.next = b.next
	} else {
		l.first = b.next
	}
	if b.next != nil {
		b.next.prev = b.prev
	}
	late = b.late
	*b = slowBody{}
	return late
}

func (l *bodies) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs = l.first != nil
	for b := l.first; b != nil; b = b.next {
		if b.ticks++; b.ticks == bodyTicks {
			b.late = true
			// Without deadlines the server's own timeouts hold.
			_ = http.NewResponseController(b.w).SetReadDeadline(time.Unix(1, 0))
		}
	}
	if l.runs {
		l.clock.Reset(bodyTick)
	}
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
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return "address " + host
}
