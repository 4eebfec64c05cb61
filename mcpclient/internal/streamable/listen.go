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
	l.own = &ownStream{link: l, n: -1, cursor: cursor{retry: defaultRetry}, end: func(error) {}}
	l.own.alarm = time.AfterFunc(quietTime, l.own.quiet)
	if l.wantsGET = l.held; !l.held {
		l.openOwn()
	}
}

// ownStream is the server's own stream, over as many connections as it takes.
//
//	pausing ──▶ asking ──▶ reading ⇄ parked
//	   ▲           │          │        │
//	   └───────────┴──────────┴────────┘  until the server does not want it, or the link ends
//
// One goroutine carries it, and none while it is parked: then the system waits for the
// connection.
type ownStream struct {
	link *Link
	cursor
	n     int         // connections in a row that have brought nothing; -1 before the first
	alarm *time.Timer // rings when nothing has come for long

	// Of a connection; nil without one.
	body  io.Closer
	in    *sse.Reader
	conn  *httpguard.Stream // that can be waited for; else nil
	live  bool              // it has brought an event
	woken bool              // it was parked, and has brought no message since

	// Under the lock of the link.
	end  func(error) // ends what the goroutine is at, and the connection
	wait Wait        // nil unless the stream is parked
}

// listen carries the stream until it is parked, or over.
func (s *ownStream) listen() {
	defer s.link.done()
	for again := true; again && s.link.passes(); {
		if s.in == nil {
			if s.n >= 0 && !s.pause() {
				break
			}
			again = s.ask()
		}
		if s.in != nil && s.read() {
			return
		}
		if s.n++; s.live {
			s.n, s.live = 0, false
		}
	}
	s.alarm.Stop()
	s.link.mu.Lock()
	s.link.own = nil
	s.link.mu.Unlock()
}

// begin returns the context of a step of the goroutine.
func (s *ownStream) begin() context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	s.ends(end)
	return ctx
}

// ends says how what the goroutine is at is ended, which is done at once if the link has ended.
func (s *ownStream) ends(end func(error)) {
	s.link.mu.Lock()
	s.end = end
	over := s.link.over
	s.link.mu.Unlock()
	if over {
		end(errClosed)
	}
}

// pause waits before the next connection, and reports false if the link has ended.
func (s *ownStream) pause() bool {
	s.alarm.Stop()
	wait := max(s.retry, minBackoff, backoff(s.n-1))
	if s.n >= manyRefusals && s.refused {
		wait = quietTime
	}
	return pause.For(s.begin(), wait) == nil || s.link.passes()
}

// ask makes a connection, and reports whether another is to follow.
func (s *ownStream) ask() (again bool) {
	l, before := s.link, s.n >= 0
	ctx := s.begin()
	s.alarm.Reset(quietTime)
	resp, err := l.get(httpguard.Lasting(httpguard.Unattended(ctx)), s.last)
	l.letGo()
	if err != nil {
		if ctx.Err() == nil && errors.Is(err, httpguard.ErrUnsent) {
			l.lose(err)
			return false
		}
		return true
	}
	s.refused = resp.StatusCode == http.StatusUnauthorized
	if resp.StatusCode == http.StatusOK && mediaType(resp.Header) == typeStream {
		l.opts.Trouble("")
		s.connected(resp)
		return true
	}
	defer resp.Body.Close()
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized: // what proves who we are may be good again later
		l.opts.Trouble(fmt.Sprintf(refusedStream, l.server.denied(resp, l.SessionID(), &StatusError{Status: status}, nil), "it is tried again"))
		return true
	case status == http.StatusForbidden:
		l.opts.Trouble(fmt.Sprintf(refusedStream, l.server.denied(resp, l.SessionID(), &StatusError{Status: status}, nil), "it is not tried again on this connection"))
		return false
	case status/100 == 5, status == http.StatusTooManyRequests:
		return true
	case status == http.StatusConflict && before: // it has not seen yet that the one before has ended
		return true
	case status == http.StatusBadRequest && s.last != "": // the id is of no use any more (SHL-42), the stream may be
		s.last = ""
		return true
	case status == http.StatusNotFound && before && l.SessionID() != "": // SHL-52
		l.sessionLost()
		return false
	default: // SHL-20: 405, or what others say for it; a 404 may be all that there is for a GET
		l.opts.Log.Debug("the server has no stream of its own", "status", status)
		return false
	}
}

// connected begins to read an answer.
func (s *ownStream) connected(resp *http.Response) {
	body := httpguard.Body(resp, -1)
	if s.conn = httpguard.StreamOf(resp); s.conn != nil {
		body = s.conn
		s.ends(func(error) { body.Close() })
		if s.woken = s.link.opts.WhenReadable != nil; s.woken {
			s.conn.Idle(wokenTime)
		}
	}
	s.body = body
	s.in = sse.NewReader(&alarmed{body, s.alarm}, s.link.opts.MaxMessage)
	s.in.SkipLong()
	s.in.PauseOn(httpguard.ErrIdle)
}

// read reads a connection until the stream is parked, which it reports, or to its end.
func (s *ownStream) read() (parked bool) {
	l := s.link
	for {
		events, _, err := s.events(s.in, s.skip, func(frame []byte) bool {
			if s.woken {
				s.woken = false
				s.conn.Idle(parkTime) // more may follow
			}
			s.received(frame)
			return false
		})
		s.live = s.live || events > 0
		if err == httpguard.ErrIdle && s.park() {
			return true // another goroutine may have it already
		}
		if err == httpguard.ErrIdle {
			s.conn.Idle(0)
			continue
		}
		if unusable(err) {
			l.opts.Log.Warn("the server's own stream cannot be read", "error", err)
		}
		s.body.Close()
		s.end(nil)
		s.body, s.in, s.conn, s.woken = nil, nil, nil, false
		return false
	}
}

// park lets the system wait for the connection, and reports false if it does not. Else the
// goroutine that calls it has no more to do with the stream.
func (s *ownStream) park() bool {
	l := s.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return true
	}
	wait, ok := l.opts.WhenReadable(l.owner, s.conn, s.wake)
	if ok {
		s.wait = wait
	}
	return ok
}

// wake goes on with a stream that is parked.
func (s *ownStream) wake() {
	l := s.link
	l.mu.Lock()
	parked := s.wait != nil // else the link has ended
	if parked {
		s.wait = nil
		l.tasks++
	}
	l.mu.Unlock()
	if parked {
		s.woken = true
		s.conn.Idle(wokenTime)
		s.listen()
	}
}

// quiet ends a connection on which nothing has come for long: it may be half open.
func (s *ownStream) quiet() {
	s.link.mu.Lock()
	end, wait := s.end, s.wait
	s.link.mu.Unlock()
	end(errQuiet)
	if wait != nil {
		wait.Wake()
	}
}

// stop ends the stream with its link.
func (s *ownStream) stop() {
	s.link.mu.Lock()
	end, wait := s.end, s.wait
	s.wait = nil
	s.link.mu.Unlock()
	if wait != nil {
		wait.Cancel() // before the connection is closed
	}
	end(errClosed)
	s.alarm.Stop()
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
		if p := l.posts.of(m.ID); p != nil {
			l.posts.remove(p.id)
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
