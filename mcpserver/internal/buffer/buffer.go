// Package buffer keeps byte slices that answers were encoded in, for the next answer, and bounds what requests keep.
package buffer

import "sync"

var pool = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}

// maxKept bounds the capacity of a slice that is kept, in bytes. The garbage collector
// takes slices that nothing needs.
const maxKept = 256 << 10

// Take returns a slice to build a frame in, from its beginning.
func Take() *[]byte { return pool.Get().(*[]byte) }

// Give gives back a slice that [Take] has returned, once frame, which was built in it,
// is not needed any more.
func Give(b *[]byte, frame []byte) {
	if cap(frame) <= maxKept {
		*b = frame
		pool.Put(b)
	}
}
