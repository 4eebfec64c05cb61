package mcpserver

import (
	"net"
	"net/http"
	"sync"
)

// loads count what the large requests of each HTTP client take, from the reading of
// their bodies until they are answered: many connections of one client would fill the
// memory with what each alone may send (ROB-3).
type loads struct {
	mu sync.Mutex
	by map[string]int64 // bytes, by the client; nothing of those that have no large request
}

// maxLoad bounds the bodies of one client, in bytes. What is made of them is a few times
// as large. One request is never too much.
const maxLoad = 12 << 20

// add counts n bytes more of a request that has own counted already, unless that is too
// much for its client.
func (l *loads) add(who string, own, n int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	has := l.by[who]
	if has > own && has+n > maxLoad {
		return false
	}
	if l.by == nil {
		l.by = make(map[string]int64)
	}
	l.by[who] = has + n
	return true
}

func (l *loads) sub(who string, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by[who] -= n; l.by[who] <= 0 {
		delete(l.by, who)
	}
}

// sender is what the requests of a client are counted by: its principal, or else where
// it comes from.
func sender(r *http.Request, p *Principal) string {
	if id := p.id(); id != "" {
		return "principal " + id
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return "address " + host
}
