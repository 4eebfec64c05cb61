package pipe

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/internal/pause"
)

const streamGrace = 2 * time.Second // for what is queued when a stream is closed

// Stream is the link over a byte stream. One goroutine reads it.
type Stream struct {
	lines
	closing   atomic.Bool
	closeOnce sync.Once
	lost      sync.Once
	read      chan struct{} // closed when nothing more is read
	closed    chan struct{} // closed when Close is done
}

// NewStream serves a byte stream. It closes the stream in the end.
func NewStream(conn io.ReadWriteCloser, opts Options) *Stream {
	l := &Stream{lines: lines{Options: opts, owner: "stream of " + opts.Server}, read: make(chan struct{}), closed: make(chan struct{})}
	l.start(conn, conn, l.lose)
	l.task(func() {
		defer close(l.read)
		if _, err := l.lines.read(); !l.closing.Load() {
			l.lose(err)
		}
	})
	return l
}

// lose tells the connection that the stream is gone. Close is still to come.
func (l *Stream) lose(err error) {
	l.lost.Do(func() { l.Sink.Lost(err) })
}

// Close implements [mcp.Link]. It takes at most about three seconds.
func (l *Stream) Close() error {
	l.closeOnce.Do(func() {
		defer close(l.closed)
		l.closing.Store(true)
		ctx, cancel := context.WithTimeout(context.Background(), streamGrace)
		defer cancel()
		if err := l.out.Close(ctx); err != nil { // and with it the stream
			l.Log.Debug("closing the stream", "error", err)
		}
		if !pause.Until(l.read, pipeGrace) {
			l.Log.Error("the stream does not end when it is closed")
		}
		l.lose(nil)
	})
	<-l.closed
	return nil
}
