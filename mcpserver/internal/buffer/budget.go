package buffer

import "sync/atomic"

// Budget bounds the bytes that calls under way keep. A single call is always accepted.
type Budget struct {
	Most int64 // is set before the first call
	held atomic.Int64
}

// Hold counts the bytes that a call keeps, and reports false if there are too many.
func (b *Budget) Hold(cost int64) bool {
	if held := b.held.Add(cost); held > b.Most && held > cost {
		b.held.Add(-cost)
		return false
	}
	return true
}

// Release counts the bytes of a call off.
func (b *Budget) Release(cost int64) { b.held.Add(-cost) }

// Keep replaces the parts of a frame with copies, in one piece of memory.
func Keep(parts ...*[]byte) {
	size := 0
	for _, part := range parts {
		size += len(*part)
	}
	own := make([]byte, 0, size)
	for _, part := range parts {
		if *part != nil {
			n := len(own)
			own = append(own, *part...)
			*part = own[n:len(own):len(own)]
		}
	}
}
