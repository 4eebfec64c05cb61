package mcpserver

import (
	"sync"

	"github.com/troupe-dev/troupe/mcp"
)

// maxBatch bounds the messages of a batch.
const maxBatch = 100

// batch gathers the answers to an array of messages (BASE-20, BASE-22).
type batch struct {
	session *session

	mu   sync.Mutex
	left int // answers that are to come, and one until the array is read
	out  []byte
}

// startBatch handles an array of messages, each on its own.
func (s *session) startBatch(data []byte, r *reader) {
	if h := s.legacy.Load(); h == nil || !h.version.Has(mcp.FeatureBatch) { // BASE-23
		s.fail(r, nil, mcp.ID{}, mcp.Errorf(mcp.CodeInvalidRequest, "this revision has no batches"))
		return
	}
	b := &batch{session: s, left: 1, out: []byte{'['}}
	err := mcp.ScanBatch(data, maxBatch, func(raw []byte) error {
		s.message(raw, r, b)
		return nil
	})
	if err != nil {
		s.fail(r, nil, mcp.ID{}, err)
		return
	}
	b.done()
}

// expect counts an answer that comes later.
func (b *batch) expect() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left++
}

// add takes one answer.
func (b *batch) add(frame []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.out) > 1 {
		b.out = append(b.out, ',')
	}
	b.out = append(b.out, frame...)
}

// done counts one answer off, and writes them all after the last: nothing if
// there are none.
func (b *batch) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left--; b.left == 0 && len(b.out) > 1 {
		b.session.write(append(b.out, ']'))
	}
}
