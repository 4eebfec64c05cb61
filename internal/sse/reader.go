package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"
)

// DefaultMax is the largest data of an event that a [Reader] takes unless told
// otherwise, in bytes (WIRE-04).
const DefaultMax = 4 << 20

const (
	// MaxID is the longest id that is kept, in bytes: it has to fit into a request
	// header to be of use.
	MaxID = 8 << 10
	// MaxRetry is the longest pause that a stream can ask for.
	MaxRetry = 24 * time.Hour

	maxOther     = 64 << 10 // bytes of all lines of an event that are not data
	minBuffer    = 1 << 10
	steadyBuffer = 64 << 10 // a buffer grows beyond this for a large event only, and is given back
	shrinkAfter  = 32       // events in a row that a small buffer would have done for
	maxEmptyRead = 100      // reads of nothing in a row before the source is called broken
	prefix       = len("data: ")
	edge         = 1 << 10 // bytes that are kept of both ends of an event that is skipped
	maxSkip      = 1 << 30 // bytes of an event, unless it may be larger: what is longer never ends
)

var bom = []byte("\xef\xbb\xbf")

// TooLongError is returned for an event with more than Max bytes of data, or
// with very much beside its data. Nothing more can be read from the stream, unless
// the reader skips such events.
type TooLongError struct {
	Max int // in bytes
	// Head and Tail are the first and the last bytes of the data of an event that was
	// skipped, at most 1 KiB each.
	Head, Tail []byte
	// ID is that of the event, if HasID is set.
	ID    string
	HasID bool
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("event is longer than %d bytes", e.Max)
}

// ErrEndless is returned for an event that a reader skips and that does not end.
var ErrEndless = errors.New("an event does not end")

// Reader reads the events of a stream. It holds at most its largest event in
// memory and is not safe for use by several goroutines.
type Reader struct {
	src   io.Reader
	max   int
	most  int   // bytes of an event that is being skipped
	pause error // of src, which is not its end; else nil
	skips bool  // events that are too long

	started  bool // past the byte order mark
	skipLF   bool // the line before ended in CR
	hasRetry bool
	retry    time.Duration

	buf      []byte
	pos, end int
	*reading // nil before the first event, and while src pauses
}

// reading is what is known of the event under way.
type reading struct {
	// buf[data:dataEnd] is the data of the event under way, joined in place: a line
	// is never shorter than what it adds. buf[pos:end] has been read and not yet
	// looked at. The data always lies before pos.
	data, dataEnd int
	lf, cr        mark

	event   Event
	open    bool // the event under way has a field that matters
	partial bool // it has any field
	hasData bool
	other   int // bytes of its lines that are not data

	long    *TooLongError // of the event that is being skipped; else nil
	skipped int           // bytes of it
	within  bool          // the beginning of its current line was dropped

	roomy  int
	srcErr error // what src ended with
	err    error // final
}

// NewReader returns a reader of the events of r. An event may have max bytes of
// data; zero means [DefaultMax].
func NewReader(r io.Reader, max int) *Reader {
	if max <= 0 {
		max = DefaultMax
	}
	return &Reader{src: r, max: max, most: max + maxSkip}
}

// SkipLong makes the reader skip an event that is too long: Next reads it to its end
// without keeping it, returns one [*TooLongError], and goes on behind it. One that has
// no end within 1 GiB is the end of the stream: [ErrEndless].
func (r *Reader) SkipLong() { r.skips = true }

// PauseOn makes err, where src returns it, no end: Next returns it if no event is under way,
// and then holds little more than src; the next call goes on. Within an event src is read again.
func (r *Reader) PauseOn(err error) { r.pause = err }

// Place is where a reader pauses in its stream. The zero Place is the beginning.
type Place struct{ started, skipLF bool }

// Place returns where the reader is when Next has returned the error of PauseOn. With it another reader of
// the same source goes on, so that a stream on which nothing comes needs none.
func (r *Reader) Place() Place { return Place{r.started, r.skipLF} }

// GoOn makes a new reader begin at p.
func (r *Reader) GoOn(p Place) { r.started, r.skipLF = p.started, p.skipLF }

