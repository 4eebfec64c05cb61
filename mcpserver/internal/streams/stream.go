// stream.go: one event stream to a client, over as many connections as it takes.
//
//	        attach               take … take            finish, end
//	fresh ──────────▶ connected ─────────────▶ … ────────────────────────▶ over
//	                   │      ▲
//	    client gone,   │      │ resume (with a log only)
//	    slow, closeConn▼      │
//	                  detached ──▶ over, if there is no log
//
// Senders leave messages in the queue and never wait; the connection takes the queue when
// it can write. One that will wait for the client may write its message itself: SendHere.

// Package streams carries messages to HTTP clients as event streams that outlive their
// connections: with event ids and a log, so that a client can resume, with keep-alives, and
// with bounds for slow readers.
//
//	set := streams.NewSet(options)          // one for a server
//	session := set.NewSession()             // one for a legacy session
//	err := session.Get(w, r, version)       // the stream of a GET
//	stream := session.Post(version)         // the stream of a POST: Send, Finish, Serve
//	stream := set.Plain()                   // without a log
//
// No sender waits for a client. A stream over HTTP/1.1 without TLS that a client opens
// by GET has no goroutine.
package streams

import (
	"errors"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/sse"
)

// Why a connection of a stream has ended.
var (
	errGone     = errors.New("the client has closed the stream")
	errSlow     = errors.New("the client reads its stream too slowly")
	errReplaced = errors.New("the client has resumed the stream on another connection")
)

// Why a GET is refused.
var (
	ErrUnknownEvent = errors.New("unknown or expired event id")
	ErrTooMany      = errors.New("the session has too many streams")
	ErrClosed       = errors.New("the session has ended")
)

// ErrShutdown refuses a connection once the set is closed.
var ErrShutdown = errors.New("the server is shutting down")

// Bounds on the queue of a slow reader. A single message is always accepted.
const (
	maxQueue       = 1000
	maxQueuedBytes = 4 << 20
	// While more than maxWaiting bytes wait for all readers, a reader with more than fairShare
	// bytes counts as slow: one client may have many streams (ROB-3).
	maxWaiting = 24 << 20
	fairShare  = 128 << 10
)

// keepAlive is a comment, which clients ignore (WIRE-13).
var keepAlive = sse.AppendComment(nil, "")

// conn is one connection of a stream. Its methods do not block.
type conn interface {
	// kick announces events to take. The stream is not locked.
	kick()
	// cut detaches the connection from the stream; a kick follows. The stream is locked.
	cut(cause error)
	// hurry bounds a write that is under way. The stream is locked.
	hurry()
}

// Stream is one event stream. Its methods may be used from any goroutine.
type Stream struct {
	set       *Set
	log       *eventLog // nil: the stream cannot be resumed
	number    uint64    // in the log
	prime     bool      // it begins with an event that only has an id (SHL-40)
	lossy     bool      // it can be resumed although events are missing
	eventType string    // of its events; usually none
	gone      func(err error)

	mu   sync.Mutex // of a stream without a log, see mutex: senders of any goroutine share the fields below with the connection, without a message to an actor for each
	slot int        // in the hub

	conn   conn   // nil when detached
	fresh  bool   // no connection yet: messages wait for it
	paused bool   // this connection ends after the queue; the stream goes on (SHL-40)
	ended  bool   // nothing more is sent
	until  uint32 // the connection's end, in seconds since 1970; 0 is none
	queue  [][]byte
	queued int // bytes in queue
	taken  int // bytes that the connection has taken and may not have written yet

	last    uint64 // the number of the newest event; the priming event has 0
	dropped uint64 // events up to here are not in the log any more
	held    int    // events in the log
}

// mutex returns the mutex that guards the stream: its log's, which changes with it, or its own.
func (s *Stream) mutex() *sync.Mutex {
	if s.log != nil {
		return &s.log.mu
	}
	return &s.mu
}

// Send adds a message. A message beyond the bounds of a slow reader ends its connection.
func (s *Stream) Send(frame []byte) { s.add(frame, false) }

// Finish adds the last message (SHL-13).
func (s *Stream) Finish(frame []byte) { s.add(frame, true) }

