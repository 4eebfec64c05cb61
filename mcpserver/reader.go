package mcpserver

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/frame"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/pipe"
)

// reader handles the frames of one connection in their order. One goroutine at a
// time runs it: the owner of the lease.
type reader struct {
	session *session
	pipe.Input

	// These belong to the owner too.
	queued  bool // answers wait for a flush
	message mcp.Message
	arrival arrival // the request in message
	runs    func()  // run, made once
}

func newReader(s *session, from pipe.Source) *reader {
	r := &reader{session: s}
	r.Init(from, r.start)
	r.runs = r.run
	return r
}

// start runs the reader on a goroutine of its own.
func (r *reader) start() { r.session.ref.Go(r.runs) }

// run reads until the source ends, or until this goroutine has lost the lease. A panic
// comes from the program's stream or from this package: it ends the session, because no
// goroutine reads from the client any more (ROB-1). The goroutine's owner logs it.
func (r *reader) run() {
	defer r.panicked()
	for {
		if r.queued && !r.Buffered() {
			r.queued = false
			r.session.out.Flush()
		}
		line, err := r.Next()
		if err != nil {
			if long, ok := errors.AsType[*frame.TooLongError](err); ok {
				r.refuseLong(long)
				continue
			}
			if err != pipe.ErrIdle {
				r.session.ref.Send(&readEnded{err: pipe.Ended(err)})
			}
			return
		}
		if lost := r.session.frame(line, r); lost {
			return
		}
	}
}

func (r *reader) panicked() {
	if p := recover(); p != nil {
		err := &actors.PanicError{Value: p, Stack: debug.Stack()}
		r.session.ref.Send(&closeSession{cause: fmt.Errorf("reading from the client: %w", err)})
		panic(p)
	}
}

// response handles a frame if it is a response.
func (r *reader) response(frame []byte) bool {
	if mcp.Scan(frame, &r.message) != nil || r.message.Kind < mcp.KindResult {
		return false
	}
	r.session.response(&r.message)
	return true
}

// frame handles a frame of a pipe, a message or a batch, and reports whether the goroutine
// has lost its reader meanwhile.
func (s *session) frame(data []byte, r *reader) (lost bool) {
	if mcp.IsBatch(data) {
		s.startBatch(data, s.principal, s) // its last response may come from any goroutine
		return false
	}
	r.arrival = arrival{Message: &r.message, principal: s.principal, port: r, reader: r}
	return s.message(data, &r.arrival)
}

// refuseLong answers a message that is too long to be read (WIRE-04, ROB-2): by the id at
// either end of it, if there is one.
func (r *reader) refuseLong(long *frame.TooLongError) {
	method, id := mcp.Outline(long.Head, long.Tail)
	r.session.server.log.Warn("a message was too long and was skipped", "session", r.session.ref.Path(), "method", clip.Name(method), "limit", long.Max)
	why := mcp.Errorf(mcp.CodeInvalidRequest, "the message is longer than %d bytes", long.Max)
	switch t := r.session.nested.Load(); {
	case method == "" && !id.IsZero() && t != nil: // the response to a request of the server
		t.Malformed(generation, id, why)
	case method != "" && id.IsZero(): // a notification
	default:
		r.session.fail(r, id, why)
	}
}

// Notify, Respond and Drop implement [port.Port], for requests that the reader answers itself.
func (r *reader) Notify(frame []byte) { r.session.Notify(frame) }
func (r *reader) Drop()               {}

// Respond writes a frame. While more requests are buffered it only queues the frame, so
// that many responses share a write.
func (r *reader) Respond(frame []byte, _ *mcp.Error) {
	if !r.Buffered() {
		r.queued = false
		r.session.Notify(frame)
		return
	}
	r.queued = true
	r.session.queue(frame)
}
