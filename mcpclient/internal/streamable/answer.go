package streamable

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/internal/sse"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
)

// receive reads the answer to a request (SHL-12, SHM-06).
func (p *post) receive(resp *http.Response) {
	if resp.StatusCode/100 != 2 {
		p.refused(resp)
		return
	}
	if p.method == mcp.MethodInitialize {
		if err := p.link.begun(resp.Header.Get(headerSession)); err != nil {
			p.invalid(resp.StatusCode, err)
			return
		}
	}
	switch kind := mediaType(resp.Header); kind {
	case typeJSON:
		p.json(resp)
	case typeStream:
		p.stream(resp)
	default:
		p.invalid(resp.StatusCode, fmt.Errorf("the answer is neither JSON nor an event stream, its type is %.100q", kind))
		tail(resp.Body)
	}
}

// json reads an answer that is one object (or a batch, in 2025-03-26).
func (p *post) json(resp *http.Response) {
	b := buffers.Get().(*[]byte)
	defer giveBack(b)
	frame, err := readAll(httpguard.Body(resp, int64(p.link.opts.MaxMessage)), (*b)[:0], resp.ContentLength)
	*b = frame
	switch {
	case unusable(err):
		p.invalid(resp.StatusCode, err)
		return
	case err != nil:
		p.link.fail(p, fmt.Errorf("reading the answer: %w", plain(err)))
		return
	}
	p.take(frame)
	if !p.answered {
		p.invalid(resp.StatusCode, p.why(errNoAnswer))
	}
}

// tooLong reports whether a message was too long.
func tooLong(err error) bool {
	_, large := errors.AsType[*httpguard.TooLargeError](err)
	_, long := errors.AsType[*sse.TooLongError](err)
	return large || long
}

// unusable tells a body that cannot be used from one that has not come to its end.
func unusable(err error) bool {
	_, encoded := errors.AsType[*httpguard.EncodingError](err)
	return tooLong(err) || encoded || errors.Is(err, httpguard.ErrBomb) || errors.Is(err, sse.ErrEndless)
}

// why prefers what is known to be wrong with an answer.
func (p *post) why(otherwise error) error {
	if p.fault != nil {
		return p.fault
	}
	return otherwise
}

// take passes on what came on the request's own stream.
func (p *post) take(frame []byte) {
	if mcp.IsBatch(frame) && p.link.speaks().Has(mcp.FeatureBatch) { // BASE-22, WIRE-12
		err := mcp.ScanBatch(frame, maxBatch, func(raw []byte) error {
			p.message(raw)
			return nil
		})
		if err != nil {
			p.fault = err
		}
		return
	}
	p.message(frame)
}

// messages are used again: scanning needs some hundred bytes.
var messages = sync.Pool{New: func() any { return new(mcp.Message) }}

// message passes on one message, unless it answers another request (SECA-6).
func (p *post) message(frame []byte) {
	m := messages.Get().(*mcp.Message)
	defer func() {
		*m = mcp.Message{}
		messages.Put(m)
	}()
	err := mcp.Scan(frame, m)
	l := p.link
	asks := m.Kind == mcp.KindRequest || m.Kind == mcp.KindNotification || m.Method != "" // or tries to: its id is the server's
	switch {
	case asks && err == nil:
	case p.answered:
		return // it has been answered
	case err == nil && m.Kind == mcp.KindError && m.ID.IsZero(): // BASE-08: whose else could it be?
		p.answered = true
		p.refuse(0, m.Error)
		return
	case !asks && m.ID == p.id: // also one that cannot be read
		p.answered = true
		l.forget(p)
	case !asks && !m.ID.IsZero():
		l.log.Warn("ignoring an answer on the stream of another request", "method", p.method)
		p.fault = errForeign
		return
	case err != nil:
		p.fault = err
	}
	if l.passes() {
		l.sink.FrameOf(p.id, frame)
	}
}

