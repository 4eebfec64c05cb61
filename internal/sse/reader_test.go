package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// readAll returns the events of a stream, and what ended it.
func readAll(r *Reader) (events []Event, err error) {
	for {
		e, err := r.Next()
		if err != nil {
			return events, err
		}
		e.Data = bytes.Clone(e.Data)
		if e.Data == nil {
			e.Data = []byte{}
		}
		events = append(events, e)
	}
}

// reference reads a stream in the plainest way: it has all of it, and copies.
func reference(stream string) (events []Event, retry time.Duration) {
	stream = strings.TrimPrefix(stream, "\ufeff")
	stream = strings.ReplaceAll(stream, "\r\n", "\n")
	stream = strings.ReplaceAll(stream, "\r", "\n")
	lines := strings.Split(stream, "\n")
	lines = lines[:len(lines)-1] // what has no end
	var e Event
	var data []string
	open := false
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if e.Type == "" {
				e.Type = "message"
			}
			if e.Data = []byte(strings.Join(data, "\n")); open {
				events = append(events, e)
			}
			e, data, open = Event{}, nil, false
		case name == "event":
			e.Type = value
		case name == "data":
			data, open = append(data, value), true
		case name == "id" && !strings.Contains(value, "\x00"):
			if len(value) > MaxID {
				value = ""
			}
			e.ID, e.HasID, open = value, true, true
		case name == "retry" && value != "" && strings.Trim(value, "0123456789") == "":
			e.Retry = MaxRetry
			if digits := strings.TrimLeft(value, "0"); len(digits) < 9 {
				ms, _ := strconv.ParseInt("0"+digits, 10, 64)
				e.Retry = min(time.Duration(ms)*time.Millisecond, MaxRetry)
			}
			e.HasRetry, open, retry = true, true, e.Retry
		}
	}
	return events, retry
}

// WIRE-10
func TestGrammar(t *testing.T) {
	tests := []struct {
		name, stream string
		want         []Event
	}{
		{"plain", "data: a\n\n", []Event{{Type: "message", Data: []byte("a")}}},
		{"CRLF", "event: x\r\ndata: a\r\n\r\n", []Event{{Type: "x", Data: []byte("a")}}},
		{"CR", "event: x\rdata: a\r\rdata: b\r\r", []Event{{Type: "x", Data: []byte("a")}, {Type: "message", Data: []byte("b")}}},
		{"mixed ends", "data: a\r\ndata: b\rdata: c\n\r\n", []Event{{Type: "message", Data: []byte("a\nb\nc")}}},
		{"byte order mark", "\ufeffdata: a\n\n", []Event{{Type: "message", Data: []byte("a")}}},
		{"only the first mark", "\ufeff\ufeffdata: a\n\n", nil},
		{"half a mark", "\xef\xbbdata: a\n\n", nil},
		{"no space", "data:a\n\n", []Event{{Type: "message", Data: []byte("a")}}},
		{"one space only", "data:  a\n\n", []Event{{Type: "message", Data: []byte(" a")}}},
		{"a tab is data", "data:\ta\n\n", []Event{{Type: "message", Data: []byte("\ta")}}},
		{"no colon", "data\n\n", []Event{{Type: "message", Data: []byte{}}}},
		{"empty lines of data", "data\ndata\n\n", []Event{{Type: "message", Data: []byte("\n")}}},
		{"several lines", "data: {\ndata:\ndata: }\n\n", []Event{{Type: "message", Data: []byte("{\n\n}")}}},
		{"colons in the value", "data: a:b: c\n\n", []Event{{Type: "message", Data: []byte("a:b: c")}}},
		{"comments", ": hi\n:\ndata: a\n: there\ndata: b\n\n:\n\n", []Event{{Type: "message", Data: []byte("a\nb")}}},
		{"unknown fields", "foo: 1\ndata: a\nDATA: b\n data: c\nbar\n\n", []Event{{Type: "message", Data: []byte("a")}}},
		{"the last type counts", "event: x\nevent: y\ndata: a\n\n", []Event{{Type: "y", Data: []byte("a")}}},
		{"an empty type is the default", "event: x\nevent\ndata: a\n\n", []Event{{Type: "message", Data: []byte("a")}}},
		{"a type alone is nothing", "event: x\n\ndata: a\n\n", []Event{{Type: "message", Data: []byte("a")}}},
		{"priming", "id: 1\ndata:\n\n", []Event{{Type: "message", ID: "1", HasID: true, Data: []byte{}}}}, // WIRE-11
		{"id alone", "id: 1\n\n", []Event{{Type: "message", ID: "1", HasID: true, Data: []byte{}}}},
		{"empty id", "id\ndata: a\n\n", []Event{{Type: "message", HasID: true, Data: []byte("a")}}},
		{"id with NUL", "id: 1\x002\ndata: a\n\n", []Event{{Type: "message", Data: []byte("a")}}},
		{"id with NUL after a good one", "id: 1\nid: \x00\ndata: a\n\n", []Event{{Type: "message", ID: "1", HasID: true, Data: []byte("a")}}},
		{"an id too long to send back", "id: " + strings.Repeat("x", MaxID+1) + "\ndata: a\n\n", []Event{{Type: "message", HasID: true, Data: []byte("a")}}},
		{"retry", "retry: 1500\n\n", []Event{{Type: "message", Retry: 1500 * time.Millisecond, HasRetry: true, Data: []byte{}}}},
		{"retry zero", "retry: 000\ndata: a\n\n", []Event{{Type: "message", HasRetry: true, Data: []byte("a")}}},
		{"retry too large", "retry: 99999999999999999999999\n\n", []Event{{Type: "message", Retry: MaxRetry, HasRetry: true, Data: []byte{}}}},
		{"no retry", "retry: -1\nretry: 1.5\nretry: 1s\nretry:\nretry:  1\nretry: ١\ndata: a\n\n", []Event{{Type: "message", Data: []byte("a")}}},
		{"unfinished", "data: a\n\ndata: b\n", []Event{{Type: "message", Data: []byte("a")}}},
		{"nothing", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := readAll(NewReader(iotest.OneByteReader(strings.NewReader(tt.stream)), 0))
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Next on %q: got %+v, want %+v", tt.stream, got, tt.want)
			}
			if err != io.EOF && err != io.ErrUnexpectedEOF {
				t.Errorf("Next at the end: got %v, want io.EOF or io.ErrUnexpectedEOF", err)
			}
			if want, _ := reference(tt.stream); !reflect.DeepEqual(want, tt.want) {
				t.Errorf("the reference on %q: got %+v, want %+v", tt.stream, want, tt.want)
			}
		})
	}
}

