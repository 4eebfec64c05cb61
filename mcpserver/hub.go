package mcpserver

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// hub is what the event streams of a server have in common: one clock for all their
// keep-alives (WIRE-13) and for the age of what they keep, one budget for all logs, and
// their end when the server shuts down.
//
// It is locked last: nothing is called with mu held.
type hub struct {
	hubOptions
	logged atomic.Int64 // bytes in all logs
	// waiting are the bytes that wait for readers, of all streams with a connection.
	waiting atomic.Int64
	hurry   atomic.Bool // the server shuts down

	mu     sync.Mutex
	wheel  [slots]map[*stream]struct{} // streams with a connection
	put    int                         // where the next stream goes
	at     int                         // the slot that was looked at last
	conns  int                         // in all slots
	logs   map[*eventLog]struct{}      // those that hold anything
	clock  *time.Timer                 // nil before the first stream
	ticks  bool                        // the clock runs
	closed bool

	due []*stream // the clock's own
}

// hubOptions are those of the server that matter here, with their defaults.
type hubOptions struct {
	every     time.Duration // between two keep-alives
	retry     time.Duration // what clients are told to wait before they come again
	maxEvents int           // in the log of a session
	maxBytes  int
	noResume  bool
	logger    *slog.Logger
	task      func(func()) // runs something that may wait, on a goroutine of its own
}

const (
	// slots spread the keep-alives of many streams over the time between two.
	slots = 16
	// maxLogged bounds what all logs of a server hold, in bytes (ROB-3).
	maxLogged = 64 << 20
	// maxAge is how long events are kept for a client that has lost its connection.
	maxAge = 5 * time.Minute
	// writeTime is how long one write may take until the reader is called slow.
	writeTime = 10 * time.Second
	// hurryTime is the same once the server shuts down.
	hurryTime = time.Second
)

// streamOptions are those that the server was given.
func (s *Server) streamOptions() hubOptions {
	return hubOptions{
		every: s.opts.KeepAlive, retry: s.opts.RetryAfter,
		maxEvents: s.opts.MaxEvents, maxBytes: s.opts.MaxEventBytes, noResume: s.opts.NoResume,
		logger: s.log,
		task:   func(f func()) { s.sys.Go("streams", f) },
	}
}

func newHub(o hubOptions) *hub {
	return &hub{hubOptions: o, logs: make(map[*eventLog]struct{})}
}

// plain returns a stream without ids: what is lost with its connection is lost (SHM-08).
func (h *hub) plain() *stream {
	s := &stream{hub: h, fresh: true}
	s.mu = &s.own
	return s
}

// add makes a stream with a connection known. It fails once the hub is closed.
func (h *hub) add(s *stream) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	s.slot = h.put
	h.put = (h.put + 1) % slots
	if h.wheel[s.slot] == nil {
		h.wheel[s.slot] = make(map[*stream]struct{})
	}
	h.wheel[s.slot][s] = struct{}{}
	h.conns++
	h.start()
	return true
}

// connected reports whether any stream has a connection.
func (h *hub) connected() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.conns > 0
}

func (h *hub) remove(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.wheel[s.slot][s]; ok {
		delete(h.wheel[s.slot], s)
		h.conns--
	}
}

// holds makes a log known that is not empty any more, or forgets one that is.
func (h *hub) holds(l *eventLog, anything bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !anything || h.closed {
		delete(h.logs, l)
		return
	}
	h.logs[l] = struct{}{}
	h.start()
}

// start lets the clock run. The lock is held.
func (h *hub) start() {
	switch {
	case h.ticks:
		return
	case h.clock == nil:
		h.clock = time.AfterFunc(h.every/slots, h.tick)
	default:
		h.clock.Reset(h.every / slots)
	}
	h.ticks = true
}

// tick looks after one slot. It runs on the clock's goroutine, one at a time.
func (h *hub) tick() {
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
		h.clock.Reset(h.every / slots)
	}
}

// close ends all connections, after what is queued for them, and takes no more.
func (h *hub) close() {
	h.hurry.Store(true)
	h.mu.Lock()
	h.closed = true
	if h.clock != nil {
		h.clock.Stop()
	}
	var all []*stream
	for _, slot := range h.wheel {
		for s := range slot {
			all = append(all, s)
		}
	}
	clear(h.logs)
	h.mu.Unlock()
	for _, s := range all {
		s.hurry()
		s.end()
	}
}

// deadline is until when a write that begins now has to be done.
func (h *hub) deadline() time.Time {
	if h.hurry.Load() {
		return time.Now().Add(hurryTime)
	}
	return time.Now().Add(writeTime)
}
