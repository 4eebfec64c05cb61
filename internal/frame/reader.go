package frame

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// DefaultMax is the longest line a [Reader] takes unless told otherwise, in bytes (WIRE-04).
const DefaultMax = 16 << 20

const (
	minBuffer    = 512
	steadyBuffer = 64 << 10 // a buffer grows beyond this for a long line only, and shrinks back
	shrinkAfter  = 32       // reads in a row that a small buffer would have done for
	maxEmptyRead = 100      // reads of nothing in a row before the source is called broken
	edge         = 1 << 10  // bytes that are kept of both ends of a line that is too long
	maxSpare     = 4 * steadyBuffer
)

// spare are the buffers of the readers that wait with nothing left in them: a connection
// that is idle holds none.
var spare sync.Pool // of *[]byte, not longer than maxSpare

// TooLongError is returned once for a line longer than Max bytes, at its end. The
// line is thrown away; the reader goes on with the next one (ROB-2).
type TooLongError struct {
	Max int // in bytes
	// Head and Tail are the first and the last bytes of the line, at most 1 KiB each.
	Head, Tail []byte
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("line is longer than %d bytes", e.Max)
}

// Reader reads lines. It holds at most its longest line in memory and is not
// safe for use by several goroutines.
type Reader struct {
	src io.Reader
	raw func() (n int, err error) // reads src into buf[end:], without a buffer while it waits; nil: src cannot do that
	max int

	box     *[]byte // buf comes from there if raw is not nil; nil while it waits
	buf     []byte  // buf[start:end] has been read and not yet returned
	start   int
	end     int
	scanned int           // buf[start:scanned] holds no newline
	long    *TooLongError // of the overlong line that is being skipped; else nil
	skips   int           // bytes of it
	most    int           // that are skipped
	err     error         // what src ended with; kept
	roomy   int           // reads in a row that left most of a large buffer empty
}

// ErrEndless is what a [Reader] returns after a line that has no end within 1 GiB.
// Nothing more can be read.
var ErrEndless = errors.New("a line does not end")

const maxSkip = 1 << 30 // bytes of a line, unless it may be longer

// NewReader returns a reader of the lines of r. A line may have max bytes,
// without its newline; zero means [DefaultMax].
func NewReader(r io.Reader, max int) *Reader {
	if max <= 0 {
		max = DefaultMax
	}
	lines := &Reader{src: r, max: max, most: max + maxSkip}
	lines.raw = newRawRead(lines)
	return lines
}

// borrow gives the reader a buffer if it has none.
func (r *Reader) borrow() {
	if r.box != nil {
		return
	}
	if r.box, _ = spare.Get().(*[]byte); r.box == nil {
		b := make([]byte, minBuffer)
		r.box = &b
	}
	r.buf = *r.box
}

// giveBack gives the buffer to other readers if it is empty, and not a very large one.
func (r *Reader) giveBack() {
	if r.box == nil || r.start != r.end || len(r.buf) > maxSpare {
		return
	}
	*r.box = r.buf
	spare.Put(r.box)
	r.box, r.buf = nil, nil
	r.drop()
}

// Next returns one line without its newline or a carriage return before it.
// Blank lines are skipped. The slice is valid until the next call.
//
// An overlong line is read to its end without being kept, gives one
// [*TooLongError], and Next then goes on behind it.
// A last line without newline is returned like any other; then comes [io.EOF].
// [os.ErrDeadlineExceeded] of the source is returned without its details and loses nothing: Next may be called
// again. Any other error is returned as it is, and drops such a line.
func (r *Reader) Next() ([]byte, error) {
	for {
		if r.Buffered() {
			return r.take()
		}
		if r.long != nil || r.end-r.start > r.max+1 { // one more byte may be the CR
			r.skip(r.buf[r.start:r.end])
			r.drop()
		}
		if r.err != nil {
			if errors.Is(r.err, os.ErrDeadlineExceeded) {
				r.err = nil
				r.giveBack()
				return nil, os.ErrDeadlineExceeded
			}
			return r.last()
		}
		r.fill()
	}
}

