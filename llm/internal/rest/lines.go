package rest

import (
	"bufio"
	"bytes"
	"io"

	"github.com/troupe-dev/troupe/llm"
)

// Lines cuts a stream into lines of at most [MaxDocument] bytes, which end with LF, CR or both. A byte order mark before
// the first is passed over. Its buffer grows with the lines it meets: a stream of short lines costs 4 KiB.
type Lines struct {
	r      *bufio.Reader
	long   []byte // a line that does not fit into r
	alive  func() // is told of each line
	begun  bool   // the first line has been read
	skipLF bool   // the line before has ended with CR
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
	line, err := l.line()
	if err != nil && err != io.EOF {
		return nil, err
	}
	l.alive()
	if !l.begun {
		l.begun, line = true, bytes.TrimPrefix(line, bom)
	}
	return line, err
}

// bom is the byte order mark, which some servers and proxies put before a text.
var bom = []byte("\uFEFF")

// line cuts off the next line. One that ends with CR does not wait for what follows.
func (l *Lines) line() ([]byte, error) {
	l.long = l.long[:0]
	for seen := 0; ; {
		_, err := l.r.Peek(seen + 1)
		part, _ := l.r.Peek(l.r.Buffered())
		if err == nil && l.skipLF {
			l.skipLF = false
			if part[0] == '\n' {
				_, _ = l.r.Discard(1)
				continue
			}
		}
		end := lineEnd(part[seen:])
		if end >= 0 {
			part = part[:seen+end+1]
		}
		if len(l.long)+len(part) > MaxDocument {
			return nil, llm.ErrTooLarge
		}
		switch {
		case err != nil && err != io.EOF:
			return nil, err
		case end < 0 && err == nil && len(part) < l.r.Size():
			seen = len(part)
			continue
		}
		_, _ = l.r.Discard(len(part)) // it stays where it is until more is read
		if end >= 0 {
			l.skipLF = part[len(part)-1] == '\r'
			part = part[:len(part)-1]
		}
		if len(l.long) > 0 || end < 0 && err == nil {
			l.long = append(l.long, part...)
			part = l.long
		}
		if end >= 0 || err != nil {
			return part, err
		}
		seen = 0
	}
}

// lineEnd is where the first CR or LF stands; negative for none.
func lineEnd(data []byte) int {
	end := bytes.IndexByte(data, '\n')
	if end < 0 {
		return bytes.IndexByte(data, '\r')
	}
	if cr := bytes.IndexByte(data[:end], '\r'); cr >= 0 {
		return cr
	}
	return end
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
	if bytes.HasPrefix(line, []byte("{")) || bytes.HasPrefix(line, []byte("[{")) {
		return line
	}
	return nil
}
