package rest

import (
	"bytes"
	"io"
	"net/http"
)

// Body is the body of a request, in parts that are read where they are.
type Body struct {
	Head  []byte
	Parts [][]byte
	Tail  []byte
}

// Of makes it the body of a request, which net/http sends again if the server has closed the
// connection meanwhile.
func (b Body) Of(req *http.Request) {
	n := len(b.Head) + len(b.Tail)
	for _, part := range b.Parts {
		n += len(part)
	}
	req.ContentLength = int64(n)
	if whole := b.Tail; n == len(whole) { // net/http knows this reader, and sends it with the header
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(whole)), nil }
	} else {
		again := reading{b.Head, b.Parts, b.Tail}
		req.GetBody = func() (io.ReadCloser, error) {
			r := again
			return &r, nil
		}
	}
	req.Body, _ = req.GetBody()
}

// reading reads a body once.
type reading struct {
	now  []byte // what is left of the part that is read
	left [][]byte
	tail []byte
}

func (r *reading) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(r.now) == 0 {
			switch {
			case len(r.left) > 0:
				r.now, r.left = r.left[0], r.left[1:]
				continue
			case len(r.tail) > 0:
				r.now, r.tail = r.tail, nil
			case n == 0:
				return 0, io.EOF
			default:
				return n, nil
			}
		}
		c := copy(p[n:], r.now)
		r.now, n = r.now[c:], n+c
	}
	return n, nil
}

// Close does nothing: net/http may call it while it still reads.
func (r *reading) Close() error { return nil }
