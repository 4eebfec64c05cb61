package rest_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/rest"
)

// all reads until the end and returns what came and how it ended.
func all(next func() ([]byte, error)) ([]string, error) {
	var got []string
	for {
		data, err := next()
		if len(data) > 0 || err == nil {
			got = append(got, string(data))
		}
		if err != nil {
			return got, err
		}
	}
}

func TestLines(t *testing.T) {
	boom := errors.New("boom")
	big := strings.Repeat("x", rest.MaxDocument-1)
	tests := []struct {
		name string
		in   io.Reader
		want []string
		err  error
	}{
		{"lines", strings.NewReader("a\r\n\nb\n"), []string{"a", "", "b"}, io.EOF},
		{"CR alone", strings.NewReader("a\r\rb\r"), []string{"a", "", "b"}, io.EOF},
		{"CRLF byte by byte", iotest.OneByteReader(strings.NewReader("a\r\n\r\nb\r\n")), []string{"a", "", "b"}, io.EOF},
		{"CR at the edge of the buffer", strings.NewReader(strings.Repeat("y", 4095) + "\r\nz\n"), []string{strings.Repeat("y", 4095), "z"}, io.EOF},
		{"CR behind the edge of the buffer", strings.NewReader(strings.Repeat("y", 4096) + "\r\nz"), []string{strings.Repeat("y", 4096), "z"}, io.EOF},
		{"a byte order mark", strings.NewReader("\uFEFFa\n\uFEFFb\n"), []string{"a", "\uFEFFb"}, io.EOF},
		{"nothing but a byte order mark", iotest.OneByteReader(strings.NewReader("\uFEFF")), nil, io.EOF},
		{"no end of line", strings.NewReader("a\nb"), []string{"a", "b"}, io.EOF},
		{"nothing", strings.NewReader(""), nil, io.EOF},
		{"byte by byte", iotest.OneByteReader(strings.NewReader("ab\ncd\n")), []string{"ab", "cd"}, io.EOF},
		{"beyond the buffer", strings.NewReader(strings.Repeat("y", 10_000) + "\nz\n"), []string{strings.Repeat("y", 10_000), "z"}, io.EOF},
		{"a cut line is no line", io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(boom)), []string{"a"}, boom},
		{"as long as may be", strings.NewReader(big + "\n"), []string{big}, io.EOF},
		{"too long", strings.NewReader(big + "xx\n"), nil, llm.ErrTooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := all(rest.NewLines(tt.in).Next)
			if !slices.Equal(got, tt.want) || err != tt.err {
				t.Errorf("Next: got %.100q and %v, want %.100q and %v", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestEvents(t *testing.T) {
	const stream = ": comment\nevent: x\nid: 1\ndata: a\n\ndata:b\r\n\r\ndata:\nretry: 5\n{\"bare\":1}\nnoise\ndata:  c  "
	got, err := all(rest.NewEvents(strings.NewReader(stream)).Next)
	if want := []string{"a", "b", `{"bare":1}`, "c"}; !slices.Equal(got, want) || err != io.EOF {
		t.Errorf("Next: got %q and %v, want %q", got, err, want)
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\r\n\ndata: b\n"))
	f.Add([]byte("\uFEFFa\r\rb\n\rc"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := all(rest.NewLines(iotest.HalfReader(bytes.NewReader(data))).Next)
		if err != io.EOF {
			t.Fatalf("Next: got error %v", err)
		}
		want := 0
		for line := range bytes.FieldsFuncSeq(bytes.TrimPrefix(data, []byte("\uFEFF")), func(r rune) bool { return r == '\r' || r == '\n' }) {
			want += len(line)
		}
		total := 0
		for _, line := range got {
			if strings.ContainsAny(line, "\r\n") {
				t.Fatalf("Next: got the line %q", line)
			}
			total += len(line)
		}
		if total != want {
			t.Fatalf("Next: got %d bytes of lines, want %d", total, want)
		}
	})
}

// A line that ends with CR is there before the next byte is: a server may take its time with that.
func TestLinesDoNotWait(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	go func() { _, _ = w.Write([]byte("a\r")) }()
	if got, err := rest.NewLines(r).Next(); string(got) != "a" || err != nil {
		t.Errorf("Next: got %q and error %v", got, err)
	}
}
