package streams

import (
	"context"
	"errors"
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
type handlerConn struct {
	stream *Stream
	w      http.ResponseWriter
	out    *http.ResponseController
	wake   chan struct{} // has room for one
	cause  error         // why it was cut; guarded by the stream's lock
}

func newHandlerConn(s *Stream, w http.ResponseWriter) *handlerConn {
	return &handlerConn{stream: s, w: w, out: http.NewResponseController(w), wake: make(chan struct{}, 1)}
}

// Serve sends the stream to its first connection. It returns nil after the last event,
// after [Stream.CloseConn], and when the server ends the connection. An error says why the
// connection was lost: a stream without a log is over then, and one with a log can be
// resumed.
func (s *Stream) Serve(w http.ResponseWriter, r *http.Request) error {
	c := newHandlerConn(s, w)
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
	_ = c.out.SetReadDeadline(time.Time{}) // the server's limit is meant for requests
	streamHeader(c.w.Header())
	c.w.WriteHeader(http.StatusOK)
	if err := c.flush(); err != nil {
		return err
	}
	var events [][]byte
	for {
		var last, ours bool
		if events, last, ours = c.stream.take(c, events[:0]); !ours {
			return c.why()
		}
		if err := c.write(events); err != nil || last {
			return err
		}
		clear(events)
		select {
		case <-c.wake:
		case <-ctx.Done():
			return errGone
		}
	}
}

// write writes events and flushes them together.
func (c *handlerConn) write(events [][]byte) error {
	if len(events) == 0 {
		return nil
	}
	for _, event := range events {
		_ = c.out.SetWriteDeadline(c.stream.set.deadline())
		if _, err := c.w.Write(event); err != nil {
			return lostBy(err)
		}
	}
	return c.flush()
}

func (c *handlerConn) flush() error {
	_ = c.out.SetWriteDeadline(c.stream.set.deadline()) // without deadlines the server's own timeout holds
	if err := c.out.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return lostBy(err)
	}
	return nil
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
