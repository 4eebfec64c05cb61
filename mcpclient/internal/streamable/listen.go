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
	l.own = &ownStream{link: l, n: -1, cursor: cursor{retry: defaultRetry}}
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
// connection, and the stream has no reader and no timer.
type ownStream struct {
	link *Link
	cursor
	alarm *time.Timer // rings when nothing has come for long; nil if no goroutine waits for the server

	n       int32 // connections in a row that have brought nothing; -1 before the first, and on one that has brought an event
	refused bool  // the last attempt, with 401

	// Of a connection.
	woken bool      // it was parked, and has brought no message since
	place sse.Place // where the next reader begins

	// Under the lock of the link.
	body io.ReadCloser // of the connection, an [httpguard.Stream] if it can be waited for; nil without one
	end  func(error)   // ends what the goroutine is at, and the connection; nil if to close the body does
	wait Wait          // nil unless the stream is parked
}

// listen carries the stream until it is parked, or over.
func (s *ownStream) listen() {
	defer s.link.done()
	for again := true; again && s.link.passes(); {
		if s.body == nil {
			if s.n >= 0 && !s.pause() {
				break
			}
			again = s.ask()
		}
		if s.body != nil && s.read() {
			return
		}
		s.n++
	}
	s.still()
	s.link.mu.Lock()
	s.link.own = nil
	s.link.mu.Unlock()
}

// begin returns the context of a step of the goroutine.
func (s *ownStream) begin() context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	s.at(nil, end)
	return ctx
}

// at says what the goroutine is at, and how that is ended, which is done at once if the link has ended.
func (s *ownStream) at(body io.ReadCloser, end func(error)) {
	s.link.mu.Lock()
	s.body, s.end = body, end
	over := s.link.over
	s.link.mu.Unlock()
	if over {
		s.abort(errClosed)
	}
}

// abort ends what the goroutine is at, and the connection.
func (s *ownStream) abort(why error) {
	s.link.mu.Lock()
	body, end := s.body, s.end
	s.link.mu.Unlock()
	switch {
	case end != nil:
		end(why)
	case body != nil:
		body.Close()
	}
}

// expect sets the alarm: something is to come from the server.
func (s *ownStream) expect() {
	if s.alarm == nil {
		s.alarm = time.AfterFunc(quietTime, func() { s.abort(errQuiet) })
	} else {
		s.alarm.Reset(quietTime)
	}
}

// still takes the alarm back.
func (s *ownStream) still() {
	if s.alarm != nil {
		s.alarm.Stop()
		s.alarm = nil
	}
}

// pause waits before the next connection, and reports false if the link has ended.
func (s *ownStream) pause() bool {
	s.still()
	wait := max(s.retry, minBackoff, backoff(int(s.n)-1))
	if s.n >= manyRefusals && s.refused {
		wait = quietTime
	}
	return pause.For(s.begin(), wait) == nil || s.link.passes()
}

// ask makes a connection, and reports whether another is to follow.
func (s *ownStream) ask() (again bool) {
	l, before := s.link, s.n >= 0
	ctx := s.begin()
	s.expect()
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
		l.trouble("")
		s.connected(resp)
		return true
	}
	defer resp.Body.Close()
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized: // what proves who we are may be good again later
		l.trouble(fmt.Sprintf(refusedStream, l.denied(resp, l.SessionID(), &StatusError{Status: status}, nil), "it is tried again"))
		return true
	case status == http.StatusForbidden:
		l.trouble(fmt.Sprintf(refusedStream, l.denied(resp, l.SessionID(), &StatusError{Status: status}, nil), "it is not tried again on this connection"))
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
		l.log.Debug("the server has no stream of its own", "status", status)
		return false
	}
}

// connected begins to read an answer.
func (s *ownStream) connected(resp *http.Response) {
	s.place = sse.Place{}
	stream := httpguard.StreamOf(resp)
	if stream == nil {
		s.at(httpguard.Body(resp, -1), s.end)
		return
	}
	s.at(stream, nil)
	if s.woken = s.link.opts.WhenReadable != nil; s.woken {
		stream.Idle(wokenTime)
	}
}

// read reads a connection until the stream is parked, which it reports, or to its end.
func (s *ownStream) read() (parked bool) {
	l := s.link
	stream, _ := s.body.(*httpguard.Stream)
	in := sse.NewReader((*alarmed)(s), l.opts.MaxMessage)
	in.SkipLong()
	in.PauseOn(httpguard.ErrIdle)
	in.GoOn(s.place)
	for {
		events, _, err := s.events(in, s.skip, func(frame []byte) bool {
			if s.woken {
				s.woken = false
				stream.Idle(parkTime) // more may follow
			}
			s.received(frame)
			return false
		})
		if events > 0 {
			s.n = -1
		}
		if err == httpguard.ErrIdle {
			s.place = in.Place()
			if s.park(stream) {
				return true // another goroutine may have it already
			}
			stream.Idle(0)
			continue
		}
		if unusable(err) {
			l.log.Warn("the server's own stream cannot be read", "error", err)
		}
		s.body.Close()
		s.abort(nil)
		s.at(nil, nil)
		s.woken = false
		return false
	}
}

// park lets the system wait for the connection, and reports false if it does not. Else the
// goroutine that calls it has no more to do with the stream.
func (s *ownStream) park(stream *httpguard.Stream) bool {
	l := s.link
	alarm := s.alarm
	l.mu.Lock()
	defer l.mu.Unlock()
	s.alarm = nil // before another goroutine can have the stream
	if l.over {
		alarm.Stop()
		return true
	}
	wait, ok := l.opts.WhenReadable(l.opts.owner, stream, quietTime, s.wake)
	if !ok {
		s.alarm = alarm
		return false
	}
	if s.wait = wait; !alarm.Stop() {
		wait.Wake() // it has just rung
	}
	return true
}

// wake goes on with a stream that is parked.
func (s *ownStream) wake() {
	l := s.link
	l.mu.Lock()
	wait := s.wait // nil if the link has ended
	if wait != nil {
		s.wait = nil
		l.tasks++
	}
	l.mu.Unlock()
	if wait == nil {
		return
	}
	if wait.Late() { // the connection may be half open
		s.abort(errQuiet)
	}
	s.woken = true
	s.body.(*httpguard.Stream).Idle(wokenTime)
	s.expect()
	s.listen()
}

// stop ends the stream with its link.
func (s *ownStream) stop() {
	s.link.mu.Lock()
	wait := s.wait
	s.wait = nil
	s.link.mu.Unlock()
	if wait != nil {
		wait.Cancel() // before the connection is closed
	}
	s.abort(errClosed)
}

// skip is told of a message of the server's own stream that was too long.
func (s *ownStream) skip(long *sse.TooLongError) {
	l := s.link
	if sink, ok := l.sink.(mcp.SkipSink); ok && l.passes() {
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
		l.sink.Frame(frame)
	}
}

// alarmed is the body of a stream, whose alarm it puts off with every read.
type alarmed ownStream

func (a *alarmed) Read(dst []byte) (int, error) {
	n, err := a.body.Read(dst)
	if n > 0 {
		(*ownStream)(a).expect()
	}
	return n, err
}
