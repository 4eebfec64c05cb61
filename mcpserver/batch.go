package mcpserver

import (
	"sync"

	"github.com/troupe-dev/troupe/mcp"
)

// maxBatch bounds the messages of a batch.
const maxBatch = 100

// batch gathers the answers to an array of messages (BASE-20, BASE-22). It is the
// port of the requests in it.
type batch struct {
	to port // for all of it

	mu   sync.Mutex
	left int // answers that are to come, and one until the array is read
	out  []byte
}

// startBatch handles an array of messages, each on its own. The error is that of the
// array: none of it was handled.
func (s *session) startBatch(data []byte, to port) {
	if h := s.legacy.Load(); h == nil || !h.version.Has(mcp.FeatureBatch) { // BASE-23
		s.fail(to, mcp.ID{}, mcp.Errorf(mcp.CodeInvalidRequest, "this revision has no batches"))
		return
	}
	b := &batch{to: to, left: 1, out: []byte{'['}}
	var m mcp.Message
	err := mcp.ScanBatch(data, maxBatch, func(raw []byte) error {
		a := arrival{Message: &m, port: b}
		b.expect()
		s.message(raw, &a)
		return nil
	})
	if err != nil {
		s.fail(to, mcp.ID{}, err)
		return
	}
	b.Drop()
}

// expect counts an answer that comes later.
func (b *batch) expect() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left++
}

func (b *batch) Notify(frame []byte) { b.to.Notify(frame) }

// Respond takes one answer.
func (b *batch) Respond(frame []byte, _ *mcp.Error) {
	b.mu.Lock()
	if len(b.out) > 1 {
		b.out = append(b.out, ',')
	}
	b.out = append(b.out, frame...)
	b.mu.Unlock()
	b.Drop()
}

// Drop counts one answer off, and writes them all after the last: nothing if there
// are none.
func (b *batch) Drop() {
	b.mu.Lock()
	b.left--
	over, any := b.left == 0, len(b.out) > 1
	b.mu.Unlock()
	switch {
	case over && any:
		b.to.Respond(append(b.out, ']'), nil)
	case over:
		b.to.Drop()
	}
}
