package web

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"

	"github.com/troupe-dev/troupe/internal/webserver"
	"github.com/troupe-dev/troupe/mcp"
)

// intake is the memory that reading a POST needs. It is recycled: nothing of it may be kept
// beyond release, not by calls that run on other goroutines either.
type intake struct {
	message mcp.Message
	body    []byte
	large   largeBody
}

var intakes = sync.Pool{New: func() any { return new(intake) }}

func takeIntake() *intake { return intakes.Get().(*intake) }

// maxKeptBody bounds a buffer that waits for its next use, in bytes.
const maxKeptBody = 256 << 10

// firstBody is how much memory a body gets before it has more bytes than that: a
// Content-Length proves nothing (SECA-9).
const firstBody = 64 << 10

// free releases a large body while the request waits for its answer: the call has copied
// the parts that it needs.
func (in *intake) free() {
	if cap(in.body) > firstBody {
		in.message, in.body = mcp.Message{}, nil // the message refers to the body
	}
}

func (in *intake) release() {
	if cap(in.body) > maxKeptBody {
		in.body = nil
	}
	in.large.release()
	in.message, in.body = mcp.Message{}, in.body[:0]
	intakes.Put(in)
}

// readBody reads a whole body into in.body, or refuses it.
func (h *Handler) readBody(w http.ResponseWriter, r *http.Request, from Sender, in *intake) bool {
	grow := func(n int64) bool { return in.large.grow(&h.bodies, r, from, n) }
	body, err := readBounded(r.Body, in.body[:0], r.ContentLength, h.MaxMessage, grow)
	in.body = body
	status, why := 0, ""
	switch {
	case err == nil:
		webserver.BodyRead(w, r)
		return true
	case errors.Is(err, errLongBody):
		status, why = http.StatusRequestEntityTooLarge, "the message is too long"
	case errors.Is(err, errManyBodies):
		status, why = http.StatusTooManyRequests, "too many large requests at once"
		w.Header().Set("Retry-After", "1")
	case errors.Is(err, os.ErrDeadlineExceeded):
		status, why = http.StatusRequestTimeout, "the body did not come in time"
	default:
		status, why = http.StatusBadRequest, "the body cannot be read"
	}
	w.Header()["Connection"] = valueClose // the rest is not read
	refuse(w, status, mcp.ID{}, invalid(why))
	return false
}

var (
	errLongBody   = errors.New("the body is too long")
	errManyBodies = errors.New("the client has too many large requests")
)

// readBounded reads r to its end, at most limit bytes. Size is the announced length, -1 for
// an unknown one. Grow is asked before a body takes more memory than a small one.
func readBounded(r io.Reader, dst []byte, size int64, limit int, grow func(bytes int64) bool) ([]byte, error) {
	if size < 0 {
		size = 512
	}
	if need := min(int(size), firstBody) + 1; need > cap(dst) { // one more, to see the end without growing
		dst = make([]byte, 0, need)
	}
	for {
		if len(dst) == cap(dst) {
			before := cap(dst)
			dst = append(dst, 0)[:len(dst)]
			if cap(dst) > firstBody+1 && !grow(int64(cap(dst)-before)) {
				return dst[:0], errManyBodies
			}
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst) > limit:
			return dst[:0], errLongBody
		case err == io.EOF:
			return dst, nil
		case err != nil:
			return dst, err
		}
	}
}