// skip keeps the ends of an overlong line, of which b is the next part.
func (r *Reader) skip(b []byte) {
	if r.long == nil {
		r.skips = 0
		r.long = &TooLongError{Max: r.max, Head: bytes.Clone(b[:min(len(b), edge)])}
	}
	r.skips += len(b)
	if len(b) < edge {
		b = append(r.long.Tail, b...)
	}
	r.long.Tail = bytes.Clone(b[max(0, len(b)-edge):])
	if r.skips > r.most && r.err == nil {
		r.err = ErrEndless
	}
}

// skipped ends the overlong line whose last part is b.
func (r *Reader) skipped(b []byte) error {
	r.skip(b)
	long := r.long
	r.long = nil
	return long
}

// Buffered reports whether another complete line is in memory, so that Next
// will return without reading. A server that has more to read only queues its
// answers and writes them together.
func (r *Reader) Buffered() bool {
	for r.end > r.start {
		i := r.newline()
		if i < 0 {
			return false
		}
		if r.long != nil || !blank(r.buf[r.start:i]) {
			return true
		}
		r.advance(i + 1)
	}
	return false
}

// take cuts the first line off the buffer, which has one.
func (r *Reader) take() ([]byte, error) {
	i := r.newline()
	line := bytes.TrimSuffix(r.buf[r.start:i], []byte{'\r'})
	r.advance(i + 1)
	if r.long != nil || len(line) > r.max {
		return nil, r.skipped(line)
	}
	return line, nil
}

// last returns what is behind the final newline, and the error after that.
func (r *Reader) last() ([]byte, error) {
	line := bytes.TrimSuffix(r.buf[r.start:r.end], []byte{'\r'})
	r.drop()
	switch {
	case r.long != nil || len(line) > r.max:
		return nil, r.skipped(line)
	case r.err != io.EOF || blank(line):
		return nil, r.err
	}
	return line, nil
}

// newline returns the index of the first newline in the buffer, or -1. It looks at each byte once.
func (r *Reader) newline() int {
	i := bytes.IndexByte(r.buf[r.scanned:r.end], '\n')
	if i < 0 {
		r.scanned = r.end
		return -1
	}
	r.scanned += i
	return r.scanned
}

func (r *Reader) advance(to int) { r.start, r.scanned = to, to }

func (r *Reader) drop() { r.start, r.end, r.scanned = 0, 0, 0 }

// fill reads once more into the buffer, having made room.
func (r *Reader) fill() {
	if r.raw != nil {
		r.borrow()
	}
	r.makeRoom()
	for range maxEmptyRead {
		n, err := r.read()
		if n < 0 || n > len(r.buf)-r.end {
			n, err = 0, fmt.Errorf("reading lines: the source returned a count of %d", n)
		}
		r.end += n
		r.err = err
		if n > 0 || err != nil {
			return
		}
	}
	r.err = io.ErrNoProgress
}

func (r *Reader) read() (n int, err error) {
	if r.raw != nil {
		return r.raw()
	}
	return r.src.Read(r.buf[r.end:])
}

// makeRoom moves what is left to the front, and grows a full buffer or gives a
// large one back when it has not been needed for a while.
func (r *Reader) makeRoom() {
	left := r.end - r.start
	size := len(r.buf)
	switch {
	case left == size || r.start == 0 && r.end == size:
		size = min(max(2*size, minBuffer), r.max+2)
	case r.end == size && size < steadyBuffer: // reads come in larger pieces than we take
		size = min(2*size, max(r.max+2, minBuffer))
	case size > steadyBuffer && left < size/4 && r.end < size/4:
		if r.roomy++; r.roomy >= shrinkAfter {
			r.roomy, size = 0, max(steadyBuffer, size/4)
		}
	default:
		r.roomy = 0
	}
	if size != len(r.buf) {
		next := make([]byte, max(size, left+1))
		copy(next, r.buf[r.start:r.end])
		r.buf = next
	} else if r.start > 0 {
		copy(r.buf, r.buf[r.start:r.end])
	}
	r.scanned -= r.start
	r.start, r.end = 0, left
}

// blank reports whether a line has nothing but spaces, tabs and carriage returns.
func blank(line []byte) bool {
	for _, c := range line {
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}
