package mcpserver

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/frame"
	"github.com/troupe-dev/troupe/mcp"
)

// source is where frames come from: lines of a pipe, or the inbox of a link.
type source interface {
	// Next returns a frame that is valid until the next call.
	Next() ([]byte, error)
	// Buffered reports whether Next will return at once.
	Buffered() bool
}

// reader takes the frames of one connection in their order. One goroutine at a
// time runs it: the owner of the lease.
type reader struct {
	session *session
	source  source
	lease   lease

	// These belong to the owner too.
	queued  bool // answers wait for a flush
	message mcp.Message
	arrival arrival // the request in message
	runs    func()  // run, made once
}

func newReader(s *session, from source) *reader {
	r := &reader{session: s, source: from}
	r.lease.init(r.start)
	r.runs = r.run
	return r
}

// start runs the reader on a goroutine of its own.
func (r *reader) start() { r.session.ref.Go(r.runs) }

// errIdle is returned by a source that will start the reader again.
var errIdle = errors.New("nothing to read for now")

// run reads until there is no more, or until this goroutine has lost the lease. What
// panics here is the program's stream, or this package: the client is not read any more, so its
// session ends (ROB-1). The goroutine's owner logs it.
func (r *reader) run() {
	defer func() {
		if p := recover(); p != nil {
			err := &actors.PanicError{Value: p, Stack: debug.Stack()}
			r.session.ref.Send(&closeSession{cause: fmt.Errorf("reading from the client: %w", err)})
			panic(p)
		}
	}()
	for {
		if r.queued && !r.source.Buffered() {
			r.queued = false
			r.session.out.Flush()
		}
		line, err := r.source.Next()
		if err != nil {
			if long, ok := errors.AsType[*frame.TooLongError](err); ok {
				r.refuseLong(long)
				continue
			}
			if err != errIdle {
				r.session.ref.Send(&readEnded{err: ended(err)})
			}
			return
		}
		if lost := r.session.frame(line, r); lost {
			return
		}
	}
}

// ended makes the ordinary end no error.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// refuseLong answers a message that was never read (WIRE-04, ROB-2): by the id at either
// end of it, if there is one.
func (r *reader) refuseLong(long *frame.TooLongError) {
	method, id := mcp.Outline(long.Head, long.Tail)
	r.session.server.log.Warn("a message was too long and was skipped", "session", r.session.ref.Path(), "method", shorten(method), "limit", long.Max)
	why := mcp.Errorf(mcp.CodeInvalidRequest, "the message is longer than %d bytes", long.Max)
	switch t := r.session.nested.Load(); {
	case method == "" && !id.IsZero() && t != nil: // the answer to a question of ours
		t.Malformed(generation, id, why)
	case method != "" && id.IsZero(): // a notification
	default:
		r.session.fail(r, id, why)
	}
}

// The reader is the port of what is answered where it is read.
func (r *reader) Notify(frame []byte) { r.session.write(frame) }
func (r *reader) Drop()               {}

// Respond writes a frame; while more is buffered it only queues it, so that many
// answers share a write.
func (r *reader) Respond(frame []byte, _ *mcp.Error) {
	if !r.source.Buffered() {
		r.queued = false
		r.session.write(frame)
		return
	}
	r.queued = true
	r.session.queue(frame)
}

// inbox is the source of an in-memory link: frames are copied into it.
type inbox struct {
	start func() // runs the reader

	mu      sync.Mutex
	frames  [][]byte // frames[head:] wait
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

// put queues a copy of a frame.
func (b *inbox) put(data []byte) error {
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
		b.start()
	}
	return nil
}

// Next implements source.
func (b *inbox) Next() ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if cap(b.current) > 0 && cap(b.current) <= keepBuffer && len(b.free) < 64 {
		b.free = append(b.free, b.current[:0])
	}
	b.current = nil
	if b.head == len(b.frames) {
		b.frames, b.head = b.frames[:0], 0
		b.running = false
		return nil, errIdle
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

// Buffered implements source.
func (b *inbox) Buffered() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.head < len(b.frames)
}

// close drops what waits.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.frames, b.head, b.bytes = true, nil, 0, 0
}