// refused reads a status that is no success.
func (p *post) refused(resp *http.Response) {
	l := p.link
	limit := time.AfterFunc(pageTime, func() { resp.Body.Close() })
	defer limit.Stop()
	status := &StatusError{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header)}
	var answer mcp.Message
	frame := l.page(resp, l.SessionID(), status, &answer)
	own := frame != nil && p.kind == mcp.KindRequest && answer.ID == p.id
	opens := p.method == mcp.MethodInitialize || p.method == mcp.MethodDiscover
	unknown := answer.Kind == mcp.KindError && answer.Error.Code == mcp.CodeMethodNotFound
	changed := p.otherEra(status, own) && l.outdated(p) // before the caller hears of it, and asks again
	switch {
	case status.Status == http.StatusUnauthorized, status.Status == http.StatusForbidden:
		err := l.denied(resp, l.SessionID(), status, p.denied)
		p.reject(&call.TransportError{Status: status.Status, Unsent: true, Err: err})
	case p.gone(status, own, unknown):
		l.log.Debug("the session is gone", "method", p.method)
		l.fail(p, fmt.Errorf("%w: %w", call.ErrUnsent, ErrSession))
		l.sessionLost()
	case own && p.method != mcp.MethodInitialize: // SHM-13; what refuses a handshake is known by its status too (ERA-02)
		p.answered = true
		if l.forget(p) {
			l.sink.FrameOf(p.id, frame)
		}
	case !own && !answer.ID.IsZero() && !opens && status.Err != nil: // the words of another request's answer
		p.reject(&call.TransportError{Status: status.Status, Err: &call.ResponseError{Method: p.method, Err: status}})
	default:
		p.reject(&call.TransportError{Status: status.Status, Err: status})
	}
	if changed {
		l.lose(conn.Redial(ErrEra))
	}
}

// otherEra reports whether a refusal shows that a server of the other era has taken the
// place of the one that was negotiated with (ERA-01): legacy servers give no modern
// errors (ERA-02), modern ones want no session and refuse no version that they offered.
func (p *post) otherEra(status *StatusError, own bool) bool {
	e, ok := errors.AsType[*mcp.Error](status.Err)
	if !ok || p.kind != mcp.KindRequest || p.method == mcp.MethodInitialize || p.method == mcp.MethodDiscover {
		return false
	}
	modern := p.link.speaks().Era() == mcp.EraModern
	switch e.Code {
	case mcp.CodeUnsupportedVersion:
		return true
	case mcp.CodeHeaderMismatch, mcp.CodeMissingClientCapability:
		return !modern
	}
	text := strings.ToLower(e.Message)
	return modern && !own && status.Status == http.StatusBadRequest && (strings.Contains(text, "session") || strings.Contains(text, "initialized"))
}

// gone reports whether the server does not know the session any more. By the rules that
// is a 404 (SHL-52); many servers answer 400 to an id that is not in their list, in
// words, and would never be left otherwise.
func (p *post) gone(status *StatusError, own, unknown bool) bool {
	switch {
	case p.inside == "":
		return false
	case status.Status == http.StatusBadRequest:
		return !own && strings.Contains(strings.ToLower(status.Error()), "session")
	}
	return status.Status == http.StatusNotFound && !(own && unknown)
}

// reject ends a request, or reports what became of another message.
func (p *post) reject(err *call.TransportError) {
	if err.Method = p.method; p.kind == mcp.KindRequest {
		p.link.fail(p, err)
		return
	}
	p.link.log.Warn("the server does not take a message", "method", p.method, "kind", p.kind.String(), "error", err.Err)
}

// mediaType returns the type of a body without its parameters, in lower case.
func mediaType(h http.Header) string {
	values := h["Content-Type"]
	if len(values) == 0 {
		return ""
	}
	switch values[0] {
	case typeJSON, typeStream:
		return values[0]
	}
	kind, _, err := mime.ParseMediaType(values[0])
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return ""
	}
	return kind
}

// retryAfter reads Retry-After: seconds or a date; 0 if there is none.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if value == "" {
		return 0
	}
	if n, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// buffers hold answers; they are used again.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

const maxKeptBuffer = 256 << 10

func giveBack(b *[]byte) {
	if cap(*b) <= maxKeptBuffer {
		buffers.Put(b)
	}
}

// readAll reads a body to its end; size is what it is said to have, -1 for not known.
func readAll(r io.Reader, dst []byte, size int64) ([]byte, error) {
	if need := min(size, maxKeptBuffer) + 1; need > int64(cap(dst)) { // one more, to see the end without growing
		dst = make([]byte, 0, need)
	}
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case err == io.EOF:
			return dst, nil
		case err != nil:
			return dst, err
		}
	}
}

// discard reads what little there may be, so that the connection can be used again.
func discard(r io.Reader) { _, _ = io.CopyN(io.Discard, r, 4<<10) }