// SendHere is Send for a goroutine that will wait for what the client makes of the message: it
// writes the message itself where it can, which saves waking the goroutine of the connection.
func (s *Stream) SendHere(frame []byte) {
	s.mutex().Lock()
	if s.ended {
		s.mutex().Unlock()
		return
	}
	event, c := s.newest(frame), s.conn
	h, ok := c.(*handlerConn)
	lent := ok && h.lend(len(event))
	if !lent {
		s.enqueue(event)
	}
	s.mutex().Unlock()
	switch {
	case lent:
		h.writeLent(event)
	case c != nil:
		c.kick()
	}
}

func (s *Stream) add(frame []byte, last bool) {
	s.mutex().Lock()
	c := s.put(frame)
	if last {
		c = s.over()
	}
	s.mutex().Unlock()
	if c != nil {
		c.kick()
	}
}

// offer adds a message if the stream has a connection (SHL-32).
func (s *Stream) offer(frame []byte) bool {
	s.mutex().Lock()
	if s.conn == nil || s.paused || s.ended {
		s.mutex().Unlock()
		return false
	}
	c := s.put(frame)
	s.mutex().Unlock()
	c.kick()
	return true
}

// End ends the stream after its queue.
func (s *Stream) End() {
	s.mutex().Lock()
	c := s.over()
	s.mutex().Unlock()
	if c != nil {
		c.kick()
	}
}

// CloseConn ends the connection, but not the stream: the client comes again after a
// pause, for the messages of the meantime (SHL-40). It does nothing for a client that would not come again.
func (s *Stream) CloseConn(pause time.Duration) {
	s.mutex().Lock()
	c := s.conn
	if !s.prime || s.ended || s.paused || c == nil && !s.fresh {
		s.mutex().Unlock()
		return
	}
	if pause <= 0 {
		pause = s.set.Retry
	}
	event, err := sse.AppendEvent(nil, &sse.Event{Retry: pause, HasRetry: true})
	_ = err // the event has neither type nor id
	s.enqueue(event)
	s.paused = true
	s.mutex().Unlock()
	if c != nil {
		c.kick()
	}
}

// Begin sends an event that is no message before all others.
func (s *Stream) Begin(kind, data string) {
	event, err := sse.AppendEvent(nil, &sse.Event{Type: kind, Data: []byte(data)})
	_ = err // the type is ours
	s.mutex().Lock()
	defer s.mutex().Unlock()
	s.enqueue(event)
}

// put encodes a message, logs and queues it. It returns the connection to kick, nil for
// none. The lock is held.
func (s *Stream) put(frame []byte) conn {
	if s.ended {
		return nil
	}
	event, c := s.newest(frame), s.conn
	s.enqueue(event)
	return c
}

// newest encodes and logs a message. The lock is held.
func (s *Stream) newest(frame []byte) (event []byte) {
	s.last++
	event = s.encode(frame)
	if s.log != nil {
		s.log.keep(s, event)
	}
	return event
}

// encode returns a message as the newest event.
func (s *Stream) encode(frame []byte) []byte {
	e := sse.Event{Type: s.eventType, Data: frame}
	event := make([]byte, 0, len(frame)+48)
	if s.log != nil {
		e.ID, e.HasID = s.log.id(s, s.last), true
	}
	event, err := sse.AppendEvent(event, &e)
	_ = err // the type is ours and ids are made of digits
	return event
}

// enqueue queues an encoded event for the connection, or for the first one.
func (s *Stream) enqueue(event []byte) {
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
		s.set.waiting.Add(int64(len(event)))
	}
}

// unfair reports whether the reader exceeds its share while all readers together exceed theirs.
func (s *Stream) unfair() bool {
	return s.conn != nil && s.queued+s.taken > fairShare && s.set.waiting.Load() > maxWaiting
}

// cut detaches the connection. A stream without a log is over then.
func (s *Stream) cut(cause error) {
	if s.conn != nil {
		s.set.waiting.Add(-int64(s.queued + s.taken))
		s.taken = 0
		s.conn.cut(cause)
		s.conn = nil
		s.set.remove(s)
	}
	s.fresh, s.paused, s.queue, s.queued = false, false, nil, 0
	if s.log == nil {
		s.ended = true
	} else {
		s.log.tidy(s)
	}
}

// over refuses further messages. It returns the connection to kick.
func (s *Stream) over() conn {
	s.ended = true
	if s.log != nil {
		s.log.tidy(s)
	}
	return s.conn
}

