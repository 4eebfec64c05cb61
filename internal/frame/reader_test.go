package frame

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

// tooLong stands for a TooLongError in the expected lines.
const tooLong = "<too long>"

// readAll returns every line, with tooLong for overlong ones, and the final error.
func readAll(r *Reader) (lines []string, err error) {
	for {
		line, err := r.Next()
		if _, long := errors.AsType[*TooLongError](err); long {
			lines = append(lines, tooLong)
			continue
		}
		if err != nil {
			return lines, err
		}
		lines = append(lines, string(line))
	}
}

// STDIO-02: newline delimits, a trailing CR is accepted, blank lines are ignored.
func TestReaderLines(t *testing.T) {
	tests := []struct {
		name, in string
		max      int
		want     []string
	}{
		{"nothing", "", 0, nil},
		{"one", "a\n", 0, []string{"a"}},
		{"crlf", "a\r\nb\r\n", 0, []string{"a", "b"}},
		{"inner cr stays", "a\rb\n", 0, []string{"a\rb"}},
		{"one cr only", "a\r\r\n", 0, []string{"a\r"}},
		{"blank lines", "\n\r\n \t\na\n\n\nb\n\n", 0, []string{"a", "b"}},
		{"nul bytes", "\x00\n\x00a\x00\n", 0, []string{"\x00", "\x00a\x00"}},
		{"not utf-8", "\xff\xfe\n", 0, []string{"\xff\xfe"}},
		{"end without newline", "a\nb", 0, []string{"a", "b"}},
		{"end with cr", "a\nb\r", 0, []string{"a", "b"}},
		{"end with blanks", "a\n  ", 0, []string{"a"}},
		{"exactly max", "abcd\nabcd\r\nabcd", 4, []string{"abcd", "abcd", "abcd"}},
		{"one too long", "ok\nabcde\nnext\n", 4, []string{"ok", tooLong, "next"}},
		{"long, long, end", "abcdefgh\nabcdefgh", 4, []string{tooLong, tooLong}},
		{"long and blank lines", "abcdefgh\n\n\nb\n", 4, []string{tooLong, "b"}},
		{"long blanks do not count", strings.Repeat(" ", 100) + "\nb\n", 4, []string{tooLong, "b"}},
	}
	sources := map[string]func(io.Reader) io.Reader{
		"whole":        func(r io.Reader) io.Reader { return r },
		"one byte":     iotest.OneByteReader,
		"half":         iotest.HalfReader,
		"end and data": iotest.DataErrReader,
	}
	for _, tt := range tests {
		for name, source := range sources {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				got, err := readAll(NewReader(source(strings.NewReader(tt.in)), tt.max))
				if err != io.EOF || strings.Join(got, "|") != strings.Join(tt.want, "|") {
					if tt.name == "long blanks do not count" && strings.Join(got, "|") == "b" {
						return // seen whole it is a blank line, seen in parts it is too long
					}
					t.Errorf("lines of %q: got %q, %v, want %q, EOF", tt.in, got, err, tt.want)
				}
			})
		}
	}
}

// ROB-2: the line behind a bad one is still read when both are long.
func TestReaderManySizes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var in bytes.Buffer
	var want []string
	for range 300 {
		line := strings.Repeat("x", 1+rnd.IntN(1<<rnd.IntN(18)))
		in.WriteString(line + "\n")
		if len(line) > 100_000 {
			line = tooLong
		}
		want = append(want, line)
	}
	got, err := readAll(NewReader(&in, 100_000))
	if err != io.EOF || len(got) != len(want) {
		t.Fatalf("got %d lines and %v, want %d and EOF", len(got), err, len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("line %d: got %d bytes, want %d", i, len(got[i]), len(want[i]))
		}
	}
}

// endless gives size bytes without newline, then rest.
type endless struct {
	size int
	rest io.Reader
}

func (e *endless) Read(p []byte) (int, error) {
	if e.size == 0 {
		return e.rest.Read(p)
	}
	n := min(len(p), e.size)
	for i := range p[:n] {
		p[i] = 'x'
	}
	e.size -= n
	return n, nil
}

// ROB-3: a line of 100 MB costs no more than the limit.
func TestReaderBoundedMemory(t *testing.T) {
	const max = 1 << 20
	r := NewReader(&endless{100 << 20, strings.NewReader("\nnext\n")}, max)
	got, err := readAll(r)
	if err != io.EOF || len(got) != 2 || got[0] != tooLong || got[1] != "next" {
		t.Errorf("got %q, %v, want one overlong line and next", got, err)
	}
	if len(r.buf) > max+2 {
		t.Errorf("buffer: got %d bytes, want at most %d", len(r.buf), max+2)
	}
}

// ROB-3: a line without an end ends the reading.
func TestReaderEndless(t *testing.T) {
	r := NewReader(&endless{1 << 30, nil}, 1<<10)
	r.most = 1 << 20
	got, err := readAll(r)
	if err != ErrEndless || len(got) != 1 || got[0] != tooLong {
		t.Errorf("got %q, %v, want one overlong line and %v", got, err, ErrEndless)
	}
}