// sample has everything that a stream can have.
const sample = "\ufeff: welcome\r\n\r\nid: s/1\ndata:\n\nevent: message\nid: s/2\ndata: {\"a\":\ndata: \"ü\"}\n\nretry: 250\r\rdata: b\r\r: ping\n\nevent: endpoint\ndata: /x\r\n\r\n"

// A stream that is cut anywhere gives the events that were complete, and no other.
func TestCutAtEveryByte(t *testing.T) {
	for cut := range len(sample) + 1 {
		stream := sample[:cut]
		want, wantRetry := reference(stream)
		r := NewReader(iotest.DataErrReader(strings.NewReader(stream)), 0)
		got, err := readAll(r)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("cut at %d: got %+v, want %+v", cut, got, want)
		}
		if err != io.EOF && err != io.ErrUnexpectedEOF {
			t.Errorf("cut at %d: got error %v", cut, err)
		}
		if retry, _ := r.Retry(); retry != wantRetry {
			t.Errorf("cut at %d: got retry %v, want %v", cut, retry, wantRetry)
		}
	}
}

// Nor does it matter how the stream comes in pieces.
func TestSplitAtEveryByte(t *testing.T) {
	want, _ := reference(sample)
	for cut := range len(sample) + 1 {
		r := NewReader(io.MultiReader(strings.NewReader(sample[:cut]), strings.NewReader(sample[cut:])), 0)
		if got, err := readAll(r); !reflect.DeepEqual(got, want) || err != io.EOF {
			t.Errorf("split at %d: got %+v, %v, want %+v, io.EOF", cut, got, err, want)
		}
	}
}

func TestEndInTheMiddle(t *testing.T) {
	tests := []struct {
		stream string
		want   error
	}{
		{"data: a\n\n", io.EOF},
		{"data: a\n\n: x\n", io.EOF},
		{"data: a\n\n\n\n", io.EOF},
		{"data: a\n", io.ErrUnexpectedEOF},
		{"data: a", io.ErrUnexpectedEOF},
		{"event: x\n", io.ErrUnexpectedEOF},
		{": x", io.ErrUnexpectedEOF},
	}
	for _, tt := range tests {
		r := NewReader(strings.NewReader(tt.stream), 0)
		_, err := readAll(r)
		_, again := r.Next()
		if err != tt.want || again != tt.want {
			t.Errorf("the end of %q: got %v, then %v, want %v", tt.stream, err, again, tt.want)
		}
	}
}

// An event is there before anything follows it: the peer may be waiting for us.
func TestEventDoesNotWait(t *testing.T) {
	for _, end := range []string{"\n", "\r", "\r\n"} {
		pr, pw := io.Pipe()
		r := NewReader(pr, 0)
		go pw.Write([]byte("data: a" + end + end))
		e, err := r.Next()
		if err != nil || string(e.Data) != "a" {
			t.Errorf("Next with line ends %q: got %q, %v, want a", end, e.Data, err)
		}
		pw.Close()
	}
}

