package frame

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

var (
	// ErrQueueFull says that the peer does not read and the queue has no room
	// for the line. The line is not sent; the writer stays usable.
	ErrQueueFull = errors.New("write queue is full")
	// ErrClosed is returned by every call after Close.
	ErrClosed = errors.New("writer is closed")
)

const (
	defaultQueue = 16 << 20
	keepBuffer   = 64 << 10 // a writer keeps no larger buffer than this one
	shareBuffer  = 1 << 20  // writers share buffers up to this one, as long as the collector lets them
	flushAt      = 64 << 10 // Append writes by itself from here on: a pipe holds no more
	callerRounds = 16       // a caller writes for others so many times, then a goroutine takes over
)

// WriterOptions changes how a [Writer] works. Start is required.
type WriterOptions struct {
	// Start runs f on a goroutine that its owner counts and waits for. It is
	// called when the peer is slow, at most once at a time, from inside a
	// caller's Write, Append or Flush; it must not run f itself.
	Start func(f func())
	// MaxQueue bounds what waits to be written, in bytes; a line is taken whatever its
	// length while nothing else waits. Zero means 16 MiB.
	MaxQueue int
	// Direct says that the underlying Write never waits for a peer (a buffer, a
	// file on a local disk), so that it is called on the caller's goroutine.
	Direct bool
	// OnError is told the first write error, once. Nil drops it; it is also
	// returned by every later call.
	OnError func(error)
}

// Writer writes lines for many goroutines at once. A goroutine that finds no other writing
// writes what has gathered, without blocking; what the peer does not take at
// once is finished by one goroutine. All methods may be called from any
// goroutine.
type Writer struct {
	dst  io.Writer
	raw  nonBlocking // nil: dst has no non-blocking write
	opts WriterOptions
	done chan struct{} // made by Close; closed once nothing is left to write

	mu    sync.Mutex
	state state
}

// nonBlocking is a descriptor that can be written without waiting for the peer.
// One goroutine at a time uses it, the one that has set [state.writing].
type nonBlocking interface {
	try(b []byte) (int, error) // as much of b as there is room for
	all(b []byte) error        // all of b; ends with an error when the descriptor is closed
}

// state is everything that callers share. Only [Writer.update] touches it.
type state struct {
	queue   []byte // whole lines, not yet taken
	spare   []byte // a used buffer, empty
	flying  int    // bytes taken by the writing goroutine and not yet written
	writing bool   // one goroutine owns dst; it looks at queue again before it lets go
	closing bool   // Close has been called: no more lines
	gone    bool   // closed for good: what is left is dropped
	ended   bool   // done is closed
	err     error  // the first write error
}

// NewWriter returns a writer to w. It panics if opts.Start is nil.
//
// If w is a pipe or socket (anything with SyscallConn) lines are written on the
// caller's goroutine as far as the peer has room. Other writers, and regular
// files, are written from a started goroutine unless opts.Direct is set.
func NewWriter(w io.Writer, opts *WriterOptions) *Writer {
	if opts == nil || opts.Start == nil {
		panic("frame: NewWriter needs WriterOptions.Start")
	}
	o := *opts
	if o.MaxQueue <= 0 {
		o.MaxQueue = defaultQueue
	}
	wr := &Writer{dst: w, opts: o}
	if !o.Direct {
		wr.raw = newNonBlocking(w)
	}
	return wr
}

// Write queues a copy of frame, which holds no newline, as one line, and writes
// what has gathered unless another goroutine is doing so. It does not wait for
// the peer: nil means queued. Errors are [ErrQueueFull], [ErrClosed] and the
// first error of the underlying writer.
func (w *Writer) Write(frame []byte) error { return w.add(frame, 1) }

// Append queues a copy of frame as one line and leaves the writing to a later
// Write or Flush, or to itself once 64 KiB have gathered. It is for a caller
// that knows it has more to send ([Reader.Buffered]).
func (w *Writer) Append(frame []byte) error { return w.add(frame, flushAt) }

// Flush writes what Append has gathered, as Write does.
func (w *Writer) Flush() error {
	var mine bool
	var err error
	w.update(func(s *state) {
		err = s.refusal()
		mine = err == nil && s.claim(1)
	})
	if mine {
		w.combine()
	}
	return err
}

// Close takes no more lines, waits until the queue is written or ctx ends, then
// closes the underlying writer if it is an [io.Closer]; that, or a deadline in
// the past, also ends a write that is stuck. It returns the first write error,
// context.Cause(ctx) if lines were lost, or the error of closing. Later calls
// return [ErrClosed].
func (w *Writer) Close(ctx context.Context) error {
	first, mine := false, false
	w.update(func(s *state) {
		if first = !s.closing; first {
			w.done = make(chan struct{})
		}
		s.closing = true
		mine = first && s.err == nil && s.claim(1)
	})
	if !first {
		return ErrClosed
	}
	if mine {
		w.combine()
	}
	var lost error
	select {
	case <-w.done:
	case <-ctx.Done():
		lost = fmt.Errorf("closing with lines unwritten: %w", context.Cause(ctx))
	}
	var failed error
	w.update(func(s *state) {
		s.gone, s.queue, s.spare = true, nil, nil
		failed = s.err
		if s.ended {
			lost = nil // both became ready
		}
	})
	if d, ok := w.dst.(interface{ SetWriteDeadline(time.Time) error }); ok && lost != nil {
		_ = d.SetWriteDeadline(time.Unix(1, 0)) // not every file has deadlines; closing is what counts
	}
	var closed error
	if c, ok := w.dst.(io.Closer); ok {
		closed = c.Close()
	}
	for _, err := range []error{failed, lost, closed} {
		if err != nil {
			return err
		}
	}
	return nil
}

