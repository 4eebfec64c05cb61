package asks

import (
	"bytes"
	"sync/atomic"
)

// MaxMemory bounds what the open questions of a server take of memory (ROB-3): each is
// kept as it came, decoded, and shown. One message of any size has room.
const MaxMemory = 5 << 20

// memory counts that.
type memory struct{ n atomic.Int64 }

// take reports whether there is room for n more, which are then to be given back.
func (h *memory) take(n int64) bool {
	if h.n.Add(n) > MaxMemory {
		h.n.Add(-n)
		return false
	}
	return true
}

func (h *memory) give(n int64) { h.n.Add(-n) }

// weight estimates what a question takes: its text, and what each object is beside it
// once it is decoded.
func weight(raw []byte) int64 {
	const object = 128
	return int64(len(raw)) + object*int64(bytes.Count(raw, []byte{'{'}))
}