// WIRE-04, ROB-3, SECA-9
func TestBounds(t *testing.T) {
	const limit = 1000
	long := strings.Repeat("x", limit)
	fits := []string{
		"data: " + long + "\r\n\r\n",
		"event: x\nid: 1\ndata: " + long + "\n\n",
		"data: " + long[:limit/2] + "\ndata: " + long[:limit/2-1] + "\n\n",
		strings.Repeat(": "+long[:limit-10]+"\n", 1000) + "data: " + long + "\n\n",
		strings.Repeat("x: y\n\n", 100_000) + "data: " + long + "\n\n",
	}
	for _, stream := range fits {
		r := NewReader(strings.NewReader(stream), limit)
		if e, err := r.Next(); err != nil || len(e.Data) < limit {
			t.Errorf("Next on %.40q: got %d bytes, %v", stream, len(e.Data), err)
		}
	}
	tooLong := map[string]io.Reader{
		"one line":       strings.NewReader("data: " + long + "x\n\n"),
		"two lines":      strings.NewReader("data: " + long[:limit/2] + "\ndata: " + long[:limit/2] + "\n\n"),
		"no end":         forever("x"),
		"no end, data":   forever("data: x\n"),
		"empty data":     forever("data\n"),
		"a comment":      io.MultiReader(strings.NewReader(":"), forever("x")),
		"types":          forever("event: abc\n"),
		"ids":            forever("id: abc\r"),
		"unknown fields": forever("a\n"),
		"pauses":         forever("retry: 1\r\n"),
	}
	for name, src := range tooLong {
		r := NewReader(src, limit)
		_, err := readAll(r)
		var long *TooLongError
		if !errors.As(err, &long) || long.Max != limit {
			t.Errorf("%s: got %v, want a TooLongError of %d", name, err, limit)
		}
		if _, again := r.Next(); again != err {
			t.Errorf("%s: Next after the error: got %v, want %v", name, again, err)
		}
	}
}

// WIRE-04, ROB-2, ROB-3: a reader that skips goes on behind an event that is too long,
// knows its ends and its id, and keeps no more.
func TestSkipLong(t *testing.T) {
	const limit = 10_000
	big := fmt.Sprintf("%0*d", 5*limit, 7)
	events := map[string]string{
		"one line":    "id: 9\ndata: " + big + "\n\n",
		"id behind":   "data: " + big + "\nid: 9\n\n",
		"many lines":  "id: 9\n" + strings.Repeat("data: "+big[:limit/2]+"\n", 5) + "data: 7\n\n",
		"CR":          "id: 9\rdata: " + big + "\r\r",
		"CRLF":        "id: 9\r\ndata: " + big + "\r\n\r\n",
		"many fields": "id: 9\n" + strings.Repeat("event: "+big[:100]+"\n", 1000) + "data: 0\ndata: 7\n\n",
	}
	sources := map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "one byte": iotest.OneByteReader, "half": iotest.HalfReader}
	for name, text := range events {
		for how, source := range sources {
			r := NewReader(source(strings.NewReader("data: a\n\n"+text+text+"data: b\n\n")), limit)
			r.SkipLong()
			if e, err := r.Next(); err != nil || string(e.Data) != "a" {
				t.Fatalf("%s, %s: before it: got %q, %v", name, how, e.Data, err)
			}
			for range 2 {
				_, err := r.Next()
				long, ok := errors.AsType[*TooLongError](err)
				if !ok || !long.HasID || long.ID != "9" || !strings.HasSuffix(string(long.Tail), "7") || len(long.Tail) > edge || len(long.Head) > edge {
					t.Fatalf("%s, %s: got %v: %+v", name, how, err, long)
				}
				if len(r.buf) > steadyBuffer {
					t.Errorf("%s, %s: the buffer has %d bytes", name, how, len(r.buf))
				}
			}
			if e, err := r.Next(); err != nil || string(e.Data) != "b" {
				t.Fatalf("%s, %s: behind it: got %q, %v", name, how, e.Data, err)
			}
			if _, err := r.Next(); err != io.EOF {
				t.Errorf("%s, %s: at the end: got %v", name, how, err)
			}
		}
	}
	for name, src := range map[string]io.Reader{
		"no end": forever("x"), "data": forever("data: x\n"), "a comment": io.MultiReader(strings.NewReader(":"), forever("x")), "types": forever("event: abc\n"), "unknown": forever("a\n"),
	} {
		r := NewReader(src, limit)
		r.SkipLong()
		r.most = 1 << 20
		_, err := r.Next()
		if err != ErrEndless {
			t.Errorf("%s without end: got %v", name, err)
		}
		if _, again := r.Next(); again != err {
			t.Errorf("%s without end: Next again: got %v", name, again)
		}
	}
}

// forever repeats s.
type forever string