// update is the only way to the state. It keeps one promise: done is closed,
// once, when no more lines can come and none is left.
func (w *Writer) update(f func(*state)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.state)
	s := &w.state
	if s.closing && !s.ended && (s.err != nil || !s.writing && len(s.queue) == 0) {
		s.ended = true
		close(w.done)
	}
}

// refusal is why no more lines are taken, or nil.
func (s *state) refusal() error {
	switch {
	case s.err != nil:
		return s.err
	case s.closing:
		return ErrClosed
	}
	return nil
}

// claim makes the caller the one who writes, if there is none and at least
// atLeast bytes wait.
func (s *state) claim(atLeast int) bool {
	if s.writing || len(s.queue) < atLeast {
		return false
	}
	s.writing = true
	return true
}

// add queues one line and writes if no other goroutine does and enough has gathered.
func (w *Writer) add(frame []byte, atLeast int) error {
	var mine bool
	var err error
	w.update(func(s *state) {
		if err = s.refusal(); err != nil {
			return
		}
		if waits := len(s.queue) + s.flying; waits > 0 && waits+len(frame)+1 > w.opts.MaxQueue {
			err = ErrQueueFull
			mine = s.claim(1) // make room for the next one
			return
		}
		if s.queue == nil {
			s.queue, s.spare = s.spare, nil
		}
		if s.queue == nil && len(frame) > keepBuffer/2 {
			s.queue = takeShared()
		}
		s.queue = append(append(s.queue, frame...), '\n')
		mine = s.claim(atLeast)
	})
	if mine {
		w.combine()
	}
	return err
}

// combine writes for everyone on the caller's goroutine, as long as that needs
// no waiting and others do not keep it busy for ever.
func (w *Writer) combine() {
	if w.raw == nil && !w.opts.Direct {
		w.handOver(nil, 0)
		return
	}
	batch := w.next(nil)
	for range callerRounds {
		if batch == nil {
			return
		}
		n, err := w.try(batch)
		if err != nil {
			w.fail(err)
			return
		}
		if n < len(batch) {
			w.handOver(batch, n)
			return
		}
		batch = w.next(batch)
	}
	if batch != nil {
		w.handOver(batch, 0)
	}
}

// handOver lets a goroutine write batch[from:] and what follows.
func (w *Writer) handOver(batch []byte, from int) {
	w.opts.Start(func() { w.drain(batch, from) })
}

// try writes what can be written without waiting.
func (w *Writer) try(b []byte) (int, error) {
	if w.raw == nil {
		return w.dst.Write(b)
	}
	return w.raw.try(b)
}

// drain writes batch[from:] and whatever gathers meanwhile. It may wait for the peer.
func (w *Writer) drain(batch []byte, from int) {
	if batch == nil {
		batch = w.next(nil)
	}
	for batch != nil {
		if err := w.writeAll(batch[from:]); err != nil {
			w.fail(err)
			return
		}
		batch, from = w.next(batch), 0
	}
}

func (w *Writer) writeAll(b []byte) error {
	if w.raw != nil {
		return w.raw.all(b)
	}
	n, err := w.dst.Write(b)
	if err == nil && n != len(b) {
		err = io.ErrShortWrite
	}
	return err
}

// next ends the writing of one batch and takes the next; nil lets go of dst.
func (w *Writer) next(written []byte) (batch []byte) {
	w.update(func(s *state) {
		switch size := cap(written); {
		case size > keepBuffer && size <= shareBuffer:
			used := written[:0]
			shared.Put(&used)
		case size > 0 && size <= keepBuffer && !s.gone:
			s.spare = written[:0]
		}
		if len(s.queue) > 0 {
			batch, s.queue = s.queue, nil
		}
		s.flying = len(batch)
		s.writing = batch != nil
	})
	return batch
}

// shared are used buffers that are too large for each writer to keep one.
var shared sync.Pool

func takeShared() []byte {
	if b, ok := shared.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return nil
}

// fail keeps the first error and drops what was queued.
func (w *Writer) fail(err error) {
	err = fmt.Errorf("writing a line: %w", err)
	var tell bool
	w.update(func(s *state) {
		if tell = s.err == nil && !s.gone; tell { // after Close it is our own doing
			s.err = err
		}
		s.queue, s.spare, s.flying, s.writing = nil, nil, 0, false
	})
	if tell && w.opts.OnError != nil {
		w.opts.OnError(err)
	}
}
