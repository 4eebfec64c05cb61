package sse

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
)

// endless gives the same stream again and again, as a socket would in pieces.
type endless struct {
	stream []byte
	at     int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.at == len(e.stream) {
		e.at = 0
	}
	n := copy(p, e.stream[e.at:])
	e.at += n
	return n, nil
}

func BenchmarkReader(b *testing.B) {
	for _, size := range []int{100, 10_000, 1_000_000} {
		b.Run(fmt.Sprintf("data=%d", size), func(b *testing.B) {
			stream, _ := AppendEvent(nil, &Event{Type: "message", Data: bytes.Repeat([]byte("x"), size)})
			r := NewReader(&endless{stream: stream}, 0)
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkHostile is a stream made to be slow: a time per byte that grows with the
// size would show here.
func BenchmarkHostile(b *testing.B) {
	for name, stream := range map[string]string{
		"CR":       strings.Repeat("\r", 1<<20),
		"fields":   strings.Repeat("a\n\n", 1<<18),
		"no colon": strings.Repeat("data\r", 1<<17),
		"one byte": strings.Repeat("data: x\n\n", 1<<14),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(stream)))
			for b.Loop() {
				var src io.Reader = strings.NewReader(stream)
				if name == "one byte" {
					src = &steps{[]byte(stream), 1}
				}
				if _, err := readAll(NewReader(src, 0)); err == nil {
					b.Fatal("no end")
				}
			}
		})
	}
}

func BenchmarkAppendEvent(b *testing.B) {
	e := &Event{Type: "message", ID: "1", HasID: true, Data: bytes.Repeat([]byte("x"), 100)}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = AppendEvent(buf[:0], e)
	}
}