// Next returns the next event that has data, an id or a retry, even if its data
// is empty (WIRE-11). It returns an event as soon as its last line is there.
//
// At the end of the stream it returns [io.EOF], or [io.ErrUnexpectedEOF] in the
// middle of an event, which is dropped as the grammar demands. Other errors are
// [*TooLongError] and those of the source. Every error is final, but that of PauseOn.
func (r *Reader) Next() (Event, error) {
	if r.reading == nil {
		r.reading = &reading{lf: mark{at: -1}, cr: mark{at: -1}}
	}
	if r.err != nil {
		return Event{}, r.err
	}
	r.reset()
	for {
		line, ok := r.line()
		switch {
		case ok && r.within: // the rest of a line
			r.within = false
			r.err = r.drop(line)
		case ok && len(line) > 0:
			r.err = r.field(line)
		case ok && r.long != nil:
			return Event{}, r.overlong()
		case ok && r.open:
			return r.finished(), nil
		case ok:
			r.reset() // a block without a field that matters is no event
		case r.end-r.pos-prefix+r.dataEnd-r.data > r.max, r.long != nil && r.end > r.pos+prefix:
			r.err = r.dropLine()
		case r.srcErr != nil:
			r.err = r.last()
		case !r.fill() && !r.partial && r.end == r.pos:
			r.buf, r.pos, r.end, r.reading = nil, 0, 0, nil
			return Event{}, r.pause
		}
		if r.err != nil {
			r.buf = nil
			return Event{}, r.err
		}
	}
}

// Retry returns the last pause that the stream has asked for, also if that was in
// an event which did not come to its end, and whether there was one.
func (r *Reader) Retry() (time.Duration, bool) { return r.retry, r.hasRetry }

func (r *Reader) reset() {
	r.event = Event{}
	r.open, r.partial, r.hasData, r.other = false, false, false, 0
	r.long, r.skipped, r.within = nil, 0, false
	r.data, r.dataEnd = r.pos, r.pos
}

// finished returns the event under way.
func (r *Reader) finished() Event {
	if r.event.Type == "" {
		r.event.Type = DefaultType
	}
	r.event.Data = r.buf[r.data:r.dataEnd:r.dataEnd]
	return r.event
}

// last is the error at the end of the source.
func (r *Reader) last() error {
	if r.srcErr == io.EOF && (r.partial || r.end > r.pos) {
		return io.ErrUnexpectedEOF
	}
	return r.srcErr
}

// line cuts the next line off the buffer, without its end, or reports false if
// there is none yet. A line that ends in CR does not wait for what follows.
func (r *Reader) line() ([]byte, bool) {
	if r.skipLF && r.end > r.pos {
		r.skipLF = false
		if r.buf[r.pos] == '\n' {
			r.pos++
		}
	}
	if !r.started && !r.start() {
		return nil, false
	}
	lf, cr := r.lf.find(r.buf, r.pos, r.end, '\n'), r.cr.find(r.buf, r.pos, r.end, '\r')
	at := lf
	if cr >= 0 && (lf < 0 || cr < lf) {
		at = cr
		r.skipLF = true
	}
	if at < 0 {
		return nil, false
	}
	line := r.buf[r.pos:at]
	r.pos = at + 1
	return line, true
}

// start drops a leading byte order mark; false means that it may still come.
func (r *Reader) start() bool {
	have := r.buf[r.pos:r.end]
	if len(have) < len(bom) && r.srcErr == nil && bytes.HasPrefix(bom, have) {
		return false
	}
	r.started = true
	if bytes.HasPrefix(have, bom) {
		r.pos += len(bom)
	}
	return true
}

// field takes one line that is not empty.
func (r *Reader) field(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte{':'})
	if len(name) == 0 {
		return nil // a comment
	}
	r.partial = true
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	if string(name) == "data" && r.long != nil {
		return r.drop(value)
	}
	if string(name) == "data" {
		return r.addData(value)
	}
	if r.other += len(line) + 1; r.other > maxOther {
		if err := r.tooLong(); err != nil {
			return err
		}
		r.other = 0
		if r.skipped += maxOther; r.skipped > r.most {
			return ErrEndless
		}
	}
	switch string(name) {
	case "event":
		r.event.Type = typeName(value)
	case "id":
		if bytes.IndexByte(value, 0) >= 0 {
			return nil
		}
		if len(value) > MaxID {
			value = nil
		}
		r.event.ID, r.event.HasID, r.open = string(value), true, true
	case "retry":
		if d, ok := milliseconds(value); ok {
			r.event.Retry, r.event.HasRetry, r.open = d, true, true
			r.retry, r.hasRetry = d, true
		}
	}
	return nil
}

// addData joins a data line to those before it. The value lies in the buffer.
func (r *Reader) addData(value []byte) error {
	if !r.hasData { // nearly always the only one: it stays where it is
		at := r.pos - 1 - len(value) // the line's end is one byte
		r.data, r.dataEnd = at, at+len(value)
	} else {
		r.buf[r.dataEnd] = '\n'
		r.dataEnd += 1 + copy(r.buf[r.dataEnd+1:], value)
	}
	r.hasData, r.open = true, true
	if r.dataEnd-r.data > r.max {
		return r.tooLong()
	}
	return nil
}

