package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/frame"
	"github.com/troupe-dev/troupe/mcp"
)

// Stream returns the definition of a server at the other end of a byte stream: a Unix
// socket, a TCP or TLS connection, or anything else (WIRE-02). Messages are framed as on
// stdio, one JSON text a line; a session lasts as long as its stream.
//
// Dial makes a stream for each connection, heeds ctx, and is called again with back-off
// after a stream has ended. Whoever needs authentication does it there. What it returns
// is closed by the client; a Close must end a Read that waits.
//
//	mcpclient.Stream("tools", func(ctx context.Context) (io.ReadWriteCloser, error) {
//		var d net.Dialer
//		return d.DialContext(ctx, "unix", path)
//	})
func Stream(name string, dial func(ctx context.Context) (io.ReadWriteCloser, error)) Server {
	return Server{Name: name, stream: dial}
}

const streamGrace = 2 * time.Second // for what is queued when a stream is closed

// stream is the link over a byte stream. One goroutine reads it.
type stream struct {
	sys   *actors.System
	owner string
	log   *slog.Logger
	sink  mcp.Sink
	conn  io.ReadWriteCloser
	max   int                      // bytes of a message
	long  func(certain bool) error // of a message with more
	out   *frame.Writer

	closing atomic.Bool
	close   sync.Once
	lost    sync.Once
	read    chan struct{} // closed when nothing more is read
	closed  chan struct{} // closed when Close is done
}

// dialStream makes a link.
func (c *Client) dialStream(ctx context.Context, sink mcp.Sink) (mcp.Link, error) {
	conn, err := c.server.stream(ctx)
	switch {
	case err != nil:
		return nil, err
	case conn == nil:
		return nil, errors.New("the dial function returned no stream")
	}
	l := &stream{
		sys: c.sys, owner: "stream of " + c.server.Name, log: c.log, sink: sink, conn: conn, max: c.server.maxMessage(), long: c.server.tooLong,
		read: make(chan struct{}), closed: make(chan struct{}),
	}
	l.out = frame.NewWriter(conn, &frame.WriterOptions{
		Start:   l.task,
		OnError: func(err error) { l.lose(fmt.Errorf("writing to the server: %w", err)) },
	})
	l.task(l.readAll)
	return l, nil
}

func (l *stream) task(f func()) { l.sys.Go(l.owner, f) }

// Send implements [mcp.Link].
func (l *stream) Send(m mcp.Outgoing) error {
	err := l.out.Write(m.Frame)
	if errors.Is(err, frame.ErrQueueFull) {
		return fmt.Errorf("%w: the server does not read", call.ErrBusy)
	}
	return err
}

// readAll passes on the server's messages until there are no more. Stray lines are
// passed over as on stdio (STDIO-03), up to a number.
func (l *stream) readAll() {
	defer close(l.read)
	in := frame.NewReader(l.conn, l.max)
	for junk := 0; ; {
		line, err := in.Next()
		long, isLong := errors.AsType[*frame.TooLongError](err)
		switch {
		case l.closing.Load():
			return
		case isLong && !isMessage(long.Head):
			line = long.Head
		case isLong && skipTo(l.sink, long, l.long): // WIRE-04, ROB-2
			junk = 0
			continue
		case err == io.EOF:
			l.lose(nil)
			return
		case err != nil:
			l.lose(fmt.Errorf("reading from the server: %w", err))
			return
		case isMessage(line):
			junk = 0
			l.sink.Frame(line)
			continue
		}
		shown := string(line[:min(len(line), shownOfJunk)])
		if junk++; junk <= loggedJunk {
			l.log.Warn("the server wrote a line that is no message", "line", shown)
		}
		if junk >= maxJunk {
			l.lose(&junkError{lines: junk, last: shown})
			return
		}
	}
}

// lose tells the connection that the stream is gone. Close is still to come.
func (l *stream) lose(err error) {
	l.lost.Do(func() { l.sink.Lost(err) })
}

// Close implements [mcp.Link]. It takes at most about three seconds.
func (l *stream) Close() error {
	l.close.Do(func() {
		defer close(l.closed)
		l.closing.Store(true)
		ctx, cancel := context.WithTimeout(context.Background(), streamGrace)
		defer cancel()
		if err := l.out.Close(ctx); err != nil { // and with it the stream
			l.log.Debug("closing the stream", "error", err)
		}
		if !within(l.read, pipeGrace) {
			l.log.Error("the stream does not end when it is closed")
		}
		l.lose(nil)
	})
	<-l.closed
	return nil
}
