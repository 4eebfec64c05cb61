package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"

	"github.com/troupe-dev/troupe/mcp"
)

// streams are the event streams of one legacy HTTP session: those that its client opens
// by GET, for what belongs to no request, and those of its POSTs. It is the session's
// output. An idle session has none, and this is all that it holds.
type streams struct {
	hub    *hub
	log    eventLog
	opened func() // told of each GET stream that has a connection; may be nil

	mu      sync.Mutex // is locked before a stream
	gets    []*stream  // those opened by GET, also disconnected ones that can be resumed
	pending [][]byte   // messages for the first GET that comes
	waiting int        // bytes in pending
	closed  bool
}

// These bound what a session without a GET stream keeps for one (SHL-32), and how many
// it may have.
const (
	maxPending      = 256
	maxPendingBytes = 1 << 20
	maxGets         = 8
)

// errBacklog is returned for a message that nobody fetches.
var errBacklog = errors.New("the client has no stream for messages of the server, and too many wait for one")

func newStreams(h *hub) *streams {
	t := &streams{hub: h}
	t.log.hub = h
	return t
}

// post returns the stream of a POST, in a session of revision v.
func (t *streams) post(v mcp.Version) *stream {
	ids, prime := resumable(v)
	if !ids || t.hub.noResume {
		return t.hub.plain()
	}
	return t.log.open(prime)
}

// push sends a message that belongs to no request, on exactly one GET stream: the newest
// that has a connection. While there is none it waits (SHL-31, SHL-32).
func (t *streams) push(frame []byte) error {
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

// write implements output. A client that has no stream is not broken.
func (t *streams) write(frame []byte) error {
	if err := t.push(frame); err != nil {
		t.hub.logger.Debug("dropping a message", "error", err)
	}
	return nil
}

func (t *streams) queue(frame []byte) error { return t.write(frame) }
func (t *streams) flush() error             { return nil }

// close implements output: all streams end, and nothing of them is kept.
func (t *streams) close(context.Context) error {
	t.mu.Lock()
	gets := t.gets
	t.closed, t.gets, t.pending, t.waiting = true, nil, nil, 0
	t.mu.Unlock()
	for _, s := range gets {
		s.end()
	}
	t.log.close()
	return nil
}

// conns counts the connections that are open, but for those of POSTs that can not be
// resumed.
func (t *streams) conns() int {
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

// listening reports whether what is pushed now goes out: the streams of POSTs do not
// carry it (SHL-31).
func (t *streams) listening() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.gets, (*stream).connected)
}

// get answers a GET of a session of revision v (SHL-20): with a new stream, or with the
// rest of one, also of a POST's (SHL-41). It returns when the stream has ended or lives
// on without a goroutine.
func (t *streams) get(w http.ResponseWriter, r *http.Request, v mcp.Version) {
	ids, prime := resumable(v)
	c, own, err := standing(nil), true, error(nil)
	if last := r.Header.Get("Last-Event-ID"); last != "" && ids && !t.hub.noResume {
		c, own, err = t.take(w, r, last)
	} else {
		c, err = t.listen(w, r, ids && !t.hub.noResume, prime)
	}
	switch {
	case err == nil:
		if own && t.opened != nil {
			t.opened()
		}
		_ = c.run(r.Context()) // why it ended matters to nobody
	case errors.Is(err, errUnknown): // not 404, which is the end of the session (SHL-42, SHL-52)
		refuse(w, http.StatusBadRequest, mcp.ID{}, invalid("unknown or expired event id"))
	case errors.Is(err, errManyStreams):
		refuse(w, http.StatusTooManyRequests, mcp.ID{}, invalid("the session has too many streams"))
	default:
		refuse(w, http.StatusNotFound, mcp.ID{}, invalid("the session has ended"))
	}
}

// standing is a connection that is written until its stream has ended.
type standing interface {
	conn
	run(ctx context.Context) error
}

var errManyStreams = errors.New("too many streams")

// listen opens a stream, and sends on it what has waited.
func (t *streams) listen(w http.ResponseWriter, r *http.Request, ids, prime bool) (standing, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return nil, errShutdown
	case !t.room():
		return nil, errManyStreams
	}
	s := t.hub.plain()
	if ids {
		s = t.log.open(prime)
		s.lossy = true
	}
	c := newStanding(s, w, r)
	if err := s.attach(c); err != nil {
		s.end()
		return nil, err
	}
	t.gets = append(t.gets, s)
	t.deliver(s)
	return c, nil
}

// take takes up a stream again, and reports whether it is one of GET.
func (t *streams) take(w http.ResponseWriter, r *http.Request, last string) (c standing, own bool, err error) {
	s, after, ok := t.log.find(last)
	if !ok {
		return nil, false, errUnknown
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, false, errShutdown
	}
	c = newStanding(s, w, r)
	if err := s.resume(c, after); err != nil {
		return nil, false, err
	}
	if own = slices.Contains(t.gets, s); own {
		t.deliver(s)
	}
	return c, own, nil
}

// deliver sends what has waited for a stream. The lock is held.
func (t *streams) deliver(s *stream) {
	for _, frame := range t.pending {
		s.send(frame)
	}
	t.pending, t.waiting = nil, 0
}

// room makes room for one stream more, at the cost of the oldest that has lost its
// connection. The lock is held.
func (t *streams) room() bool {
	t.gets = slices.DeleteFunc(t.gets, func(s *stream) bool { return s.log == nil && !s.connected() })
	if len(t.gets) < maxGets {
		return true
	}
	i := slices.IndexFunc(t.gets, func(s *stream) bool { return !s.connected() })
	if i < 0 {
		return false
	}
	t.gets[i].end()
	t.gets = slices.Delete(t.gets, i, i+1)
	return true
}
