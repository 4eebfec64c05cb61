package mcpclient

import (
	"bytes"
	"sync/atomic"
)

// maxHeld bounds what the open questions of a server take of memory (ROB-3): each is
// kept as it came, decoded, and shown. One message of any size has room.
const maxHeld = 5 << 20

// held counts that.
type held struct{ n atomic.Int64 }

// take reports whether there is room for n more, which are then to be given back.
func (h *held) take(n int64) bool {
	if h.n.Add(n) > maxHeld {
		h.n.Add(-n)
		return false
	}
	return true
}

func (h *held) give(n int64) { h.n.Add(-n) }

// weight estimates what a question takes: its text, and what each object is beside it
// once it is decoded.
func weight(raw []byte) int64 {
	const object = 128
	return int64(len(raw)) + object*int64(bytes.Count(raw, []byte{'{'}))
}