// attach makes c the first connection, until a time that may be zero.
func (s *Stream) attach(c conn, until time.Time) error {
	s.mutex().Lock()
	defer s.mutex().Unlock()
	switch {
	case !s.fresh:
		return errSlow // its queue has exceeded the bounds
	case !s.set.add(s):
		return ErrShutdown
	}
	s.conn, s.fresh = c, false
	s.limit(until)
	s.set.waiting.Add(int64(s.queued))
	if s.prime {
		s.queue = append([][]byte{s.priming()}, s.queue...)
	}
	return nil
}

// limit sets the end of the connection. A bare zero would be none.
func (s *Stream) limit(until time.Time) {
	if s.until = 0; !until.IsZero() {
		s.until = uint32(min(max(1, until.Unix()), math.MaxUint32))
	}
}

// priming returns the event whose id the client can resume from before it has received another (SHL-40).
func (s *Stream) priming() []byte {
	event, err := sse.AppendEvent(nil, &sse.Event{ID: s.log.id(s, 0), HasID: true, Retry: s.set.Retry, HasRetry: true})
	_ = err // ids are made of digits
	return event
}

// resume makes c the connection, in place of an earlier one, for the events that followed
// the one with the given number (SHL-41).
func (s *Stream) resume(c conn, after uint64, until time.Time) error {
	s.mutex().Lock()
	if !s.follows(after) {
		s.mutex().Unlock()
		return ErrUnknownEvent
	}
	replaced := s.conn
	s.cut(errReplaced)
	if !s.set.add(s) {
		s.mutex().Unlock()
		return ErrShutdown
	}
	s.conn = c
	s.limit(until)
	s.queue, s.queued = s.log.after(s, after)
	s.set.waiting.Add(int64(s.queued))
	s.mutex().Unlock()
	if replaced != nil {
		replaced.kick()
	}
	return nil
}

// follows reports whether the log has all events after the given one, and whether there are or
// will be any.
//
// A GET stream goes on although events are missing, such as notifications to a computer
// that was asleep: clients take a refusal as the end of all notifications, or of the session.
// A request would wait for a response that may be among the missing (SHL-42).
func (s *Stream) follows(after uint64) bool {
	return !s.fresh && (after >= s.dropped || s.lossy) && after <= s.last && !(s.ended && after == s.last)
}

// take passes the queue to the connection. If last is true, nothing follows on it. If ours
// is false, c is not the connection any more.
func (s *Stream) take(c conn, into [][]byte) (events [][]byte, last bool, ours bool) {
	s.mutex().Lock()
	defer s.mutex().Unlock()
	return s.grab(c, into)
}

// grab is take with the lock held.
func (s *Stream) grab(c conn, into [][]byte) (events [][]byte, last bool, ours bool) {
	if s.conn != c {
		return nil, true, false
	}
	events = append(into, s.queue...)
	s.set.waiting.Add(-int64(s.taken)) // the connection has written them
	s.taken = s.queued
	s.queue, s.queued = nil, 0 // most streams are quiet most of the time
	return events, s.ended || s.paused, true
}

// detach ends a connection.
func (s *Stream) detach(c conn, err error) {
	s.mutex().Lock()
	if s.conn == c {
		s.cut(err)
	}
	s.mutex().Unlock()
	if s.gone != nil {
		s.gone(err)
	}
}

// ping sends a keep-alive on a quiet connection, or ends it when its time is over: then it
// can be resumed as after CloseConn, if it can be.
func (s *Stream) ping() {
	s.mutex().Lock()
	c := s.conn
	if s.until != 0 && time.Now().Unix() >= int64(s.until) {
		s.paused = true
	}
	if c != nil && len(s.queue) == 0 && !s.ended && !s.paused {
		s.enqueue(keepAlive)
	}
	s.mutex().Unlock()
	if c != nil {
		c.kick()
	}
}

// hurry bounds a write that is under way.
func (s *Stream) hurry() {
	s.mutex().Lock()
	defer s.mutex().Unlock()
	if s.conn != nil {
		s.conn.hurry()
	}
}

// connected reports whether the stream has a connection.
func (s *Stream) connected() bool {
	s.mutex().Lock()
	defer s.mutex().Unlock()
	return s.conn != nil
}

// Open reports whether a message may reach the client, now or later.
func (s *Stream) Open() bool {
	s.mutex().Lock()
	defer s.mutex().Unlock()
	return !s.ended
}

// appendNumber writes a number as short as it can be read.
func appendNumber(dst []byte, n uint64) []byte { return strconv.AppendUint(dst, n, 36) }
