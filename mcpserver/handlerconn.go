package mcpserver

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"
)

// handlerConn is a connection of a stream that is written by the goroutine of its HTTP
// handler. It works for every version of HTTP.
type handlerConn struct {
	stream *stream
	w      http.ResponseWriter
	out    *http.ResponseController
	wake   chan struct{} // has room for one
	cause  error         // why it was cut; guarded by the stream's lock
}

func newHandlerConn(s *stream, w http.ResponseWriter) *handlerConn {
	return &handlerConn{stream: s, w: w, out: http.NewResponseController(w), wake: make(chan struct{}, 1)}
}

// serve sends the stream to a client, which has not had anything of it yet. It returns
// nil when the last event has been written, when the connection was closed for a while,
// and when the server ends it; else why the connection was lost. Then a stream without a
// log is over, and one with a log goes on, to be resumed.
func (s *stream) serve(w http.ResponseWriter, r *http.Request) error {
	c := newHandlerConn(s, w)
	if err := s.attach(c); err != nil {
		return err
	}
	return c.run(r.Context())
}

func (c *handlerConn) kick() {
	select {
	case c.wake <- struct{}{}:
	default: // it will look anyway
	}
}

func (c *handlerConn) cut(cause error) { c.cause = cause }

func (c *handlerConn) hurry() { _ = c.out.SetWriteDeadline(time.Now().Add(hurryTime)) }

// run writes until the connection has ended.
func (c *handlerConn) run(ctx context.Context) (err error) {
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

// write sends events; those that wait together are flushed together.
func (c *handlerConn) write(events [][]byte) error {
	if len(events) == 0 {
		return nil
	}
	for _, event := range events {
		_ = c.out.SetWriteDeadline(c.stream.hub.deadline())
		if _, err := c.w.Write(event); err != nil {
			return lostBy(err)
		}
	}
	return c.flush()
}

func (c *handlerConn) flush() error {
	_ = c.out.SetWriteDeadline(c.stream.hub.deadline()) // a wrapper may not have it; then the server's own counts
	if err := c.out.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return lostBy(err)
	}
	return nil
}

// lostBy says what a failed write means.
func lostBy(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errSlow
	}
	return errGone
}

func (c *handlerConn) why() error {
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	return c.cause
}

// streamHeader says what follows (WIRE-13).
func streamHeader(h http.Header) {
	h[headerType] = valueStream
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffering
}

// Header values are shared: nobody changes them.
var (
	noCache     = []string{"no-cache"}
	noBuffering = []string{"no"}
)
