package mcpserver

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// intake is what reading a POST needs; it is used again. Nothing of it may be kept
// beyond release, which the calls of other goroutines hold to (arrival).
type intake struct {
	message mcp.Message
	arrival arrival
	body    []byte
	slow    slowBody
	load    load
}

// load is what a large body is counted as. Its zero value is nothing.
type load struct {
	of  *loads
	who string
	n   int64
}

// add counts n bytes more, unless that is too much.
func (l *load) add(n int64) bool {
	if !l.of.add(l.who, l.n, n) {
		return false
	}
	l.n += n
	return true
}

var intakes = sync.Pool{New: func() any { return new(intake) }}

func takeIntake() *intake { return intakes.Get().(*intake) }

// maxKeptBody bounds a buffer that waits for its next use.
const maxKeptBody = 256 << 10

// firstBody is what is read before a body has shown that it is longer: a length is
// quickly claimed (SECA-9).
const firstBody = 64 << 10

// free gives up the body of a request that others wait for: they have what they need.
// A large one should not wait with them.
func (in *intake) free() {
	if cap(in.body) > firstBody { // the message is made of its parts
		in.message, in.arrival, in.body = mcp.Message{}, arrival{}, nil
	}
}

func (in *intake) release() {
	if cap(in.body) > maxKeptBody {
		in.body = nil
	}
	if in.load.n > 0 {
		in.load.of.sub(in.load.who, in.load.n)
	}
	in.message, in.arrival, in.body, in.load = mcp.Message{}, arrival{}, in.body[:0], load{}
	intakes.Put(in)
}

// readBody reads a whole body into in.body, or refuses it.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, p *Principal, in *intake) bool {
	s.web.slow.watch(&in.slow, w)
	more := func(n int64) bool {
		if in.load.of == nil {
			in.load = load{of: &s.web.loads, who: sender(r, p)}
		}
		return in.load.add(n)
	}
	body, err := readBounded(r.Body, in.body[:0], r.ContentLength, s.opts.MaxMessage, more)
	in.body = body
	late := s.web.slow.done(&in.slow)
	status, why := 0, ""
	switch {
	case err == nil:
		return true
	case errors.Is(err, errLongBody):
		status, why = http.StatusRequestEntityTooLarge, "the message is too long"
	case errors.Is(err, errManyBodies):
		status, why = http.StatusTooManyRequests, "too many large requests at once"
		w.Header().Set("Retry-After", "1")
	case late, errors.Is(err, os.ErrDeadlineExceeded):
		status, why = http.StatusRequestTimeout, "the body did not come in time"
	default:
		status, why = http.StatusBadRequest, "the body can not be read"
	}
	w.Header()["Connection"] = valueClose // the rest is not read
	refuse(w, status, mcp.ID{}, invalid(why))
	return false
}

var (
	errLongBody   = errors.New("the body is too long")
	errManyBodies = errors.New("the client has too many large requests")
)

// readBounded reads r to its end, at most limit bytes. Size is what it is said to
// have, -1 for not known. It asks before it takes more bytes than a small body has.
func readBounded(r io.Reader, dst []byte, size int64, limit int, more func(bytes int64) bool) ([]byte, error) {
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
			if cap(dst) > firstBody+1 && !more(int64(cap(dst)-before)) {
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

// slowBodies ends the reading of bodies that take too long (ROB-8). Deadlines of
// connections would cost each request more than this: one clock looks at all that are
// being read, and most are gone before it ticks.
type slowBodies struct {
	mu    sync.Mutex
	clock *time.Timer // runs while there are any
	first *slowBody
	runs  bool
}

// slowBody is one body being read: an element of the list.
type slowBody struct {
	next, prev *slowBody
	w          http.ResponseWriter
	ticks      int
	late       bool
}

// A body is ended at the fourth tick: after 30 to 40 s.
const (
	bodyTick  = 10 * time.Second
	bodyTicks = 4
)

func (l *slowBodies) watch(b *slowBody, w http.ResponseWriter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*b = slowBody{w: w, next: l.first}
	if l.first != nil {
		l.first.prev = b
	}
	l.first = b
	if l.runs {
		return
	}
	l.runs = true
	if l.clock == nil {
		l.clock = time.AfterFunc(bodyTick, l.tick)
		return
	}
	l.clock.Reset(bodyTick)
}

// done reports whether the reading was ended.
func (l *slowBodies) done(b *slowBody) (late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.prev != nil {
		b.prev.next = b.next
	} else {
		l.first = b.next
	}
	if b.next != nil {
		b.next.prev = b.prev
	}
	late = b.late
	*b = slowBody{}
	return late
}

func (l *slowBodies) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs = l.first != nil
	for b := l.first; b != nil; b = b.next {
		if b.ticks++; b.ticks == bodyTicks {
			b.late = true
			// Where there are no deadlines, the server's own have to do.
			_ = http.NewResponseController(b.w).SetReadDeadline(time.Unix(1, 0))
		}
	}
	if l.runs {
		l.clock.Reset(bodyTick)
	}
}
