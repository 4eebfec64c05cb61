package oldsse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"sync"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/pause"
	"github.com/troupe-dev/troupe/internal/sse"
	"github.com/troupe-dev/troupe/mcp"
)

// Link is a [mcp.Link] over one event stream. All its methods may be used from any
// goroutine.
//
// One goroutine reads the stream. Another POSTs what is in line while there is
// anything; when a POST takes long a further one goes on behind it.
type Link struct {
	opts     Options
	owner    string
	endpoint *url.URL // its query is a secret
	stream   io.Closer
	events   *sse.Reader
	ctx      context.Context // ends with the link
	end      context.CancelCauseFunc
	close    sync.Once
	lost     sync.Once
	closed   chan struct{} // closed when Close is done

	mu      sync.Mutex // guards the fields below it, nothing is sent under it: Send puts a message in line without a message to an actor
	closing bool       // nothing more is taken
	over    bool       // nothing more is passed on
	known   bool       // the server has taken a message in this session
	tasks   int        // goroutines
	idle    chan struct{}

	queue   []*post
	bytes   int   // of the queue
	sending bool  // a goroutine works on the queue
	posts   int   // goroutines in a POST, that one included
	stuck   *bool // set once that goroutine is passed: it would be, but for maxPosts
	drained chan struct{}
}

// Send implements [mcp.Link].
func (l *Link) Send(m mcp.Outgoing) error {
	if len(m.Frame) > l.opts.MaxMessage {
		return fmt.Errorf("%w: %d bytes, %d are allowed", call.ErrTooLong, len(m.Frame), l.opts.MaxMessage)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closing:
		return errClosed
	case len(l.queue) >= maxQueue || l.bytes+len(m.Frame) > maxQueuedBytes:
		return fmt.Errorf("%w: the server does not take them", call.ErrBusy)
	}
	l.queue = append(l.queue, newPost(&m))
	l.bytes += len(m.Frame)
	if !l.sending {
		l.sending = true
		l.posts++
		l.task(l.pump)
	}
	return nil
}

// task runs f on a goroutine that Close waits for. The lock is held.
func (l *Link) task(f func()) {
	l.tasks++
	l.opts.Go(l.owner, f)
}

// done is the end of a task.
func (l *Link) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tasks--; l.tasks == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// read passes on the server's messages until there are no more (SSE-03, SSE-05).
func (l *Link) read() {
	defer l.done()
	defer l.stream.Close()
	for {
		e, err := l.events.Next()
		if l.skip(err) {
			continue
		}
		if err != nil {
			l.lose(l.why(err))
			return
		}
		if e.Type != sse.DefaultType || len(e.Data) == 0 { // WIRE-11; a second endpoint is not heeded
			continue
		}
		l.mu.Lock()
		over := l.over
		l.mu.Unlock()
		if over {
			return
		}
		l.opts.Sink.Frame(e.Data)
	}
}

// skip reports whether a message was too long and its end was found, and tells the sink
// (WIRE-04, ROB-2).
func (l *Link) skip(err error) bool {
	long, ok := errors.AsType[*sse.TooLongError](err)
	sink, tells := l.opts.Sink.(mcp.SkipSink)
	if !ok || !tells {
		return false
	}
	sink.Skipped(long.Head, long.Tail, l.opts.TooLong)
	return true
}

// why says how the stream ended; nil is in order.
func (l *Link) why(err error) error {
	if err == io.EOF || l.ctx.Err() != nil { // or we are closing
		return nil
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the event stream was cut off")
	}
	return fmt.Errorf("reading the event stream: %w", err)
}

// lose ends the link for the connection. Close is still to come.
func (l *Link) lose(err error) {
	l.lost.Do(func() { l.opts.Sink.Lost(err) })
}

// Close implements [mcp.Link]. What was queued still gets a second; then the stream
// and all POSTs end. It takes at most some seconds.
func (l *Link) Close() error {
	l.close.Do(func() {
		defer close(l.closed)
		l.mu.Lock()
		l.closing = true
		drained := make(chan struct{})
		if l.sending && l.ctx.Err() == nil {
			l.drained = drained
		} else {
			close(drained)
		}
		l.mu.Unlock()
		pause.Until(drained, drainTime)

		l.mu.Lock()
		l.over, l.queue, l.bytes = true, nil, 0
		idle := make(chan struct{})
		if l.tasks == 0 {
			close(idle)
		} else {
			l.idle = idle
		}
		l.mu.Unlock()
		l.end(errClosed)
		pause.Until(idle, endTime)
		l.lose(nil)
	})
	<-l.closed
	return nil
}
