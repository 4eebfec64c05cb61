package pipe

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
)

// Input is what one goroutine at a time reads: the owner of its lease.
type Input struct {
	Lease
	Hosts atomic.Bool // a handler that may ask runs on the goroutine that reads, or that has read: see Host

	source Source
	left   *unread // by the owner before; nil for nothing
	recall *recall // nil if no read can be recalled
}

// unread is what [Source].Next has returned.
type unread struct {
	frame []byte
	err   error
}

// Init sets the source, and the function that reads it on another goroutine.
func (in *Input) Init(from Source, read func()) {
	in.source = from
	in.Lease.Init(read)
}

// File says that the source reads a file, and returns what ends a read that waits for the peer.
func (in *Input) File(file io.Reader) (interrupt func()) {
	if in.recall = newRecall(file); in.recall != nil {
		return in.recall.End
	}
	return func() { Interrupt(file) }
}

// Next returns a frame that is valid until the next call.
func (in *Input) Next() ([]byte, error) {
	if u := in.left; u != nil {
		in.left = nil
		return u.frame, u.err
	}
	return in.source.Next()
}

// Buffered reports whether Next will return at once.
func (in *Input) Buffered() bool { return in.source.Buffered() }

// Host reports whether a handler that may ask runs on the goroutine that reads, and reads on while it waits for an
// answer. One at a time does, and sets Hosts to false at its end: the others wait on goroutines of their own, whose
// stacks are smaller.
func (in *Input) Host() bool { return in.recall != nil && in.Hosts.CompareAndSwap(false, true) }

// ReadOn reads for a handler that waits on the owner's goroutine, which saves two changes of goroutine for each answer,
// until over reports true. What take refuses may take longer, or run a handler: another goroutine handles it, and reads
// from then on. Then lost is true. So it is at the end of the source.
func (in *Input) ReadOn(over func() bool, take func(frame []byte) bool) (lost bool) {
	for {
		in.recall.enter()
		if over() {
			in.recall.leave()
			return false
		}
		frame, err := in.Next()
		if recalled := in.recall.leave(); recalled && errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if err != nil || !take(frame) {
			in.left = &unread{frame, err}
			in.take()
			return true
		}
	}
}

// LookAgain has a ReadOn that waits call over. It does not block, and may be called from any goroutine.
func (in *Input) LookAgain() { in.recall.call() }
