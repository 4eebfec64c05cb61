package streams

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Set is all event streams of a server. It has one clock for their keep-alives (WIRE-13)
// and for the age of the events that they keep, one budget for all event logs, and ends
// all streams when the server shuts down.
type Set struct {
	Options
	logged  atomic.Int64 // bytes in all logs
	waiting atomic.Int64 // bytes that wait for readers, of all streams with a connection
	hurry   atomic.Bool  // the server shuts down

	mu     sync.Mutex                  // guards the fields below, which streams of any goroutine change in passing, under their own locks, where none may wait for an actor; the last lock in the order
	wheel  [slots]map[*Stream]struct{} // streams with a connection
	put    int                         // where the next stream goes
	at     int                         // the slot of the last tick
	conns  int                         // in all slots
	logs   map[*eventLog]struct{}      // those that hold events
	clock  *time.Timer                 // nil before the first stream
	ticks  bool                        // the clock runs
	closed bool

	due []*Stream // of the clock's goroutine
}

// Options changes how streams work. All but NoResume are required.
type Options struct {
	KeepAlive time.Duration // between two keep-alives
	Retry     time.Duration // how long clients wait before they resume a stream
	MaxEvents int           // in the log of one session
	MaxBytes  int           // of these events
	NoResume  bool          // streams have no event log
	Logger    *slog.Logger
	Go        func(func()) // runs a function that may block, on a goroutine of its own
}

const (
	// slots spread the keep-alives of many streams over the time between two.
	slots = 16
	// maxLogged bounds the bytes in all logs of a server (ROB-3).
	maxLogged = 64 << 20
	// maxAge is how long events are kept for a client that has lost its connection.
	maxAge = 5 * time.Minute
	// writeTime bounds one write. A client that needs longer is a slow reader.
	writeTime = 10 * time.Second
	// silence bounds the time without acknowledgement of written bytes. The kernel's own
	// bound for a client that has vanished is a quarter of an hour.
	silence = time.Minute
	// hurryTime bounds one write when the server shuts down.
	hurryTime = time.Second
)

// NewSet returns a set without streams.
func NewSet(o Options) *Set {
	return &Set{Options: o, logs: make(map[*eventLog]struct{})}
}

// Plain returns a stream without ids, which ends with its connection (SHM-08).
func (h *Set) Plain() *Stream {
	return &Stream{set: h, fresh: true}
}

// Typed returns a plain stream whose events name a type. When its connection ends, gone
// is called.
func (h *Set) Typed(eventType string, gone func(err error)) *Stream {
	s := h.Plain()
	s.eventType, s.gone = eventType, gone
	return s
}

// add adds a stream that has a connection. It reports false once the set is closed.
func (h *Set) add(s *Stream) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	s.slot = h.put
	h.put = (h.put + 1) % slots
	if h.wheel[s.slot] == nil {
		h.wheel[s.slot] = make(map[*Stream]struct{})
	}
	h.wheel[s.slot][s] = struct{}{}
	h.conns++
	h.start()
	return true
}

// Connected reports whether any stream has a connection.
func (h *Set) Connected() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.conns > 0
}

func (h *Set) remove(s *Stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.wheel[s.slot][s]; ok {
		delete(h.wheel[s.slot], s)
		h.conns--
	}
}

// holds records whether a log holds events.
func (h *Set) holds(l *eventLog, anything bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !anything || h.closed {
		delete(h.logs, l)
		return
	}
	h.logs[l] = struct{}{}
	h.start()
}

// start starts the clock. The lock is held.
func (h *Set) start() {
	switch {
	case h.ticks:
		return
	case h.clock == nil:
		h.clock = time.AfterFunc(h.KeepAlive/slots, h.tick)
	default:
		h.clock.Reset(h.KeepAlive / slots)
	}
	h.ticks = true
}

// tick keeps the connections of one slot alive. It runs on the clock's goroutine, one at a time.
func (h *Set) tick() {
	var old []*eventLog
	h.mu.Lock()
	h.at = (h.at + 1) % slots
	for s := range h.wheel[h.at] {
		h.due = append(h.due, s)
	}
	if h.at == 0 {
		for l := range h.logs {
			old = append(old, l)
		}
	}
	h.mu.Unlock()

	for i, s := range h.due {
		s.ping()
		h.due[i] = nil
	}
	h.due = h.due[:0]
	for _, l := range old {
		l.expire(time.Now().Add(-maxAge))
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	h.ticks = !h.closed && (h.conns > 0 || len(h.logs) > 0)
	if h.ticks {
		h.clock.Reset(h.KeepAlive / slots)
	}
}

// Close ends all streams after their queued events, and refuses new connections.
func (h *Set) Close() {
	h.hurry.Store(true)
	h.mu.Lock()
	h.closed = true
	if h.clock != nil {
		h.clock.Stop()
	}
	var all []*Stream
	for _, slot := range h.wheel {
		for s := range slot {
			all = append(all, s)
		}
	}
	clear(h.logs)
	h.mu.Unlock()
	for _, s := range all {
		s.hurry()
		s.End()
	}
}

// deadline returns the deadline of a write that begins now.
func (h *Set) deadline() time.Time {
	if h.hurry.Load() {
		return time.Now().Add(hurryTime)
	}
	return time.Now().Add(writeTime)
}
