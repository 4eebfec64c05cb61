package terminal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
)

// maxLine bounds a line of input, and all that wait, in bytes; a terminal's line has
// 4 KiB at most.
const maxLine = 64 << 10

// errLineTooLong is for input without a line end.
var errLineTooLong = errors.New("the line is too long")

// input reads lines so that a wait for one can be given up. A read cannot: it goes
// on, in the one goroutine that there is, and what it brings is kept for the next.
type input struct {
	from     io.Reader
	terminal *os.File // nil if it is none
	wake     chan struct{}

	mu      sync.Mutex // guards the fields below: the goroutine that reads fills them, the one that asks takes from them
	buf     []byte     // whole lines, and the beginning of one
	skip    bool       // the rest of the line that comes next is dropped
	tooLong bool       // a line was dropped behind those in buf
	err     error      // of reading, after all that
	running bool
}

// begin drops what was typed before: it was not meant for the question that comes.
// On a terminal an end of the input is one for one question.
func (in *input) begin() {
	if in.terminal != nil {
		flush(in.terminal)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if n := len(in.buf); n > 0 { // half a line that could not be flushed goes with its other half
		in.skip = in.buf[n-1] != '\n' && in.terminal == nil
		in.buf = nil
	}
	in.tooLong = false
	if in.terminal != nil && errors.Is(in.err, io.EOF) {
		in.err = nil
	}
}

// line waits for a line, without its end.
func (in *input) line(ctx context.Context) (string, error) {
	for {
		line, err, ok := in.next()
		if ok {
			return line, err
		}
		select {
		case <-in.wake:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// next takes the next line, or sees to it that there will be one.
func (in *input) next() (line string, err error, ok bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	i := bytes.IndexByte(in.buf, '\n')
	switch {
	case i >= 0:
		line = strings.TrimSuffix(string(in.buf[:i]), "\r")
		in.buf = in.buf[i+1:]
		return line, nil, true
	case in.tooLong:
		in.tooLong = false
		return "", errLineTooLong, true
	case in.err != nil: // what stands before the end without a line end is no answer
		in.buf = nil
		return "", in.err, true
	case !in.running:
		in.running = true
		go in.read() // ends with the input
	}
	return "", nil, false
}

// read fills the buffer until the input ends.
func (in *input) read() {
	chunk := make([]byte, 4096)
	for {
		n, err := in.from.Read(chunk)
		in.mu.Lock()
		in.add(chunk[:n])
		if err != nil {
			in.err, in.running = err, false
		}
		in.mu.Unlock()
		select {
		case in.wake <- struct{}{}:
		default: // it is awake
		}
		if err != nil {
			return
		}
	}
}

// add takes in what was read. A line for which there is no room is dropped whole.
func (in *input) add(b []byte) {
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n') + 1
		whole := end > 0
		if !whole {
			end = len(b)
		}
		switch {
		case in.skip:
			in.skip = !whole
		case len(in.buf)+end > maxLine:
			in.buf = in.buf[:bytes.LastIndexByte(in.buf, '\n')+1]
			in.skip, in.tooLong = !whole, true
		default:
			in.buf = append(in.buf, b[:end]...)
		}
		b = b[end:]
	}
}
