// Package pipe reads the frames of one connection: the lines of a pipe, or the frames that a client in
// the same process sends.
package pipe

import (
	"errors"
	"io"
	"sync"

	"github.com/troupe-dev/troupe/internal/frame"
)

// Source is where frames come from: lines of a pipe, or the inbox of a link.
type Source interface {
	// Next returns a frame that is valid until the next call.
	Next() ([]byte, error)
	// Buffered reports whether Next will return at once.
	Buffered() bool
}

// ErrIdle is returned by a source that will start the reader again.
var ErrIdle = errors.New("nothing to read for now")

// Ended returns nil for the ordinary end of a source.
func Ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Inbox is the source of an in-memory link: frames are copied into it.
type Inbox struct {
	Start func() // runs the reader; set before the first Put

	mu      sync.Mutex // guards the fields below: the sender puts a frame without a switch to a goroutine or an actor of the server
	frames  [][]byte   // frames[head:] wait
	head    int
	current []byte   // what Next has returned
	free    [][]byte // for the next ones
	bytes   int      // in frames
	running bool     // the reader will look again
	closed  bool
}

const (
	// maxInbox bounds the frames that wait in an inbox, in bytes.
	maxInbox = 16 << 20
	// keepBuffer bounds the capacity of a slice that an inbox keeps for the next frame, in bytes.
	keepBuffer = 64 << 10
)

// errClosedLink is returned by a link that was closed.
var errClosedLink = errors.New("mcpserver: the link is closed")

// Put queues a copy of a frame.
func (b *Inbox) Put(data []byte) error {
	b.mu.Lock()
	switch {
	case b.closed:
		b.mu.Unlock()
		return errClosedLink
	case b.bytes+len(data) > maxInbox:
		b.mu.Unlock()
		return frame.ErrQueueFull
	}
	var room []byte
	if n := len(b.free); n > 0 {
		room, b.free = b.free[n-1], b.free[:n-1]
	}
	b.frames = append(b.frames, append(room, data...))
	b.bytes += len(data)
	start := !b.running
	b.running = true
	b.mu.Unlock()
	if start {
		b.Start()
	}
	return nil
}

// Next implements [Source].
func (b *Inbox) Next() ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if cap(b.current) > 0 && cap(b.current) <= keepBuffer && len(b.free) < 64 {
		b.free = append(b.free, b.current[:0])
	}
	b.current = nil
	if b.head == len(b.frames) {
		b.frames, b.head = b.frames[:0], 0
		b.running = false
		return nil, ErrIdle
	}
	b.current = b.frames[b.head]
	b.frames[b.head] = nil
	b.head++
	b.bytes -= len(b.current)
	if b.head >= 64 && b.head > len(b.frames)/2 { // it may never be empty
		n := copy(b.frames, b.frames[b.head:])
		clear(b.frames[n:])
		b.frames, b.head = b.frames[:n], 0
	}
	return b.current, nil
}

// Buffered implements [Source].
func (b *Inbox) Buffered() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.head < len(b.frames)
}

// Close drops the frames that wait.
func (b *Inbox) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.frames, b.head, b.bytes = true, nil, 0, 0
}
