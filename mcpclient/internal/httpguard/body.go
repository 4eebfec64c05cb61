package httpguard

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// DefaultMax is how many bytes of an answer are read unless told otherwise (WIRE-04).
const DefaultMax = 4 << 20

const (
	// A compressed body may grow to maxRatio times what was received, and freely up
	// to freeSize. Text of our kind stays below 50; a bomb has 1000.
	maxRatio = 200
	freeSize = 1 << 20
)

// TooLargeError is returned while reading a body with more than Max bytes.
type TooLargeError struct {
	Max int64 // in bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the answer is longer than %d bytes", e.Max)
}

// ErrBomb is returned for a body that grows beyond all measure when it is
// decompressed (SECA-9).
var ErrBomb = errors.New("the answer is compressed in a way that only serves to exhaust the reader")

// EncodingError is returned for a body in an encoding that was not asked for.
type EncodingError struct {
	Encoding string // what Content-Encoding says; cut off
}

func (e *EncodingError) Error() string {
	return fmt.Sprintf("the answer has the content encoding %q, and only gzip was asked for", e.Encoding)
}

// Body returns the decompressed body of an answer, of which at most max bytes are
// read before a [*TooLargeError]: zero means [DefaultMax], and a negative number
// no limit but that on the growth, for a stream that is read by parts. The errors
// of reading are that, [*EncodingError], [ErrBomb] and those of the network; each
// is final.
func Body(resp *http.Response, max int64) io.ReadCloser {
	if max == 0 {
		max = DefaultMax
	}
	b := &body{src: resp.Body, max: max}
	switch encoding := contentEncoding(resp.Header); {
	case encoding == "" || encoding == "identity":
		b.in = resp.Body
		if max > 0 && resp.ContentLength > max {
			b.err = &TooLargeError{max}
		}
	case encoding == "gzip" || encoding == "x-gzip":
		b.in = &gunzip{src: resp.Body}
	default:
		b.err = &EncodingError{encoding[:min(len(encoding), 100)]}
	}
	return b
}

// contentEncoding returns all encodings that were applied, as one text.
func contentEncoding(h http.Header) string {
	return strings.ToLower(strings.TrimSpace(strings.Join(h.Values("Content-Encoding"), ", ")))
}

// body counts what is read.
type body struct {
	src io.Closer
	in  io.Reader
	max int64
	n   int64
	err error // final
}

func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if b.max > 0 { // one byte more than is allowed tells whether there is more
		p = p[:min(int64(len(p)), b.max-b.n+1)]
	}
	n, err := b.in.Read(p)
	b.n += int64(n)
	if b.max > 0 && b.n > b.max {
		n, err = n-1, &TooLargeError{b.max}
	}
	b.err = err
	return n, err
}

func (b *body) Close() error { return b.src.Close() }

// gunzip decompresses. The header is read with the first bytes, not before: a
// stream may have none for a long time.
type gunzip struct {
	src io.Reader
	z   *gzip.Reader
	in  int64 // bytes received
	out int64
}

func (g *gunzip) Read(p []byte) (int, error) {
	if g.z == nil {
		z, err := gzip.NewReader(counter{g})
		if err == io.EOF && g.in == 0 {
			return 0, io.EOF // no body at all
		}
		if err != nil {
			return 0, fmt.Errorf("decompressing the answer: %w", err)
		}
		g.z = z
	}
	n, err := g.z.Read(p)
	g.out += int64(n)
	switch {
	case g.out > freeSize && g.out/maxRatio > g.in:
		return 0, ErrBomb
	case err != nil && err != io.EOF:
		err = fmt.Errorf("decompressing the answer: %w", err)
	}
	return n, err
}

// counter counts what is received.
type counter struct{ g *gunzip }

func (c counter) Read(p []byte) (int, error) {
	n, err := c.g.src.Read(p)
	c.g.in += int64(n)
	return n, err
}
