// stream.go: one event stream to a client, over as many connections as it takes.
//
//	        attach               take … take            finish, end
//	fresh ──────────▶ connected ─────────────▶ … ────────────────────────▶ over
//	                   │      ▲
//	    client gone,   │      │ resume (with a log only)
//	    slow, closeConn▼      │
//	                  detached ──▶ over, if there is no log
//
// Whoever has a message leaves it in the queue and never waits; the connection takes
// the queue when it can be written to.

package mcpserver

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/sse"
	"github.com/troupe-dev/troupe/mcp"
)

// Why a connection of a stream has ended.
var (
	errGone     = errors.New("the client has closed the stream")
	errSlow     = errors.New("the client reads its stream too slowly")
	errReplaced = errors.New("the client has taken up the stream elsewhere")
	errUnknown  = errors.New("the event id is not known, or what followed it is not kept any more")
	errShutdown = errors.New("the server is shutting down")
)

// These bound what waits for a slow reader. A single message is always taken.
const (
	maxQueue       = 1000
	maxQueuedBytes = 4 << 20
	// When more than maxWaiting bytes wait for all readers, those are slow for whom
	// more than fairShare does: one client may have many streams (ROB-3).
	maxWaiting = 24 << 20
	fairShare  = 128 << 10
)

// keepAlive is a comment, which clients ignore (WIRE-13).
var keepAlive = sse.AppendComment(nil, "")

// conn is one connection of a stream. Its methods do not block.
type conn interface {
	// kick says that there is something to take. The stream is not locked.
	kick()
	// cut says that it is not the stream's connection any more, and why. It is kicked
	// too. The stream is locked.
	cut(cause error)
	// hurry bounds a write that is under way. The stream is locked.
	hurry()
}

// stream is one event stream. Its methods may be used from any goroutine.
type stream struct {
	hub    *hub
	log    *eventLog // nil: it can not be resumed
	number uint64    // in the log
	prime  bool      // it begins with an event that only has an id (SHL-40)
	lossy  bool      // it may be resumed where events are missing
	kind   string    // the type that events name; usually none
	gone   func(err error)

	mu   *sync.Mutex // the log's, or own; guards what follows
	own  sync.Mutex
	slot int // in the hub

	conn   conn // nil when detached
	fresh  bool // there was no connection yet: what is sent waits for it
	paused bool // this connection ends with what is queued; the stream goes on (SHL-40)
	ended  bool // nothing more is sent
	queue  [][]byte
	queued int // bytes in queue
	taken  int // bytes that the connection has taken and may still write

	last    uint64 // the number of the newest event; the priming event has 0
	dropped uint64 // events up to here are not in the log any more
	held    int    // events in the log
}

// send adds a message. What can not be kept for a slow reader ends its connection.
func (s *stream) send(frame []byte) { s.add(frame, false) }

// finish adds the last message (SHL-13).
func (s *stream) finish(frame []byte) { s.add(frame, true) }

func (s *stream) add(frame []byte, last bool) {
	s.mu.Lock()
	c := s.put(frame)
	if last {
		c = s.over()
	}
	s.mu.Unlock()
	if c != nil {
		c.kick()
	}
}

// offer adds a message if there is a connection to take it (SHL-32).
func (s *stream) offer(frame []byte) bool {
	s.mu.Lock()
	if s.conn == nil || s.paused || s.ended {
		s.mu.Unlock()
		return false
	}
	c := s.put(frame)
	s.mu.Unlock()
	c.kick()
	return true
}

// end ends the stream after what is queued.
func (s *stream) end() {
	s.mu.Lock()
	c := s.over()
	s.mu.Unlock()
	if c != nil {
		c.kick()
	}
}

// closeConn ends the connection, but not the stream: the client is to come again
// after a pause, for what is sent meanwhile (SHL-40). It does nothing where the client
// would not know.
func (s *stream) closeConn(pause time.Duration) {
	s.mu.Lock()
	c := s.conn
	if !s.prime || s.ended || s.paused || c == nil && !s.fresh {
		s.mu.Unlock()
		return
	}
	if pause <= 0 {
		pause = s.hub.retry
	}
	event, err := sse.AppendEvent(nil, &sse.Event{Retry: pause, HasRetry: true})
	_ = err // it has neither type nor id
	s.enqueue(event)
	s.paused = true
	s.mu.Unlock()
	if c != nil {
		c.kick()
	}
}

// begin puts an event that is no message before all others.
func (s *stream) begin(kind, data string) {
	event, err := sse.AppendEvent(nil, &sse.Event{Type: kind, Data: []byte(data)})
	_ = err // the type is ours
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enqueue(event)
}

// put encodes a message and leaves it where it belongs. It returns the connection to
// kick, nil if there is none. The lock is held.
func (s *stream) put(frame []byte) conn {
	if s.ended {
		return nil
	}
	s.last++
	event := s.encode(frame)
	if s.log != nil {
		s.log.keep(s, event)
	}
	c := s.conn
	s.enqueue(event)
	return c
}

