package httpguard

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

func zip(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	z.Write(b)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func response(encoding string, b []byte) *http.Response {
	resp := &http.Response{Header: http.Header{}, ContentLength: -1, Body: io.NopCloser(bytes.NewReader(b))}
	if encoding != "" {
		resp.Header.Set("Content-Encoding", encoding)
	}
	return resp
}

func TestBody(t *testing.T) {
	text := []byte(strings.Repeat(`{"text":"häuser"},`, 1000))
	tests := []struct {
		name, encoding string
		body, want     []byte
	}{
		{"plain", "", text, text},
		{"identity", "identity", text, text},
		{"gzip", "gzip", zip(t, text), text},
		{"upper case", " GZIP ", zip(t, text), text},
		{"x-gzip", "x-gzip", zip(t, text), text},
		{"two members", "gzip", append(zip(t, text[:9]), zip(t, text[9:])...), text},
		{"nothing", "gzip", nil, nil},
		{"compressed nothing", "gzip", zip(t, nil), nil},
	}
	for _, tt := range tests {
		for _, max := range []int64{0, -1, int64(len(text))} {
			got, err := readAll(response(tt.encoding, tt.body), max)
			if err != nil || !bytes.Equal(got, tt.want) {
				t.Errorf("%s, max %d: got %d bytes, %v, want %d", tt.name, max, len(got), err, len(tt.want))
			}
		}
	}
}

// SECA-9, ROB-3: what is small on the wire stays small here, or is refused.
func TestBombs(t *testing.T) {
	bomb := zip(t, make([]byte, 20<<20)) // 20 kB
	isLarge := func(err error) bool { _, ok := errors.AsType[*TooLargeError](err); return ok }
	isBomb := func(err error) bool { return errors.Is(err, ErrBomb) }
	isEncoding := func(err error) bool { _, ok := errors.AsType[*EncodingError](err); return ok }
	tests := []struct {
		name, encoding string
		body           []byte
		max            int64
		want           func(error) bool
	}{
		{"bomb", "gzip", bomb, 0, isBomb},
		{"bomb in a stream", "gzip", bomb, -1, isBomb},
		{"bomb with a small limit", "gzip", bomb, 1000, isLarge},
		{"bomb in a bomb", "gzip, gzip", zip(t, bomb), 0, isEncoding},
		{"large", "", make([]byte, DefaultMax+1), 0, isLarge},
		{"large and random", "gzip", zip(t, noise(DefaultMax+1)), 0, isLarge},
		{"brotli", "br", []byte{1}, 0, isEncoding},
		{"deflate", "deflate", []byte{1}, -1, isEncoding},
		{"zstd", "zstd", []byte{1}, 0, isEncoding},
		{"long name", strings.Repeat("x", 10_000), nil, 0, isEncoding},
		{"identity twice", "identity, identity", nil, 0, isEncoding},
		{"not gzip", "gzip", []byte("{}"), 0, func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrHeader) }},
		{"cut", "gzip", zip(t, noise(1000))[:500], 0, func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
		{"junk behind", "gzip", append(zip(t, noise(1000)), "junk that is no gzip"...), 0, func(err error) bool { return errors.Is(err, gzip.ErrHeader) }},
	}
	for _, tt := range tests {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		b := Body(response(tt.encoding, tt.body), tt.max)
		n, err := io.Copy(io.Discard, b)
		runtime.ReadMemStats(&after)
		if !tt.want(err) {
			t.Errorf("%s: got %d bytes, %v", tt.name, n, err)
		}
		if _, again := b.Read(make([]byte, 1)); again != err {
			t.Errorf("%s: reading on: got %v, want %v", tt.name, again, err)
		}
		if n > DefaultMax || tt.max > 0 && n > tt.max {
			t.Errorf("%s: got %d bytes", tt.name, n)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
			t.Errorf("%s: took %d bytes of memory", tt.name, grown)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("%s: the error has %d bytes", tt.name, len(err.Error()))
		}
	}
}

// noise does not compress.
func noise(n int) []byte {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

func TestAnnouncedLength(t *testing.T) {
	resp := response("", nil)
	resp.ContentLength = DefaultMax + 1
	resp.Body = io.NopCloser(iotest.ErrReader(errors.New("it was read")))
	if _, err := readAll(resp, 0); err == nil || err.Error() != (&TooLargeError{DefaultMax}).Error() {
		t.Errorf("a length of %d: got %v, want a TooLargeError", resp.ContentLength, err)
	}
}

func TestExactlyTheLimit(t *testing.T) {
	for _, size := range []int{999, 1000, 1001} {
		got, err := readAll(response("gzip", zip(t, noise(size))), 1000)
		if (err == nil) != (size <= 1000) || len(got) != min(size, 1000) {
			t.Errorf("%d of 1000 bytes: got %d, %v", size, len(got), err)
		}
	}
}

// What a compressed stream has flushed is there at once, and its beginning does
// not wait for the first byte.
func TestCompressedStream(t *testing.T) {
	pr, pw := io.Pipe()
	resp := response("gzip", nil)
	resp.Body = pr
	b := Body(resp, -1)
	defer b.Close()
	parts := []string{"data: 1\n\n", "data: 2\n\n"}
	next := make(chan string)
	go func() {
		z := gzip.NewWriter(pw)
		for part := range next {
			io.WriteString(z, part)
			z.Flush()
		}
	}()
	defer close(next)
	for _, want := range parts {
		next <- want
		got := make([]byte, len(want))
		if _, err := io.ReadFull(b, got); err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
}

func FuzzBody(f *testing.F) {
	f.Add("gzip", zip(f, []byte("hello")))
	f.Add("gzip", zip(f, make([]byte, 3<<20)))
	f.Add("", []byte("x"))
	f.Add("gzip,gzip", []byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, encoding string, b []byte) {
		const limit = 2 << 20
		if got, _ := readAll(response(encoding, b), limit); len(got) > limit {
			t.Errorf("got %d bytes, want at most %d", len(got), limit)
		}
	})
}

// readAll reads what Body gives, and closes it.
func readAll(resp *http.Response, max int64) ([]byte, error) {
	b := Body(resp, max)
	defer b.Close()
	return io.ReadAll(b)
}
