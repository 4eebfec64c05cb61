package streams

import (
	"crypto/rand"
	"encoding/base64"
	"strconv"
	"strings"
	"sync"
	"time"
)

// eventLog keeps the newest events of all streams of a session, so that a client that has
// lost its connection gets the events that it missed (SHL-40, SHL-41). It is bounded in events,
// in bytes and in time; the newest event stays, unless all logs together are far too
// large.
type eventLog struct {
	set *Set

	mu      sync.Mutex // guards the log and all its streams, which change together on the goroutines of senders, that no actor may delay
	tag     string     // the beginning of all ids; "" before the first stream
	newest  uint64     // the number of the newest stream
	streams map[uint64]*Stream
	entries []logEntry // entries[head:] are kept, oldest first
	head    int
	bytes   int // of all of them
	closed  bool
}

// logEntry is one event.
type logEntry struct {
	stream *Stream
	number uint64
	event  []byte
	at     time.Time
}

// open returns a new stream.
func (l *eventLog) open(prime bool) *Stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tag == "" {
		var random [6]byte
		_, _ = rand.Read(random[:]) // never fails
		l.tag = base64.RawURLEncoding.EncodeToString(random[:])
		l.streams = make(map[uint64]*Stream)
	}
	l.newest++
	s := &Stream{set: l.set, log: l, number: l.newest, prime: prime, fresh: true}
	if !l.closed {
		l.streams[s.number] = s
	}
	return s
}

// id names an event by the session's tag, the stream, and the place in it. It is
// unique over all streams of all sessions (SHL-40).
func (l *eventLog) id(s *Stream, number uint64) string {
	var room [maxEventID]byte
	return string(appendEventID(room[:0], l.tag, s.number, number))
}

// maxEventID bounds the length of an id, in bytes.
const maxEventID = 48

func appendEventID(dst []byte, tag string, stream, number uint64) []byte {
	dst = append(dst, tag...)
	dst = append(dst, '.')
	dst = appendNumber(dst, stream)
	dst = append(dst, '.')
	return appendNumber(dst, number)
}

// readEventID reads an id that appendEventID has written. It refuses other notations of the
// same numbers.
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

// find returns the stream of an event of this session. [Stream.resume] checks whether the
// log still has the events that followed.
func (l *eventLog) find(id string) (s *Stream, after uint64, ok bool) {
	tag, number, after, ok := readEventID(id)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !ok || tag != l.tag || l.tag == "" {
		return nil, 0, false
	}
	s = l.streams[number]
	return s, after, s != nil
}

// keep adds an event. Callers hold the lock, here and below unless a comment says that the method locks.
func (l *eventLog) keep(s *Stream, event []byte) {
	if l.closed {
		return
	}
	if l.head == len(l.entries) {
		l.set.holds(l, true)
	}
	l.entries = append(l.entries, logEntry{s, s.last, event, time.Now()})
	s.held++
	l.bytes += len(event)
	l.set.logged.Add(int64(len(event)))
	for n := len(l.entries) - l.head; n > 1 && (n > l.set.MaxEvents || l.bytes > l.set.MaxBytes || l.set.logged.Load() > maxLogged); n-- {
		l.drop()
	}
	if l.set.logged.Load() > 2*maxLogged { // many sessions with one large event each
		l.drop()
	}
}

// drop drops the oldest event.
func (l *eventLog) drop() {
	e := &l.entries[l.head]
	s := e.stream
	s.dropped = e.number
	s.held--
	l.bytes -= len(e.event)
	l.set.logged.Add(-int64(len(e.event)))
	*e = logEntry{}
	if l.head++; l.head == len(l.entries) {
		l.entries, l.head = nil, 0
		l.set.holds(l, false)
	} else if l.head >= 64 && l.head > len(l.entries)/2 {
		n := copy(l.entries, l.entries[l.head:])
		clear(l.entries[n:])
		l.entries, l.head = l.entries[:n], 0
	}
	l.tidy(s)
}

// tidy drops an ended stream without events.
func (l *eventLog) tidy(s *Stream) {
	if s.ended && s.held == 0 && s.conn == nil {
		delete(l.streams, s.number)
	}
}

// after returns the events that followed one on the same stream (SHL-41).
func (l *eventLog) after(s *Stream, number uint64) (events [][]byte, bytes int) {
	for _, e := range l.entries[l.head:] {
		if e.stream == s && e.number > number {
			events = append(events, e.event)
			bytes += len(e.event)
		}
	}
	return events, bytes
}

// expire drops the events from before a time. It locks.
func (l *eventLog) expire(before time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.head < len(l.entries) && l.entries[l.head].at.Before(before) {
		l.drop()
	}
}

// close drops all events and ends all streams. It locks.
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

// connected counts the streams with a connection. It locks.
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