// encode returns the event with the number of the newest.
func (s *stream) encode(frame []byte) []byte {
	e := sse.Event{Type: s.kind, Data: frame}
	event := make([]byte, 0, len(frame)+48)
	if s.log != nil {
		e.ID, e.HasID = s.log.id(s, s.last), true
	}
	event, err := sse.AppendEvent(event, &e)
	_ = err // the type is ours and ids are made of digits
	return event
}

// enqueue leaves an encoded event to the connection, or to that which is to come.
func (s *stream) enqueue(event []byte) {
	if s.conn == nil && !s.fresh || s.paused {
		return
	}
	if n := len(s.queue); n > 0 && (n >= maxQueue || s.queued+len(event) > maxQueuedBytes || s.unfair()) {
		s.cut(errSlow)
		return
	}
	s.queue = append(s.queue, event)
	s.queued += len(event)
	if s.conn != nil {
		s.hub.waiting.Add(int64(len(event)))
	}
}

// unfair reports whether too much waits for the reader, while too much waits for all.
func (s *stream) unfair() bool {
	return s.conn != nil && s.queued+s.taken > fairShare && s.hub.waiting.Load() > maxWaiting
}

// cut takes the connection away. Without a log the stream is over.
func (s *stream) cut(cause error) {
	if s.conn != nil {
		s.hub.waiting.Add(-int64(s.queued + s.taken))
		s.taken = 0
		s.conn.cut(cause)
		s.conn = nil
		s.hub.remove(s)
	}
	s.fresh, s.paused, s.queue, s.queued = false, false, nil, 0
	if s.log == nil {
		s.ended = true
	} else {
		s.log.tidy(s)
	}
}

// over takes no more messages. It returns the connection to kick.
func (s *stream) over() conn {
	s.ended = true
	if s.log != nil {
		s.log.tidy(s)
	}
	return s.conn
}

// attach makes c the first connection.
func (s *stream) attach(c conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.fresh:
		return errSlow // it has been cut for what waited
	case !s.hub.add(s):
		return errShutdown
	}
	s.conn, s.fresh = c, false
	s.hub.waiting.Add(int64(s.queued))
	if s.prime {
		s.queue = append([][]byte{s.priming()}, s.queue...)
	}
	return nil
}

// priming is the event by which the client can come again, before there is any other
// (SHL-40).
func (s *stream) priming() []byte {
	event, err := sse.AppendEvent(nil, &sse.Event{ID: s.log.id(s, 0), HasID: true, Retry: s.hub.retry, HasRetry: true})
	_ = err // ids are made of digits
	return event
}

// resume makes c the connection, in place of the one that there may be, for what
// followed the event with the given number (SHL-41).
func (s *stream) resume(c conn, after uint64) error {
	s.mu.Lock()
	if !s.follows(after) {
		s.mu.Unlock()
		return errUnknown
	}
	replaced := s.conn
	s.cut(errReplaced)
	if !s.hub.add(s) {
		s.mu.Unlock()
		return errShutdown
	}
	s.conn = c
	s.queue, s.queued = s.log.after(s, after)
	s.hub.waiting.Add(int64(s.queued))
	s.mu.Unlock()
	if replaced != nil {
		replaced.kick()
	}
	return nil
}

// follows reports whether all that came after an event is kept, and whether anything
// has come or will.
//
// A stream of GET goes on even if something was forgotten, such as notices to a computer
// that was asleep: clients take a refusal for the end of all notices, or of everything.
// A request would wait for an answer that may have been among it (SHL-42).
func (s *stream) follows(after uint64) bool {
	return !s.fresh && (after >= s.dropped || s.lossy) && after <= s.last && !(s.ended && after == s.last)
}

// take hands what waits over to the connection. If last, nothing follows on it. The
// error says why c is not the connection any more.
func (s *stream) take(c conn, into [][]byte) (events [][]byte, last bool, ours bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return nil, true, false
	}
	events = append(into, s.queue...)
	s.hub.waiting.Add(-int64(s.taken)) // that is written
	s.taken = s.queued
	s.queue, s.queued = nil, 0 // a standing stream is quiet most of the time
	return events, s.ended || s.paused, true
}

// detach is the end of a connection, for whatever reason.
func (s *stream) detach(c conn, err error) {
	s.mu.Lock()
	if s.conn == c {
		s.cut(err)
	}
	s.mu.Unlock()
	if s.gone != nil {
		s.gone(err)
	}
}

// ping keeps a quiet connection alive.
func (s *stream) ping() {
	s.mu.Lock()
	c := s.conn
	if c != nil && len(s.queue) == 0 && !s.ended && !s.paused {
		s.enqueue(keepAlive)
	}
	s.mu.Unlock()
	if c != nil {
		c.kick()
	}
}

// hurry bounds the write that is under way, if any.
func (s *stream) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.hurry()
	}
}

// connected reports whether there is a connection.
func (s *stream) connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn != nil
}

// open reports whether what is sent may reach the client, now or later.
func (s *stream) open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended
}

// resumable reports whether streams of a revision have ids, and whether they begin
// with one.
func resumable(v mcp.Version) (ids, prime bool) {
	return v.Era() == mcp.EraLegacy && v >= mcp.V2025_03_26, v == mcp.V2025_11_25
}

// appendNumber writes a number as short as it can be read.
func appendNumber(dst []byte, n uint64) []byte { return strconv.AppendUint(dst, n, 36) }