func TestReaderGivesLargeBufferBack(t *testing.T) {
	in := strings.Repeat("x", 1<<20) + "\n" + strings.Repeat("small\n", 20_000)
	r := NewReader(iotest.OneByteReader(strings.NewReader(in)), 0)
	if _, err := readAll(r); err != io.EOF {
		t.Fatal(err)
	}
	if len(r.buf) > steadyBuffer {
		t.Errorf("buffer after small lines: got %d bytes, want at most %d", len(r.buf), steadyBuffer)
	}
}

// Buffered must never be true for what makes Next wait: blank lines, or the rest of an overlong one.
func TestReaderBuffered(t *testing.T) {
	steps := []struct {
		in   string
		want bool
	}{
		{"a\nb\n", true}, {"a\nb", false}, {"a\n\n \r\n", false}, {"a\n\r\nb\n", true}, {"a\n", false},
	}
	for _, s := range steps {
		r := NewReader(strings.NewReader(s.in), 0)
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		if got := r.Buffered(); got != s.want {
			t.Errorf("Buffered after the first line of %q: got %t, want %t", s.in, got, s.want)
		}
	}
	r := NewReader(iotest.HalfReader(strings.NewReader(strings.Repeat("x", 9000)+"\nb\n")), 10)
	if r.fill(); r.Buffered() {
		t.Error("in an overlong line: Buffered is true")
	}
	if _, err := r.Next(); err == nil {
		t.Error("an overlong line: got no error")
	}
	if line, err := r.Next(); string(line) != "b" || err != nil {
		t.Errorf("behind an overlong line: got %q, %v", line, err)
	}
}

// WIRE-04: of a line that is skipped its ends are known, however it arrives.
func TestReaderKeepsTheEnds(t *testing.T) {
	for _, size := range []int{20, edge - 1, edge, edge + 1, 3 * edge, 200 << 10} {
		line := fmt.Sprintf("%0*d", size, 7)
		for name, source := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "one byte": iotest.OneByteReader, "half": iotest.HalfReader} {
			for _, end := range []string{"\n", "\r\n", ""} {
				_, err := NewReader(source(strings.NewReader(line+end)), 10).Next()
				long, ok := errors.AsType[*TooLongError](err)
				if !ok || string(long.Head) != line[:len(long.Head)] || len(long.Head) > edge || len(long.Head) < 10 {
					t.Fatalf("%d bytes, %s: got %v with the head %q", size, name, err, long.Head)
				}
				if want := line[max(0, size-edge):]; strings.TrimSuffix(string(long.Tail), "\r") != want && size > edge && end != "\r\n" || !strings.HasSuffix(strings.TrimSuffix(string(long.Tail), "\r"), "7") {
					t.Fatalf("%d bytes, %s: got the tail %q, want %q", size, name, long.Tail, want)
				}
			}
		}
	}
}

func TestReaderErrors(t *testing.T) {
	boom := errors.New("boom")
	r := NewReader(io.MultiReader(strings.NewReader("a\nhalf"), iotest.ErrReader(boom)), 0)
	if got, err := readAll(r); err != boom || len(got) != 1 {
		t.Errorf("got %q, %v, want the whole line and the source's error", got, err)
	}
	if _, err := r.Next(); err != boom {
		t.Errorf("Next again: got %v, want %v", err, boom)
	}
	if _, err := NewReader(emptyReader{}, 0).Next(); err != io.ErrNoProgress {
		t.Errorf("a source that gives nothing: got %v, want %v", err, io.ErrNoProgress)
	}
}

type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, nil }

func TestReaderDoesNotAllocate(t *testing.T) {
	in := bytes.Repeat([]byte(strings.Repeat("x", 200)+"\n"), 1000)
	src := bytes.NewReader(in)
	r := NewReader(src, 0)
	read := func() {
		src.Reset(in)
		r.err = nil
		for {
			if _, err := r.Next(); err != nil {
				return
			}
		}
	}
	read()
	if n := testing.AllocsPerRun(5, read); n > 0 {
		t.Errorf("1000 lines: got %v allocations, want none", n)
	}
}

// The lines must be those of a plain split, however the bytes arrive.
func FuzzReader(f *testing.F) {
	for _, s := range []string{"", "a\n", "a\r\nb", "\n\n\r\n", "aaaaaaaaaaaaaaaaaaaa\nb\n", "\x00\n", "a\r\r\n\r"} {
		f.Add([]byte(s), uint8(7), uint8(3))
	}
	f.Fuzz(func(t *testing.T, in []byte, max, chunk uint8) {
		limit := int(max%32) + 1
		var want []string
		for line := range bytes.SplitSeq(in, []byte("\n")) {
			line = bytes.TrimSuffix(line, []byte("\r"))
			switch {
			case blank(line) && len(line) <= limit:
			case blank(line):
				return // whether it counts depends on how it arrives
			case len(line) > limit:
				want = append(want, tooLong)
			default:
				want = append(want, string(line))
			}
		}
		src := &chunks{in, int(chunk%16) + 1}
		r := NewReader(src, limit)
		got, err := readAll(r)
		if err != io.EOF || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("lines of %q at most %d: got %q, %v, want %q", in, limit, got, err, want)
		}
		if len(r.buf) > minBuffer+limit {
			t.Fatalf("buffer: got %d bytes for lines of %d", len(r.buf), limit)
		}
	})
}

type chunks struct {
	rest []byte
	size int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.rest[:min(c.size, len(c.rest))])
	c.rest = c.rest[n:]
	return n, nil
}
