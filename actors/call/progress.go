package call

import (
	"sync"

	"github.com/troupe-dev/troupe/internal/clip"
)

// maxProgress bounds the reports that wait for a slow OnProgress, and maxText the
// message of each, in bytes: the peer must not fill the memory with them (ROB-3).
const (
	maxProgress = 64
	maxText     = 1 << 10
)

// progressQueue holds reports between the connection and the caller's goroutine.
// A nil queue is always empty.
type progressQueue struct {
	signal chan struct{} // has room for one

	mu    sync.Mutex
	items []Progress
}

func newProgressQueue(req *Request) *progressQueue {
	if req.OnProgress == nil {
		return nil
	}
	return &progressQueue{signal: make(chan struct{}, 1)}
}

func (q *progressQueue) push(p Progress) {
	if q == nil {
		return
	}
	p.Message = clip.Text(p.Message, maxText)
	q.mu.Lock()
	if len(q.items) == maxProgress {
		q.items = append(q.items[:0], q.items[1:]...)
	}
	q.items = append(q.items, p)
	q.mu.Unlock()
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

func (q *progressQueue) more() <-chan struct{} {
	if q == nil {
		return nil
	}
	return q.signal
}

func (q *progressQueue) drain(req *Request) {
	if q == nil {
		return
	}
	q.mu.Lock()
	items := q.items
	q.items = nil
	q.mu.Unlock()
	for _, p := range items {
		req.OnProgress(p)
	}
}
