package web

import (
	"net/http"
	"sync"
	"time"
)

// slowBodies ends the reading of bodies that take too long (ROB-8). A deadline of the
// connection would cost each request more: one clock checks all bodies that are being read,
// and most are complete before it ticks.
type slowBodies struct {
	mu    sync.Mutex  // guards the list, of goroutines of net/http, which no actor may delay
	clock *time.Timer // runs while the list has elements
	first *slowBody
	runs  bool
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

func (l *slowBodies) watch(b *slowBody, w http.ResponseWriter) {
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
func (l *slowBodies) done(b *slowBody) (late bool) {
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

func (l *slowBodies) tick() {
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
