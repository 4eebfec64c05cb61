package rest

import (
	"bufio"
	"bytes"
	"io"

	"github.com/troupe-dev/troupe/llm"
)

// Lines cuts a stream into lines of at most [MaxDocument] bytes. Its buffer grows with
// the lines it meets: a stream of short lines costs 4 KiB.
type Lines struct {
	r     *bufio.Reader
	long  []byte // a line that does not fit into r
	alive func() // is told of each line
}

// NewLines reads from r. A [Call] is told that each line is a sign of life.
func NewLines(r io.Reader) *Lines {
	l := &Lines{r: bufio.NewReaderSize(r, 4<<10), alive: func() {}}
	if c, ok := r.(*Call); ok {
		l.alive = c.Alive
	}
	return l
}

// Next returns the next line without its end, valid until the next call. With
// io.EOF it returns what came after the last line's end, if anything; with any
// other error, nothing: a line that was cut is not a line.
func (l *Lines) Next() ([]byte, error) {
	l.long = l.long[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		if len(l.long)+len(part) > MaxDocument {
			return nil, llm.ErrTooLarge
		}
		switch {
		case err == bufio.ErrBufferFull:
			l.long = append(l.long, part...)
			continue
		case err != nil && err != io.EOF:
			return nil, err
		case len(l.long) > 0:
			l.long = append(l.long, part...)
			part = l.long
		}
		l.alive()
		return bytes.TrimRight(part, "\r\n"), err
	}
}

// Events reads the data of server-sent events, as chat APIs send them: each data line
// is a document of its own, with or without an empty line behind it.
type Events struct{ lines *Lines }

// NewEvents reads from r.
func NewEvents(r io.Reader) *Events { return &Events{NewLines(r)} }

// Next returns the data of the next line that has any, or a line that looks like bare
// JSON: some proxies put their errors into a stream so. Comments, however many, names,
// ids and empty lines are passed over. The end is as with [Lines.Next].
func (e *Events) Next() ([]byte, error) {
	for {
		line, err := e.lines.Next()
		if data := eventData(line); len(data) > 0 || err != nil {
			return data, err
		}
	}
}

func eventData(line []byte) []byte {
	if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
		return bytes.TrimSpace(data)
	}
	if bytes.HasPrefix(line, []byte("{")) {
		return line
	}
	return nil
}
