// Package port says where the messages of a request go.
package port

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/troupe-dev/troupe/mcp"
)

// Port is where the messages of one request go: the pipe that it came on, the array
// it was part of, or the answer to a POST. No method blocks, and a method does
// not keep its frame. Each request ends with one answer or one drop.
type Port interface {
	// Notify sends a message of the request before its answer: a notification, or a
	// question to the client.
	Notify(frame []byte)
	// Respond sends the response. Failed is the error in it, nil for a result.
	Respond(frame []byte, failed *mcp.Error)
	// Drop reports that no response will come: the request was cancelled.
	Drop()
}

// Batch gathers the answers to an array of messages (BASE-20, BASE-22). It is the
// port of the requests in it.
type Batch struct {
	to Port // for all of it

	left atomic.Int64           // answers that are to come, and one until the array is read
	last atomic.Pointer[answer] // the newest one
}

// answer is one answer of a batch.
type answer struct {
	frame  []byte
	before *answer // nil for the first
}

// NewBatch returns a batch whose answers go to a port. It ends with a Drop once all of the array
// is read.
func NewBatch(to Port) *Batch {
	b := &Batch{to: to}
	b.left.Store(1)
	return b
}

// Expect counts an answer that comes later.
func (b *Batch) Expect() { b.left.Add(1) }

// Notify implements [Port].
func (b *Batch) Notify(frame []byte) { b.to.Notify(frame) }

// Respond implements [Port]: it takes one answer.
func (b *Batch) Respond(frame []byte, _ *mcp.Error) {
	a := &answer{frame: bytes.Clone(frame), before: b.last.Load()}
	for !b.last.CompareAndSwap(a.before, a) {
		a.before = b.last.Load()
	}
	b.Drop()
}

// Drop implements [Port]: it counts one answer off, and writes them all after the last:
// nothing if there are none.
func (b *Batch) Drop() {
	if b.left.Add(-1) > 0 {
		return
	}
	var frames [][]byte
	for a := b.last.Load(); a != nil; a = a.before {
		frames = append(frames, a.frame)
	}
	if len(frames) == 0 {
		b.to.Drop()
		return
	}
	slices.Reverse(frames)
	out := append([]byte{'['}, bytes.Join(frames, []byte{','})...)
	b.to.Respond(append(out, ']'), nil)
}
