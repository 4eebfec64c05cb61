package mcpserver

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/buffer"
	"github.com/troupe-dev/troupe/mcpserver/internal/streams"
)

// exchange is the port of one POST:
//
//	          answer                             notify
//	direct ───────────▶ over         any ─────────────────────▶ streaming
//	   │ wait                                                       │ answer, drop
//	   ▼      answer, drop          the client has gone             ▼
//	waiting ──────────────▶ over    waiting, streaming ──▶ gone    over
//
// As long as it is direct, the work is done on the goroutine of net/http, and the
// answer is written right there. Then that goroutine waits for others, and writes for
// them: no method of port waits for the network.
type exchange struct {
	server *Server
	w      http.ResponseWriter
	r      *http.Request
	legacy *httpSession // nil: 2026-07-28
	opens  bool         // the session: its id goes with the result
	batch  bool

	mu     sync.Mutex
	state  exchangeState
	stream *streams.Stream // nil as long as nothing has come before the answer
	wake   chan struct{}   // of the waiting goroutine; closed when there is something to write
	frame  *[]byte         // the answer, if it was not written directly
	failed *mcp.Error      // in frame
	empty  bool            // dropped: there is no answer
	call   *inbound.Call   // run elsewhere
	unhook func() bool     // ends the watch over the client's connection
}

type exchangeState uint8

const (
	direct exchangeState = iota
	waiting
	over // everything is said
	left // the client has gone
)

// notify implements port.
func (x *exchange) notify(frame []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if st := x.streaming(); st != nil {
		st.Send(frame)
	}
}

// hears reports whether the client may still get what comes before the answer.
func (x *exchange) hears() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stream != nil {
		return x.stream.Open()
	}
	return x.state < over
}

// streaming starts to stream if it has not, and returns the stream; nil if the client has
// gone. The lock is held.
func (x *exchange) streaming() *streams.Stream {
	if x.stream != nil || x.state >= over {
		return x.stream
	}
	if x.legacy != nil {
		x.stream = x.legacy.streams.Post(x.legacy.legacy.Load().version)
	} else {
		x.stream = x.server.streams.Plain()
	}
	x.ring()
	return x.stream
}

// ring wakes the goroutine that waits. It is called under the lock.
func (x *exchange) ring() {
	if x.state == waiting && x.wake != nil {
		close(x.wake)
		x.wake = nil
	}
}

// answer implements port.
func (x *exchange) answer(frame []byte, failed *mcp.Error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.state >= over: // nobody is there any more (SHL-15)
		return
	case x.stream != nil:
		x.stream.Finish(frame)
	case x.state == direct && failed == nil:
		x.write(frame, nil)
	case x.state == direct:
		// If the handler hangs this is not its goroutine, and that of net/http is not
		// there to send what it has gathered.
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

// drop implements port: a cancelled request has no answer, and neither has an array
// of notifications.
func (x *exchange) drop() {
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

// closeConn ends the connection, but not the stream: a client that can resume it comes
// back (SHL-40).
func (x *exchange) closeConn(retry time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.legacy == nil {
		return // the client would lose its request (SHM-08)
	}
	if st := x.streaming(); st != nil {
		st.CloseConn(retry)
	}
}

// began says that the work is done elsewhere, by a call that ends when a client of
// 2026-07-28 goes away (SHM-09).
func (x *exchange) began(c *inbound.Call) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.call = c
}

// Looked implements [inbound.Looker]: work that is done on the goroutine of net/http
// hears of a client that goes away only if it wants to know.
func (r *request) Looked() {
	if x, ok := r.port.(*exchange); ok && x.legacy == nil {
		x.hook(&r.Call)
	}
}

func (x *exchange) hook(c *inbound.Call) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.call == nil && x.unhook == nil && x.state == direct {
		x.unhook = context.AfterFunc(x.r.Context(), func() { c.Cancel(clientGone) })
	}
}

const clientGone = "the client has closed the connection"

// wait stays until everything is said, or the client has gone. The goroutine of
// net/http calls it when it has nothing else to do for the request; what it has read
// is given up if it has to wait.
func (x *exchange) wait(in *intake) {
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
		quiet := time.NewTimer(x.server.opts.KeepAlive)
		defer quiet.Stop()
		select {
		case <-wake:
		case <-quiet.C:
		case <-x.r.Context().Done():
			x.leave()
			return
		}
		x.mu.Lock()
		if x.state == waiting { // it takes long: a stream is kept alive, and can be resumed (WIRE-13, SHL-41)
			x.streaming()
		}
	}
	st, frame, empty := x.stream, x.frame, x.empty
	x.frame = nil
	x.mu.Unlock()
	switch {
	case st != nil:
		in.free()
		if err := st.Serve(x.w, x.r); err != nil {
			x.leave()
		}
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

// leave is what becomes of a request whose client has gone. In a legacy session
// nothing: it goes on (SHL-15, CANC-11), and if it streams, it can be resumed.
func (x *exchange) leave() {
	x.mu.Lock()
	call := x.call
	switch {
	case x.state == over:
		call = nil
	case x.legacy == nil:
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

// write sends an answer that is not part of a stream. It may wait for the client.
func (x *exchange) write(frame []byte, failed *mcp.Error) {
	status := http.StatusOK
	switch {
	case failed == nil && x.opens:
		x.w.Header()[headerSession] = []string{x.legacy.id} // SHL-50
	case failed == nil:
	case failed.Code == CodeRateLimited:
		status = http.StatusTooManyRequests
		x.w.Header()["Retry-After"] = []string{retryAfter(failed)}
	case x.batch:
		status = http.StatusBadRequest // it is no array of messages
	case x.legacy == nil:
		status = modernStatus(failed.Code)
	} // SHL-18: in a session an error is an answer like others
	if len(frame) > longFrame {
		defer x.hurry()()
	}
	writeJSON(x.w, status, frame)
}

// retryAfter is what the error says, in whole seconds.
func retryAfter(e *mcp.Error) string {
	var data struct {
		RetryAfterMs int64 `json:"retryAfterMs"`
	}
	_ = mcp.Unmarshal(e.Data, &data) // it is ours
	return strconv.FormatInt(max(1, (data.RetryAfterMs+999)/1000), 10)
}

const (
	// longFrame is more than a connection takes without the client's help.
	longFrame = 64 << 10
	// longWrite is how long a client may take for that.
	longWrite = 30 * time.Second
)

// hurry bounds a write, where the server does not.
func (x *exchange) hurry() (done func()) {
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
