package streams

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// Session is the event streams of one legacy session over HTTP: those that its client opens by GET,
// for messages that belong to no request, and those of its POSTs. An idle session has
// no stream, and holds nothing but this.
type Session struct {
	set *Set
	log eventLog

	// Opened is called when a GET stream has a connection; nil calls nothing. It is set before
	// the first request.
	Opened func()

	mu      sync.Mutex // guards the fields below, which requests of any goroutine change in passing: an idle session has no actor for its streams; locked before a stream
	gets    []*Stream  // of GET, also those without a connection that can be resumed
	pending [][]byte   // messages for the next GET
	waiting int        // bytes in pending
	closed  bool
}

// Bounds on what a session without a GET stream keeps for the next (SHL-32), and on its
// streams.
const (
	maxPending      = 256
	maxPendingBytes = 1 << 20
	maxGets         = 8
)

// errBacklog is the error of a message beyond the bounds of a session without a stream.
var errBacklog = errors.New("the client has no stream for messages of the server, and too many wait for one")

// NewSession returns a session without streams.
func (h *Set) NewSession() *Session {
	t := &Session{set: h}
	t.log.set = h
	return t
}

// Post returns the stream of a POST, in a session of revision v.
func (t *Session) Post(v mcp.Version) *Stream {
	ids, prime := t.resumable(v)
	if !ids {
		return t.set.Plain()
	}
	return t.log.open(prime)
}

// resumable reports whether streams of a revision have ids, and whether they begin with
// one.
func (t *Session) resumable(v mcp.Version) (ids, prime bool) {
	ids = !t.set.NoResume && v.Era() == mcp.EraLegacy && v >= mcp.V2025_03_26
	return ids, ids && v == mcp.V2025_11_25
}

// push sends a message that belongs to no request on exactly one GET stream: the newest
// with a connection. Without one the message waits for the next (SHL-31, SHL-32).
func (t *Session) push(frame []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	for _, s := range slices.Backward(t.gets) {
		if s.offer(frame) {
			return nil
		}
	}
	if len(t.pending) >= maxPending || t.waiting+len(frame) > maxPendingBytes {
		return errBacklog
	}
	t.pending = append(t.pending, bytes.Clone(frame))
	t.waiting += len(frame)
	return nil
}

// Write sends a message that belongs to no request. A client without a stream is no error.
func (t *Session) Write(frame []byte) error {
	if err := t.push(frame); err != nil {
		t.set.Logger.Debug("dropping a message", "error", err)
	}
	return nil
}

// Append is Write: streams gather by themselves what a connection has not taken yet.
func (t *Session) Append(frame []byte) error { return t.Write(frame) }

// Flush does nothing.
func (t *Session) Flush() error { return nil }

// Close ends all streams and drops their events.
func (t *Session) Close(context.Context) error {
	t.mu.Lock()
	gets := t.gets
	t.closed, t.gets, t.pending, t.waiting = true, nil, nil, 0
	t.mu.Unlock()
	for _, s := range gets {
		s.End()
	}
	t.log.close()
	return nil
}

// Connections counts the open connections, without those of POSTs that cannot be resumed.
func (t *Session) Connections() int {
	n := t.log.connected()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.gets {
		if s.log == nil && s.connected() {
			n++
		}
	}
	return n
}

// Listening reports whether a GET stream has a connection: streams of POSTs carry no messages
// that belong to no request (SHL-31).
func (t *Session) Listening() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.gets, (*Stream).connected)
}

// Get answers a GET of a session of revision v (SHL-20): with a new stream, or with the
// rest of an earlier one, which may be a POST's (SHL-41). It returns when the stream has ended, or
// goes on without a goroutine. The connection ends soon after until, unless that is zero. An
// error refuses the request; nothing is written then.
func (t *Session) Get(w http.ResponseWriter, r *http.Request, v mcp.Version, until time.Time) error {
	ids, prime := t.resumable(v)
	var c Standing
	var err error
	own := true
	if last := r.Header.Get("Last-Event-ID"); last != "" && ids {
		c, own, err = t.take(w, r, last, until)
	} else {
		c, err = t.listen(w, r, ids, prime, until)
	}
	if err != nil {
		return err
	}
	if own && t.Opened != nil {
		t.Opened()
	}
	_ = c.Run(r.Context()) // the reason of its end matters to no caller
	return nil
}

// Connect makes a client that stays for long the stream's first connection. It ends soon
// after until, unless that is zero.
func (s *Stream) Connect(w http.ResponseWriter, r *http.Request, until time.Time) (Standing, error) {
	c := newStanding(s, w, r)
	return c, s.attach(c, until)
}

// listen opens a stream and sends the pending messages on it.
func (t *Session) listen(w http.ResponseWriter, r *http.Request, ids, prime bool, until time.Time) (Standing, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return nil, ErrClosed
	case !t.room():
		return nil, ErrTooMany
	}
	s := t.set.Plain()
	if ids {
		s = t.log.open(prime)
		s.lossy = true
	}
	c := newStanding(s, w, r)
	if err := s.attach(c, until); err != nil {
		s.End()
		return nil, err
	}
	t.gets = append(t.gets, s)
	t.deliver(s)
	return c, nil
}

// take resumes a stream, and reports whether a GET had opened it.
func (t *Session) take(w http.ResponseWriter, r *http.Request, last string, until time.Time) (c Standing, own bool, err error) {
	s, after, ok := t.log.find(last)
	if !ok {
		return nil, false, ErrUnknownEvent
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, false, ErrClosed
	}
	c = newStanding(s, w, r)
	if err := s.resume(c, after, until); err != nil {
		return nil, false, err
	}
	if own = slices.Contains(t.gets, s); own {
		t.deliver(s)
	}
	return c, own, nil
}

// deliver sends the pending messages on a stream. The lock is held.
func (t *Session) deliver(s *Stream) {
	for _, frame := range t.pending {
		s.Send(frame)
	}
	t.pending, t.waiting = nil, 0
}

// room makes room for one more stream, if necessary by ending the oldest without a
// connection. The lock is held.
func (t *Session) room() bool {
	t.gets = slices.DeleteFunc(t.gets, func(s *Stream) bool { return s.log == nil && !s.connected() })
	if len(t.gets) < maxGets {
		return true
	}
	i := slices.IndexFunc(t.gets, func(s *Stream) bool { return !s.connected() })
	if i < 0 {
		return false
	}
	t.gets[i].End()
	t.gets = slices.Delete(t.gets, i, i+1)
	return true
}