// tooLong begins to skip the event under way, or says that it cannot be read.
func (r *Reader) tooLong() error {
	if !r.skips {
		return &TooLongError{Max: r.max}
	}
	if r.long != nil {
		return nil
	}
	r.long = &TooLongError{Max: r.max}
	data := r.buf[r.data:r.dataEnd]
	r.data, r.dataEnd, r.open = r.pos, r.pos, true
	return r.drop(data)
}

// dropLine drops what is there of a line that has no end yet.
func (r *Reader) dropLine() error {
	if err := r.tooLong(); err != nil {
		return err
	}
	line := r.buf[r.pos:r.end]
	if !r.within {
		line = bytes.TrimPrefix(bytes.TrimPrefix(line, []byte("data:")), []byte(" "))
	}
	r.within, r.partial = true, true
	r.pos = r.end
	r.data, r.dataEnd = r.pos, r.pos
	return r.drop(line)
}

// drop keeps the ends of what an event that is too long consists of.
func (r *Reader) drop(b []byte) error {
	if room := edge - len(r.long.Head); room > 0 && r.skipped == len(r.long.Head) {
		r.long.Head = append(r.long.Head, b[:min(room, len(b))]...)
	}
	r.skipped += len(b)
	if len(b) < edge {
		b = append(r.long.Tail, b...)
	}
	r.long.Tail = bytes.Clone(b[max(0, len(b)-edge):])
	if r.skipped > r.most {
		return ErrEndless
	}
	return nil
}

// overlong ends an event that was skipped.
func (r *Reader) overlong() error {
	long := r.long
	long.ID, long.HasID = r.event.ID, r.event.HasID
	return long
}

// typeName returns the names that MCP uses without allocating.
func typeName(b []byte) string {
	switch string(b) {
	case "message":
		return "message"
	case "endpoint":
		return "endpoint"
	}
	return string(b)
}

// milliseconds reads ASCII digits.
func milliseconds(b []byte) (time.Duration, bool) {
	var d time.Duration
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		d = min(d*10+time.Duration(c-'0')*time.Millisecond, MaxRetry)
	}
	return d, len(b) > 0
}

// fill reads once more into the buffer, having made room. It returns false for a pause.
func (r *Reader) fill() bool {
	r.makeRoom()
	for range maxEmptyRead {
		n, err := r.src.Read(r.buf[r.end:])
		if n < 0 || n > len(r.buf)-r.end {
			n, err = 0, fmt.Errorf("reading events: the source returned a count of %d", n)
		}
		r.end += n
		if err != nil && err == r.pause {
			return n > 0
		}
		r.srcErr = err
		if n > 0 || err != nil {
			return true
		}
	}
	r.srcErr = io.ErrNoProgress
	return true
}

// makeRoom moves what is still needed to the front, and grows a full buffer or
// gives a large one back when it has not been needed for a while.
func (r *Reader) makeRoom() {
	size := len(r.buf)
	need := r.dataEnd - r.data + r.end - r.pos
	switch {
	case r.end < size && need > 0:
		return // there is room, and moving a part of an event often costs
	case need > size/2:
		size = max(2*size, minBuffer)
	case r.end == size && size < steadyBuffer: // reads come in larger pieces than we take
		size = max(2*size, minBuffer)
	case size > steadyBuffer && need == 0 && r.end < size/4:
		if r.roomy++; r.roomy >= shrinkAfter {
			r.roomy, size = 0, max(steadyBuffer, size/4)
		}
	case need == 0 && r.end >= size/4:
		r.roomy = 0
	}
	from := r.buf
	if size != len(r.buf) {
		r.buf = make([]byte, size)
	}
	n := copy(r.buf, from[r.data:r.dataEnd])
	copy(r.buf[n:], from[r.pos:r.end])
	shift := r.pos - n
	r.lf.shift(shift)
	r.cr.shift(shift)
	r.data, r.dataEnd, r.pos, r.end = 0, n, n, r.end-shift
}

// mark remembers where a byte is, so that each is looked at once.
type mark struct {
	at   int // -1: not in what was looked at
	seen int // looked at before here
}

func (m *mark) find(buf []byte, pos, end int, c byte) int {
	if m.at >= pos {
		return m.at
	}
	from := max(pos, m.seen)
	i := bytes.IndexByte(buf[from:end], c)
	if i < 0 {
		m.at, m.seen = -1, end
		return -1
	}
	m.at = from + i
	m.seen = m.at + 1
	return m.at
}

func (m *mark) shift(by int) {
	m.seen = max(m.seen-by, 0)
	if m.at >= 0 {
		m.at = max(m.at-by, -1)
	}
}
