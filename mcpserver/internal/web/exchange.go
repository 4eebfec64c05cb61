package web

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/buffer"
	"github.com/troupe-dev/troupe/mcpserver/internal/streams"
)

// Call is a call that an exchange ends when its client goes away.
type Call interface{ Cancel(reason string) }

// Exchange is one POST and its answer:
//
//	          answer                             notify
//	direct ───────────▶ over         any ─────────────────────▶ streaming
//	   │ wait                                                       │ answer, drop
//	   ▼      answer, drop          the client has gone             ▼
//	waiting ──────────────▶ over    waiting, streaming ──▶ gone    over
//
// While it is direct, the handler runs on the goroutine of net/http, which also writes the
// answer. Later that goroutine waits for others, and writes for them, except for questions: no method of
// other goroutines waits for the network. A frame is the caller's again when a method
// returns.
type Exchange struct {
	handler *Handler
	w       http.ResponseWriter
	r       *http.Request
	session *session // nil: 2026-07-28
	opens   bool     // the session: its id goes with the result
	batch   bool

	mu      sync.Mutex // guards the fields below, which the handler's goroutine shares with that of net/http; an actor between them would be a message for each frame
	state   exchangeState
	stream  *streams.Stream // nil until a frame comes before the answer
	wake    chan struct{}   // of the waiting goroutine; closed when it has to write
	frame   *[]byte         // the answer, if it was not written directly
	failed  *mcp.Error      // in frame
	refusal *refusedRequest // in place of an answer
	empty   bool            // dropped: no answer follows
	call    Call            // that runs on another goroutine
	unhook  func() bool     // ends the watch of the client's connection
}

type exchangeState uint8

const (
	direct exchangeState = iota
	waiting
	over // the answer is written, or dropped
	left // the client has gone
)

// Notify sends a frame that comes before the answer: a notification, or a question to the
// client.
func (x *Exchange) Notify(frame []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if st := x.streaming(); st != nil {
		st.Send(frame)
	}
}

// Ask is Notify for a question, on the goroutine that will wait for the answer: it may write the
// question itself.
func (x *Exchange) Ask(frame []byte) {
	x.mu.Lock()
	st := x.streaming()
	x.mu.Unlock()
	if st != nil {
		st.SendHere(frame)
	}
}

// Open reports whether the client may still get frames before the answer.
func (x *Exchange) Open() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stream != nil {
		return x.stream.Open()
	}
	return x.state < over
}

// streaming starts to stream if it has not, and returns the stream; nil if the client has
// gone. The lock is held.
func (x *Exchange) streaming() *streams.Stream {
	if x.stream != nil || x.state >= over {
		return x.stream
	}
	if x.session != nil {
		x.stream = x.session.streams.Post(x.session.Version())
	} else {
		x.stream = x.handler.streams.Plain()
	}
	x.ring()
	return x.stream
}

// ring wakes the waiting goroutine. It is called under the lock.
func (x *Exchange) ring() {
	if x.state == waiting && x.wake != nil {
		close(x.wake)
		x.wake = nil
	}
}

// Respond sends the response. Failed is the error in it, nil for a result.
func (x *Exchange) Respond(frame []byte, failed *mcp.Error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.state >= over: // the client has gone (SHL-15)
		return
	case x.stream != nil:
		x.stream.Finish(frame)
	case x.state == direct && failed == nil:
		x.write(frame, nil)
	case x.state == direct:
		// If the handler hangs this is not its goroutine, and the one of net/http does not
		// return to flush its buffer.
		x.w.Header()[headerLength] = []string{strconv.Itoa(len(frame))}
		x.write(frame, failed)
		_ = http.NewResponseController(x.w).Flush()
	default:
		x.frame, x.failed = buffer.Take(), failed
		*x.frame = append((*x.frame)[:0], frame...)
	}
	x.ring()
	x.state = over
}

// refusedRequest is a refusal of the request with an id.
type refusedRequest struct {
	*Refusal
	id mcp.ID
}

// Refuse answers with a refusal in place of a response, and reports false if frames were
// sent already: then the status is sent, too.
func (x *Exchange) Refuse(id mcp.ID, e *Refusal) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.state >= over:
		return true
	case x.stream != nil:
		return false
	case x.state == direct:
		e.write(x.w, id)
	default:
		x.refusal = &refusedRequest{e, id}
	}
	x.ring()
	x.state = over
	return true
}

// Streams reports whether frames were sent before the answer.
func (x *Exchange) Streams() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.stream != nil
}

// Drop ends the exchange without an answer, as a cancelled request does, or an array
// of notifications.
func (x *Exchange) Drop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state >= over {
		return
	}
	if x.stream != nil {
		x.stream.End()
	}
	x.empty = true
	x.ring()
	x.state = over
}

