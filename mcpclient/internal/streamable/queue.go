package streamable

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/pause"
	"github.com/troupe-dev/troupe/mcp"
)

var errSlow = errors.New("the server does not take the message")

// enqueue puts a notification or an answer in line. The lock is held.
func (l *Link) enqueue(p *post) error {
	n := l.inLine()
	if len(n.queue) >= maxQueue || n.bytes+len(p.body.frame) > maxQueuedBytes {
		p.end(errClosed)
		return fmt.Errorf("%w: the server does not take them", call.ErrBusy)
	}
	n.bytes += len(p.body.frame)
	n.queue = append(n.queue, p)
	if p.method == mcp.NotificationInitialized {
		l.held = true
	}
	if n.sending == nil {
		n.sending = p
		l.task(l.pump)
	}
	return nil
}

// pump sends what is in line, one after the other.
func (l *Link) pump() {
	defer l.done()
	for p := l.nextQueued(); p != nil; p = l.nextQueued() {
		p.control()
		if p.method == mcp.NotificationInitialized {
			l.release()
		}
	}
}

func (l *Link) nextQueued() *post {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.line // it has the one before at least
	if len(n.queue) == 0 {
		n.queue, n.sending = nil, nil
		if n.drained != nil {
			close(n.drained)
			n.drained = nil
		}
		l.tidy()
		return nil
	}
	p := n.queue[0]
	n.queue[0] = nil
	n.queue = n.queue[1:]
	n.bytes -= len(p.body.frame)
	n.sending = p
	return p
}

// control sends a message that has no answer (SHL-11).
func (p *post) control() {
	defer p.end(nil)
	limit := time.AfterFunc(controlTime, func() { p.end(errSlow) })
	defer limit.Stop()
	if r := p.taken; r != nil {
		defer r.end(errCancel)
		if !r.settled(p.ctx) {
			return // the server does not have it whole: closing its stream is enough
		}
	}
	resp, err := p.send()
	if err != nil {
		p.undelivered(err)
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		p.refused(resp)
		return
	}
	tail(resp.Body) // some answer with a stream that does not end
}

// settled waits until the server can have all of a request, so that the notification
// that takes it back does not overtake it (CANC-02).
func (p *post) settled(ctx context.Context) bool {
	limit := time.NewTimer(writeTime)
	defer limit.Stop()
	select {
	case <-p.body.done():
	case <-p.ctx.Done():
		return p.body.state.Load() == written
	case <-limit.C:
		return false
	}
	return pause.For(ctx, overtakeTime) == nil // what is written may still be in a buffer
}

// undelivered is a notification or answer that did not reach the server.
func (p *post) undelivered(err error) {
	if !p.link.passes() {
		return // the link is being closed
	}
	if cause := context.Cause(p.ctx); cause != nil {
		err = cause
	}
	err = plain(err)
	p.link.log.Warn("a message did not reach the server", "method", p.method, "kind", p.kind.String(), "error", err)
	if p.body.unsent() && p.ctx.Err() == nil && !isTransport(err) {
		p.link.lose(err)
	}
}

// drain waits for what is in line, but not longer than d.
func (l *Link) drain(d time.Duration) {
	l.mu.Lock()
	if l.line == nil || l.line.sending == nil {
		l.mu.Unlock()
		return
	}
	drained := make(chan struct{})
	l.line.drained = drained
	l.mu.Unlock()
	pause.Until(drained, d)
}

// Close implements [mcp.Link]. What was queued still gets a second; then all streams
// end, and a session with them (SHL-53, SHL-60). It takes at most some seconds.
func (l *Link) Close() error {
	l.mu.Lock()
	first := l.closed == nil
	if first {
		l.closing, l.closed = true, make(chan struct{})
	}
	l.mu.Unlock()
	if first {
		l.shutDown()
		close(l.closed)
	}
	<-l.closed
	return nil
}

func (l *Link) shutDown() {
	l.drain(drainTime)
	l.mu.Lock()
	l.over = true
	own := l.own
	l.abort()
	idle := make(chan struct{})
	if l.tasks == 0 {
		close(idle)
	} else {
		l.idle = idle
	}
	l.mu.Unlock()
	if own != nil {
		own.stop()
	}
	l.leave()
	pause.Until(idle, endTime)
	l.lose(nil)
}

// abort ends all messages that are on their way. The lock is held.
func (l *Link) abort() {
	for p := range l.posts.all {
		p.end(errClosed)
	}
	l.posts = posts{}
	if l.line == nil {
		return
	}
	for _, p := range append(l.line.queue, l.line.sending) {
		if p == nil {
			continue
		}
		if p.end(errClosed); p.taken != nil {
			p.taken.end(errClosed)
		}
	}
}

// leave ends the session, if there is one. Whatever comes of it, it is over for us.
func (l *Link) leave() {
	l.mu.Lock()
	session, header := l.session, http.Header(nil)
	if session != "" {
		header = l.header().base
	}
	l.mu.Unlock()
	if session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	resp, err := l.authorized(ctx, http.MethodDelete, header, l.transport().RoundTrip)
	if err != nil {
		l.log.Debug("the session was not ended", "error", plain(err))
		return
	}
	discard(resp.Body)
	resp.Body.Close()
}
