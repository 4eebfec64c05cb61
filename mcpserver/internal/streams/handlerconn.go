package streams

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// Standing is a connection that is written until its stream has ended.
type Standing interface {
	conn
	// Run writes until the connection has ended, or goes on without the goroutine.
	Run(ctx context.Context) error
}

// handlerConn is a connection that the goroutine of its HTTP handler writes. It works with
// every version of HTTP.
//
//	         nothing to write                SendHere
//	serving ──────────────────▶ waiting ──────────────────▶ lent
//	   ▲                           │ kick                     │
//	   └───────────────────────────┴──────────────────────────┘ written
//
// While it is lent a sender writes, and the goroutine of the handler neither writes nor
// returns.
type handlerConn struct {
	stream *Stream
	w      http.ResponseWriter
	out    *http.ResponseController
	wake   chan struct{} // has room for one
	plain  bool          // see plain
	resets bool          // HTTP/2: a deadline that passes ends the stream, also a quiet one
	until  time.Time     // the deadline of writes that is set; of the goroutine that writes

	// Guarded by the stream's lock.
	cause   error // why it was cut
	waiting bool  // a sender may write
	lent    bool  // a sender writes
	left    bool  // its own goroutine waits for that to end
	room    int   // bytes that senders may still write
}

// ownRoom bounds what the senders of one connection write themselves, in bytes: a socket takes
// so much although its client does not read, and none of them waits.
const ownRoom = 32 << 10

func newHandlerConn(s *Stream, w http.ResponseWriter, r *http.Request) *handlerConn {
	return &handlerConn{stream: s, w: w, out: http.NewResponseController(w), wake: make(chan struct{}, 1), resets: r.ProtoMajor > 1}
}

// Serve sends the stream to its first connection. It returns nil after the last event,
// after [Stream.CloseConn], and when the server ends the connection. An error says why the
// connection was lost: a stream without a log is over then, and one with a log can be
// resumed.
func (s *Stream) Serve(w http.ResponseWriter, r *http.Request) error {
	c := newHandlerConn(s, w, r)
	if c.plain = plain(w, r); c.plain {
		c.room = ownRoom
	}
	if err := s.attach(c, time.Time{}); err != nil {
		return err
	}
	return c.Run(r.Context())
}

func (c *handlerConn) kick() {
	select {
	case c.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

func (c *handlerConn) cut(cause error) { c.cause = cause }

func (c *handlerConn) hurry() { _ = c.out.SetWriteDeadline(time.Now().Add(hurryTime)) }

// Run implements [Standing].
func (c *handlerConn) Run(ctx context.Context) (err error) {
	defer func() { c.stream.detach(c, err) }()
	streamHeader(c.w.Header())
	c.w.WriteHeader(http.StatusOK)
	var events [][]byte
	for begun := false; ; {
		var last, ours bool
		if events, last, ours = c.take(events[:0], begun); !ours {
			return c.why()
		}
		if len(events) > 0 || !begun { // the first time with the header
			if err := c.write(events, last); err != nil || last {
				return err
			}
			clear(events)
			if !begun { // with the header net/http has read what is left of a body
				begun = true
				_ = c.out.SetReadDeadline(time.Time{}) // the server's limit is meant for requests
			}
			continue
		}
		if last {
			return nil
		}
		select {
		case <-c.wake:
		case <-ctx.Done():
			c.reclaim()
			return errGone
		}
	}
}

// take takes the queue, unless a sender writes: then a kick follows. With nothing to write the
// connection may be lent, once it has begun.
func (c *handlerConn) take(into [][]byte, begun bool) (events [][]byte, last, ours bool) {
	s := c.stream
	s.mutex().Lock()
	defer s.mutex().Unlock()
	if c.lent {
		return into, false, true
	}
	events, last, ours = s.grab(c, into)
	c.waiting = begun && ours && !last && len(events) == 0
	return events, last, ours
}

// lend gives the connection to a sender of so many bytes, and reports false if that is to
// queue them. The stream is locked.
func (c *handlerConn) lend(bytes int) bool {
	if !c.waiting || bytes > c.room || len(c.stream.queue) > 0 || c.stream.paused {
		return false
	}
	c.waiting, c.lent = false, true
	c.room -= bytes
	return true
}

// writeLent writes an event on the goroutine of its sender, and gives the connection back.
func (c *handlerConn) writeLent(event []byte) {
	err := errGone // also if the response panics
	defer func() {
		s := c.stream
		s.mutex().Lock()
		c.lent = false
		if err != nil && s.conn == c {
			s.cut(err)
		}
		c.waiting = s.conn == c && len(s.queue) == 0 && !s.ended && !s.paused && !c.left
		kick := !c.waiting
		s.mutex().Unlock()
		if kick {
			c.kick()
		}
	}()
	err = c.write([][]byte{event}, false)
}

// reclaim waits until no sender writes, and lends the connection no more.
func (c *handlerConn) reclaim() {
	for {
		c.stream.mutex().Lock()
		lent := c.lent
		c.left, c.waiting = true, false
		c.stream.mutex().Unlock()
		if !lent {
			return
		}
		<-c.wake
	}
}

// plain reports whether a response goes straight to a socket: a wrapper may compress or count
// it, and TLS keeps buffers.
func plain(w http.ResponseWriter, r *http.Request) bool {
	if r.TLS != nil || r.ProtoMajor != 1 || r.ProtoMinor < 1 || fmt.Sprintf("%T", w) != plainResponse {
		return false
	}
	switch addr := r.Context().Value(http.LocalAddrContextKey).(type) {
	case *net.TCPAddr, *net.UnixAddr:
		return addr != nil
	}
	return false
}

// plainResponse is the unexported type of net/http's response in HTTP/1.
const plainResponse = "*http.response"

// write writes events and flushes them together. What is last net/http flushes, with the end of
// the response.
func (c *handlerConn) write(events [][]byte, last bool) error {
	for _, event := range events {
		c.limit()
		if _, err := c.w.Write(event); err != nil {
			return lostBy(err)
		}
	}
	c.limit()
	if last && c.plain {
		return nil
	}
	if err := c.out.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return lostBy(err)
	}
	if c.resets {
		c.until = time.Time{}
		_ = c.out.SetWriteDeadline(c.until)
	}
	return nil
}

// limit bounds the write that begins now, by writeTime or somewhat less. Without deadlines the
// server's own timeout holds.
func (c *handlerConn) limit() {
	if until := c.stream.set.deadline(); until.Sub(c.until) > writeTime/10 || c.stream.set.hurry.Load() {
		c.until = until
		_ = c.out.SetWriteDeadline(until)
	}
}

// lostBy returns why a write has failed.
func lostBy(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errSlow
	}
	return errGone
}

func (c *handlerConn) why() error {
	c.stream.mutex().Lock()
	defer c.stream.mutex().Unlock()
	return c.cause
}

// streamHeader sets the header of an event stream (WIRE-13).
func streamHeader(h http.Header) {
	h["Content-Type"] = eventStream
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffering
}

// Header values are shared by all responses and never changed.
var (
	eventStream = []string{"text/event-stream"}
	noCache     = []string{"no-cache"}
	noBuffering = []string{"no"}
)
