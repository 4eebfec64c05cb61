package mcpserver

import (
	"crypto/rand"
	"encoding/base64"
	"strconv"
	"strings"
	"sync"
	"time"
)

// eventLog keeps the newest events of all streams of a session, so that a client which
// has lost a connection gets what it missed (SHL-40, SHL-41). It is bounded in events,
// in bytes and in time; the newest event is kept, unless all logs together are far too
// large.
type eventLog struct {
	hub *hub

	mu      sync.Mutex // of the log and all its streams
	tag     string     // what the ids begin with; "" before the first stream
	newest  uint64     // the number of the newest stream
	streams map[uint64]*stream
	entries []logEntry // entries[head:] are kept, oldest first
	head    int
	bytes   int // of all of them
	closed  bool
}

// logEntry is one event.
type logEntry struct {
	stream *stream
	number uint64
	event  []byte
	at     time.Time
}

// open returns a new stream.
func (l *eventLog) open(prime bool) *stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tag == "" {
		var random [6]byte
		_, _ = rand.Read(random[:]) // never fails
		l.tag = base64.RawURLEncoding.EncodeToString(random[:])
		l.streams = make(map[uint64]*stream)
	}
	l.newest++
	s := &stream{hub: l.hub, log: l, number: l.newest, prime: prime, mu: &l.mu, fresh: true}
	if !l.closed {
		l.streams[s.number] = s
	}
	return s
}

// id names an event: the session's own tag, the stream, and the place in it. It is
// unique over all streams of all sessions (SHL-40).
func (l *eventLog) id(s *stream, number uint64) string {
	var room [maxEventID]byte
	return string(appendEventID(room[:0], l.tag, s.number, number))
}

// maxEventID is more than any id has, in bytes.
const maxEventID = 48

func appendEventID(dst []byte, tag string, stream, number uint64) []byte {
	dst = append(dst, tag...)
	dst = append(dst, '.')
	dst = appendNumber(dst, stream)
	dst = append(dst, '.')
	return appendNumber(dst, number)
}

// readEventID reads what appendEventID has written, and nothing else: no other way of
// writing the same numbers.
func readEventID(id string) (tag string, stream, number uint64, ok bool) {
	if len(id) > maxEventID {
		return "", 0, 0, false
	}
	tag, rest, ok1 := strings.Cut(id, ".")
	first, second, ok2 := strings.Cut(rest, ".")
	stream, err1 := strconv.ParseUint(first, 36, 64)
	number, err2 := strconv.ParseUint(second, 36, 64)
	if !ok1 || !ok2 || err1 != nil || err2 != nil {
		return "", 0, 0, false
	}
	var room [maxEventID]byte
	again := appendEventID(room[:0], tag, stream, number)
	return tag, stream, number, string(again) == id
}

// find returns the stream of an event of this session. Whether what followed is still
// there is known to [stream.resume].
func (l *eventLog) find(id string) (s *stream, after uint64, ok bool) {
	tag, number, after, ok := readEventID(id)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !ok || tag != l.tag || l.tag == "" {
		return nil, 0, false
	}
	s = l.streams[number]
	return s, after, s != nil
}

// keep adds an event. The lock is held, here and below unless it is said otherwise.
func (l *eventLog) keep(s *stream, event []byte) {
	if l.closed {
		return
	}
	if l.head == len(l.entries) {
		l.hub.holds(l, true)
	}
	l.entries = append(l.entries, logEntry{s, s.last, event, time.Now()})
	s.held++
	l.bytes += len(event)
	l.hub.logged.Add(int64(len(event)))
	for n := len(l.entries) - l.head; n > 1 && (n > l.hub.maxEvents || l.bytes > l.hub.maxBytes || l.hub.logged.Load() > maxLogged); n-- {
		l.drop()
	}
	if l.hub.logged.Load() > 2*maxLogged { // many sessions with one large event each
		l.drop()
	}
}

// drop forgets the oldest event.
func (l *eventLog) drop() {
	e := &l.entries[l.head]
	s := e.stream
	s.dropped = e.number
	s.held--
	l.bytes -= len(e.event)
	l.hub.logged.Add(-int64(len(e.event)))
	*e = logEntry{}
	if l.head++; l.head == len(l.entries) {
		l.entries, l.head = nil, 0
		l.hub.holds(l, false)
	} else if l.head >= 64 && l.head > len(l.entries)/2 {
		n := copy(l.entries, l.entries[l.head:])
		clear(l.entries[n:])
		l.entries, l.head = l.entries[:n], 0
	}
	l.tidy(s)
}

// tidy forgets a stream of which nothing is left to be had.
func (l *eventLog) tidy(s *stream) {
	if s.ended && s.held == 0 && s.conn == nil {
		delete(l.streams, s.number)
	}
}

// after returns what followed an event on its stream, and on no other (SHL-41).
func (l *eventLog) after(s *stream, number uint64) (events [][]byte, bytes int) {
	for _, e := range l.entries[l.head:] {
		if e.stream == s && e.number > number {
			events = append(events, e.event)
			bytes += len(e.event)
		}
	}
	return events, bytes
}

// expire forgets what is older than before. It locks.
func (l *eventLog) expire(before time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.head < len(l.entries) && l.entries[l.head].at.Before(before) {
		l.drop()
	}
}

// close forgets everything and ends all streams. It locks.
func (l *eventLog) close() {
	l.mu.Lock()
	l.closed = true
	var kick []conn
	for _, s := range l.streams {
		if c := s.over(); c != nil {
			kick = append(kick, c)
		}
	}
	for l.head < len(l.entries) {
		l.drop()
	}
	l.streams = nil
	l.mu.Unlock()
	for _, c := range kick {
		c.kick()
	}
}

// connected counts the streams that have a connection. It locks.
func (l *eventLog) connected() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, s := range l.streams {
		if s.conn != nil {
			n++
		}
	}
	return n
}