// CloseConn ends the connection, but not the stream: a client that can resume it comes
// back (SHL-40).
func (x *Exchange) CloseConn(retry time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.session == nil {
		return // the client would lose its request (SHM-08)
	}
	if st := x.streaming(); st != nil {
		st.CloseConn(retry)
	}
}

// Began sets the call that runs on another goroutine. It ends when a client of
// 2026-07-28 goes away (SHM-09).
func (x *Exchange) Began(c Call) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.call = c
}

// Watch cancels a call that runs on the goroutine of net/http when its client goes away. A
// call in a legacy session goes on.
func (x *Exchange) Watch(c Call) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.session == nil && x.call == nil && x.unhook == nil && x.state == direct {
		x.unhook = context.AfterFunc(x.r.Context(), func() { c.Cancel(clientGone) })
	}
}

const clientGone = "the client has closed the connection"

// wait returns when the answer is written, or the client has gone. The goroutine of
// net/http calls it when it has handled the request; a large body is released
// while it waits.
func (x *Exchange) wait(in *intake) {
	x.mu.Lock()
	if x.unhook != nil {
		x.unhook()
		x.unhook = nil
	}
	if x.state == direct && x.stream == nil {
		wake := make(chan struct{})
		x.state, x.wake = waiting, wake
		x.mu.Unlock()
		in.free()
		quiet := time.NewTimer(x.handler.Streams.KeepAlive)
		defer quiet.Stop()
		select {
		case <-wake:
		case <-quiet.C:
		case <-x.r.Context().Done():
			x.leave()
			return
		}
		x.mu.Lock()
		if x.state == waiting { // the answer takes long: a stream has keep-alives, and can be resumed (WIRE-13, SHL-41)
			x.streaming()
		}
	}
	st, frame, empty, refusal := x.stream, x.frame, x.empty, x.refusal
	x.frame = nil
	x.mu.Unlock()
	switch {
	case st != nil:
		in.free()
		if err := st.Serve(x.w, x.r); err != nil {
			x.leave()
		}
	case refusal != nil:
		refusal.write(x.w, refusal.id)
	case frame != nil:
		x.write(*frame, x.failed)
		buffer.Give(frame, *frame)
	case empty && x.batch:
		x.w.WriteHeader(http.StatusAccepted) // SHL-11
	case empty: // CANC-03: a stream that ends without an answer
		x.w.Header()[headerType] = valueStream
		x.w.WriteHeader(http.StatusOK)
	}
}

// leave cancels the request of a client that has gone. In a legacy session the request goes
// on (SHL-15, CANC-11), and its stream can be resumed.
func (x *Exchange) leave() {
	x.mu.Lock()
	call := x.call
	switch {
	case x.state == over:
		call = nil
	case x.session == nil:
		x.state = left
	case x.stream == nil:
		x.state, call = left, nil
	default:
		call = nil
	}
	x.mu.Unlock()
	if call != nil {
		call.Cancel(clientGone)
	}
}

// write writes an answer that is not part of a stream. It may wait for the client.
func (x *Exchange) write(frame []byte, failed *mcp.Error) {
	status := http.StatusOK
	switch {
	case failed == nil && x.opens:
		x.w.Header()[headerSession] = []string{x.session.id} // SHL-50
	case failed == nil:
	case failed.Code == CodeRateLimited:
		status = http.StatusTooManyRequests
		x.w.Header()["Retry-After"] = []string{retryAfter(failed)}
	case x.batch:
		status = http.StatusBadRequest // it is no array of messages
	case x.session == nil:
		status = modernStatus(failed.Code)
	} // SHL-18: in a session an error is an answer like others
	if len(frame) > longFrame {
		defer x.hurry()()
	}
	writeJSON(x.w, status, frame)
}

// CodeRateLimited is the error code of a request beyond the rate limit. Its data is
// {"retryAfterMs": n}.
const CodeRateLimited = 429

// retryAfter returns the time that a rate limit error names, in whole seconds.
func retryAfter(e *mcp.Error) string {
	var data struct {
		RetryAfterMs int64 `json:"retryAfterMs"`
	}
	_ = mcp.Unmarshal(e.Data, &data) // the backend has encoded it
	return strconv.FormatInt(max(1, (data.RetryAfterMs+999)/1000), 10)
}

const (
	// longFrame is more than a connection takes before the client reads.
	longFrame = 64 << 10
	// longWrite bounds the time that a client takes to read it.
	longWrite = 30 * time.Second
)

// hurry bounds a write, unless the http.Server does.
func (x *Exchange) hurry() (done func()) {
	if web, ok := x.r.Context().Value(http.ServerContextKey).(*http.Server); ok && web.WriteTimeout > 0 {
		return func() {}
	}
	rc := http.NewResponseController(x.w)
	if rc.SetWriteDeadline(time.Now().Add(longWrite)) != nil {
		return func() {}
	}
	return func() {
		_ = rc.Flush()
		_ = rc.SetWriteDeadline(time.Time{})
	}
}
