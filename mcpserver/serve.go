package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/frame"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/pipe"
)

// errHungUp is the cause of the contexts of handlers whose client has hung up.
var errHungUp = errors.New("the client has hung up")

// ServeStdio serves the client at the other end of standard input and output,
// until it hangs up or ctx ends. The program must write nothing else to standard
// output meanwhile.
func (s *Server) ServeStdio(ctx context.Context) error {
	return s.Serve(ctx, pipe.StandardInput(), os.Stdout) // STDIO-03
}

// Serve serves one client over a pair of byte streams, one message a line, until
// the client hangs up (nil, after the calls in flight have ended or [Limits].Grace
// is over), a stream breaks, or ctx ends (its cause). It always closes out, and
// interrupts a blocked read of in by SetReadDeadline or Close where in has it;
// otherwise the read may outlast Serve.
//
// It may be called many times at once, with other streams.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.WriteCloser) error {
	n := newSession(s)
	n.principal = s.opts.Principal
	n.in = newReader(n, frame.NewReader(in, s.opts.Limits.MaxMessage))
	n.hangUp = sync.OnceFunc(n.in.File(in))
	n.out = frame.NewWriter(out, &frame.WriterOptions{
		Start:   func(f func()) { s.sys.Go(n.ref.Path(), f) },
		OnError: func(err error) { n.ref.Send(&closeSession{cause: err}) },
	})
	if err := s.open(ctx, n); err != nil {
		return errors.Join(err, out.Close())
	}
	n.in.start()
	if _, err := n.ended.Wait(ctx); n.ended.Completed() {
		return err
	}
	n.ref.Send(&closeSession{cause: context.Cause(ctx)})
	_, err := n.ended.Wait(context.WithoutCancel(ctx)) // bounded: it waits for the writer only, for a second
	return err
}

// Connect joins the server with a client in the same process: to receives the messages of
// the server, and the link takes those of the client. Handlers run on goroutines of the
// server, never on the sender's. The session ends with the link's Close, or with the server.
func (s *Server) Connect(to mcp.Sink) (mcp.Link, error) {
	n := newSession(s)
	n.principal = s.opts.Principal
	box := new(pipe.Inbox)
	n.in = newReader(n, box)
	box.Start = n.in.start
	n.hangUp = box.Close
	n.out = pipe.Sink{To: to}
	if err := s.open(context.Background(), n); err != nil {
		return nil, err
	}
	return &link{session: n, box: box}, nil
}

// link is the client's end of an in-memory session.
type link struct {
	session *session
	box     *pipe.Inbox
}

// Send implements [mcp.Link].
func (l *link) Send(m mcp.Outgoing) error {
	if len(m.Frame) > l.session.server.opts.Limits.MaxMessage {
		return fmt.Errorf("%w: %w", call.ErrTooLong, &frame.TooLongError{Max: l.session.server.opts.Limits.MaxMessage})
	}
	err := l.box.Put(m.Frame)
	if errors.Is(err, frame.ErrQueueFull) {
		return fmt.Errorf("%w: the server does not read", call.ErrBusy)
	}
	return err
}

// Close implements [mcp.Link]. The client's Lost is called soon after.
func (l *link) Close() error {
	l.box.Close()
	l.session.ref.Send(&closeSession{cause: errHungUp})
	return nil
}
