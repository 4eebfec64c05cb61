// Package port says where the messages of a request go.
package port

import (
	"sync"

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

	mu   sync.Mutex // guards left and out: the goroutines of the requests append their answers, each for an instant, and none waits for the others
	left int        // answers that are to come, and one until the array is read
	out  []byte
}

// NewBatch returns a batch whose answers go to a port. It ends with a Drop once all of the array
// is read.
func NewBatch(to Port) *Batch { return &Batch{to: to, left: 1, out: []byte{'['}} }

// Expect counts an answer that comes later.
func (b *Batch) Expect() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left++
}

// Notify implements [Port].
func (b *Batch) Notify(frame []byte) { b.to.Notify(frame) }

// Respond implements [Port]: it takes one answer.
func (b *Batch) Respond(frame []byte, _ *mcp.Error) {
	b.mu.Lock()
	if len(b.out) > 1 {
		b.out = append(b.out, ',')
	}
	b.out = append(b.out, frame...)
	b.mu.Unlock()
	b.Drop()
}

// Drop implements [Port]: it counts one answer off, and writes them all after the last:
// nothing if there are none.
func (b *Batch) Drop() {
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
