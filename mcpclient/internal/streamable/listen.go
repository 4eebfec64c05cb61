package streamable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/troupe-dev/troupe/internal/pause"
	"github.com/troupe-dev/troupe/internal/sse"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
)

var errQuiet = errors.New("nothing has come for a long time")

// refusedStream is what is said of a refusal; its arguments are the reason and what
// follows.
const refusedStream = "the server refuses its event stream, so changes of its lists, its log messages and its questions may not arrive: %v; %s"

// manyRefusals are refusals in a row after which the stream is tried seldom.
const manyRefusals = 8

// ListenGET opens the stream for what the server sends on its own account, once a legacy
// session has begun and the server has taken notifications/initialized (SHL-20), and
// keeps it open. A server without one is as good.
func (l *Link) ListenGET() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listening || l.closing || l.modern() {
		return
	}
	l.listening = true
	if l.wantsGET = l.held; !l.held {
		l.openOwn()
	}
}

// ownStream is the server's own stream, over as many connections as it takes.
type ownStream struct {
	link *Link
	cursor
}

// listen reads the stream, again and again, until the server does not want it.
func (s *ownStream) listen() {
	l := s.link
	defer l.done()
	for n := -1; ; n++ {
		wait := max(s.retry, minBackoff, backoff(n-1))
		if n >= manyRefusals && s.refused {
			wait = quietTime
		}
		if n >= 0 && pause.For(l.ctx, wait) != nil {
			return
		}
		events, again := s.read(n >= 0)
		if !again || l.ctx.Err() != nil {
			return
		}
		if events > 0 {
			n = -1
		}
	}
}

// read reads one connection of the stream to its end, and reports whether another is to
// follow. before is set if there was one.
func (s *ownStream) read(before bool) (events int, again bool) {
	l := s.link
	ctx, cancel := context.WithCancelCause(l.ctx)
	defer cancel(nil)
	alarm := time.AfterFunc(quietTime, func() { cancel(errQuiet) }) // a half-open connection
	defer alarm.Stop()
	resp, err := l.get(httpguard.Unattended(ctx), s.last)
	l.letGo()
	if err != nil {
		if l.ctx.Err() == nil && ctx.Err() == nil && errors.Is(err, httpguard.ErrUnsent) {
			l.lose(err)
			return 0, false
		}
		return 0, true
	}
	defer resp.Body.Close()
	s.refused = resp.StatusCode == http.StatusUnauthorized
	switch status := resp.StatusCode; {
	case status == http.StatusOK && mediaType(resp.Header) == typeStream:
		l.opts.Trouble("")
	case status == http.StatusUnauthorized: // what proves who we are may be good again later
		l.opts.Trouble(fmt.Sprintf(refusedStream, l.server.denied(resp, l.SessionID(), &StatusError{Status: status}, nil), "it is tried again"))
		return 0, true
	case status == http.StatusForbidden:
		l.opts.Trouble(fmt.Sprintf(refusedStream, l.server.denied(resp, l.SessionID(), &StatusError{Status: status}, nil), "it is not tried again on this connection"))
		return 0, false
	case status/100 == 5, status == http.StatusTooManyRequests:
		return 0, true
	case status == http.StatusConflict && before: // it has not seen yet that the one before has ended
		return 0, true
	case status == http.StatusBadRequest && s.last != "": // the id is of no use any more (SHL-42), the stream may be
		s.last = ""
		return 0, true
	case status == http.StatusNotFound && before && l.SessionID() != "": // SHL-52
		l.sessionLost()
		return 0, false
	default: // SHL-20: 405, or what others say for it; a 404 may be all that there is for a GET
		l.opts.Log.Debug("the server has no stream of its own", "status", status)
		return 0, false
	}
	body := &alarmed{httpguard.Body(resp, -1), alarm}
	events, _, err = s.events(body, l.opts.MaxMessage, s.skip, func(frame []byte) bool {
		s.received(frame)
		return false
	})
	if unusable(err) {
		l.opts.Log.Warn("the server's own stream cannot be read", "error", err)
	}
	return events, true
}

// skip is told of a message of the server's own stream that was too long.
func (s *ownStream) skip(long *sse.TooLongError) {
	l := s.link
	if sink, ok := l.opts.Sink.(mcp.SkipSink); ok && l.passes() {
		sink.Skipped(long.Head, long.Tail, l.opts.TooLong)
	}
}

// received passes on a message that belongs to no request. An answer does not belong here
// (SHL-21), but it is the server's: then its own stream is of no use any more.
func (s *ownStream) received(frame []byte) {
	l := s.link
	m := messages.Get().(*mcp.Message)
	defer func() {
		*m = mcp.Message{}
		messages.Put(m)
	}()
	if err := mcp.Scan(frame, m); err == nil && (m.Kind == mcp.KindResult || m.Kind == mcp.KindError) {
		l.mu.Lock()
		if p := l.posts[m.ID]; p != nil {
			delete(l.posts, m.ID)
			p.end(nil)
		}
		l.mu.Unlock()
	}
	if l.passes() {
		l.opts.Sink.Frame(frame)
	}
}

// alarmed puts an alarm off with every read.
type alarmed struct {
	io.Reader
	alarm *time.Timer
}

func (a *alarmed) Read(dst []byte) (int, error) {
	n, err := a.Reader.Read(dst)
	if n > 0 {
		a.alarm.Reset(quietTime)
	}
	return n, err
}