func (f forever) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], f)
	}
	return n, nil
}

func TestSourceFails(t *testing.T) {
	boom := errors.New("boom")
	r := NewReader(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(boom)), 0)
	events, err := readAll(r)
	if len(events) != 1 || err != boom {
		t.Errorf("got %d events, %v, want 1, %v", len(events), err, boom)
	}
	if _, err := NewReader(idle{}, 0).Next(); err != io.ErrNoProgress {
		t.Errorf("a source that gives nothing: got %v, want %v", err, io.ErrNoProgress)
	}
	if _, err := NewReader(liar{}, 0).Next(); err == nil {
		t.Error("a source with a wrong count: got no error")
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

type liar struct{}

func (liar) Read(p []byte) (int, error) { return len(p) + 1, nil }

// A large event does not keep its buffer for good.
func TestBufferShrinks(t *testing.T) {
	var stream bytes.Buffer
	stream.WriteString("data: " + strings.Repeat("x", 1<<20) + "\n\n")
	r := NewReader(&stream, 0)
	if e, err := r.Next(); err != nil || len(e.Data) != 1<<20 {
		t.Fatalf("Next: got %d bytes, %v", len(e.Data), err)
	}
	for range 1000 {
		stream.WriteString("data: a\n\n")
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.buf) > steadyBuffer {
		t.Errorf("after 1000 small events the buffer has %d bytes, want at most %d", len(r.buf), steadyBuffer)
	}
}

func TestNoAllocationForAnEvent(t *testing.T) {
	src := forever("event: message\ndata: {\"jsonrpc\":\"2.0\"}\n\n")
	r := NewReader(src, 0)
	n := testing.AllocsPerRun(10_000, func() {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("Next allocates %v times, want 0", n)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(sample), 3)
	f.Add([]byte("data\rdata\r\n\rid:\x00\n\n"), 1)
	f.Add([]byte("\xef\xbb\xbf\n\n"), 2)
	f.Add([]byte("retry: 18446744073709551616\ndata: x\r\n\r"), 5)
	f.Add([]byte("data\n\ndata:\n\n:\ndata: a\ndata: b\ndata\n\n"), 4)
	f.Fuzz(func(t *testing.T, stream []byte, step int) {
		want, wantRetry := reference(string(stream))
		r := NewReader(&steps{stream, max(step%17, 1)}, 0)
		got, err := readAll(r)
		if _, long := errors.AsType[*TooLongError](err); long {
			t.Skip("the reference has no bounds")
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("Next on %q: got %+v, want %+v", stream, got, want)
		}
		if retry, _ := r.Retry(); retry != wantRetry {
			t.Errorf("Retry of %q: got %v, want %v", stream, retry, wantRetry)
		}
	})
}

// steps gives a few bytes at a time.
type steps struct {
	left []byte
	n    int
}

func (s *steps) Read(p []byte) (int, error) {
	if len(s.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.left[:min(s.n, len(s.left))])
	s.left = s.left[n:]
	return n, nil
}

// A pause of the source loses nothing, wherever it comes; between events the reader then
// holds no buffer, and another may go on.
func TestPause(t *testing.T) {
	pause := errors.New("pause")
	stream := "\ufeffdata: one\r\n\r\n: comment\n\nid: 7\ndata: two\ndata: lines\n\nretry: 5\n\ndata: " + strings.Repeat("x", 3000) + "\r\rdata:3\n\n"
	want, _ := reference(stream)
	for n := 2; n < 100; n++ {
		size, others := n/2, n%2 == 1
		rest, paused := stream, false
		source := sourceFunc(func(p []byte) (int, error) {
			if paused = !paused; paused {
				return 0, pause
			}
			if rest == "" {
				return 0, io.EOF
			}
			n := copy(p, rest[:min(size, len(rest))])
			rest = rest[n:]
			return n, nil
		})
		r := NewReader(source, 0)
		r.PauseOn(pause)
		var got []Event
		var err error
		pauses := 0
		for ; ; pauses++ {
			var some []Event
			some, err = readAll(r)
			if got = append(got, some...); err != pause {
				break
			}
			if r.buf != nil {
				t.Fatalf("pieces of %d bytes: a pause holds a buffer", size)
			}
			if others {
				place := r.Place()
				r = NewReader(source, 0)
				r.PauseOn(pause)
				r.GoOn(place)
			}
		}
		if err != io.EOF || !reflect.DeepEqual(got, want) {
			t.Errorf("pieces of %d bytes: got %v, %v, want %v", size, got, err, want)
		}
		if size == 1 && pauses < 5 { // as many ends of events and comments
			t.Errorf("got %d pauses, want 5", pauses)
		}
	}
}

type sourceFunc func([]byte) (int, error)

func (f sourceFunc) Read(p []byte) (int, error) { return f(p) }
