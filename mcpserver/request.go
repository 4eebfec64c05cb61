// request.go: one tools/call in flight.

package mcpserver

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
)

// request is the handler of one call: its actor's, see [inbound.Handler].
type request struct {
	inbound.Call
	session   *session
	def       *tool
	version   mcp.Version
	client    *client
	arguments []byte
	meta      []byte // nil when absent, and for a handler that can not see it
	token     mcp.ProgressToken
	tool      ToolRequest

	out    *[]byte // the encoded answer, once Handle has returned nil
	batch  *batch  // that the answer is part of, or nil
	reader *reader // whose goroutine this is, as long as it is; else nil
	leased bool    // the handler runs, and the reader may be taken away
	lost   bool    // the reader was taken away
}

// buffers are for encoded answers.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}

const keepBuffer = 64 << 10

// buffer returns an empty buffer for the answer.
func (r *request) buffer() []byte {
	if r.out == nil {
		r.out = buffers.Get().(*[]byte)
	}
	return (*r.out)[:0]
}

// Handle implements [inbound.Handler].
func (r *request) Handle(context.Context) error {
	inline, start := r.reader != nil, r.Begun()
	if !inline {
		start = time.Now() // begun includes the wait for a goroutine
	}
	err := r.def.call(r)
	r.def.speed.ran(inline, time.Since(start))
	return err
}

// enter and leave enclose the handler itself: what is between them can be slow,
// and no longer needs the frame. The reading goroutine lends out its place.
func (r *request) enter() {
	if r.reader != nil {
		r.leased = true
		r.reader.lease.offer()
	}
}

func (r *request) leave() {
	if r.leased {
		r.leased = false
		if !r.reader.lease.reclaim() {
			r.reader, r.lost = nil, true
		}
	}
}

// Answer implements [inbound.Handler].
func (r *request) Answer(err error) {
	if err == nil {
		r.send(*r.out)
		if cap(*r.out) <= keepBuffer {
			buffers.Put(r.out)
		}
		r.out = nil
		return
	}
	wire := mcp.ErrorOf(err)
	if wire.Code == mcp.CodeInternal && !inbound.Failed(err) { // supervision logs a panic
		r.session.log.Error("a tool call failed", "tool", r.def.def.Name, "id", r.ID().String(), "error", err)
	}
	if _, over := errors.AsType[*inbound.ClosedError](err); over {
		wire = mcp.Errorf(mcp.CodeInternal, "the server is shutting down")
	}
	frame := mcp.AppendError(nil, r.ID(), wire.For(r.version))
	if r.batch != nil {
		r.batch.add(frame)
		r.batch.done()
		return
	}
	r.session.write(frame)
}

// send writes a result; this is the goroutine that ran the handler.
func (r *request) send(frame []byte) {
	switch {
	case r.batch != nil:
		r.batch.add(frame)
		r.batch.done()
	case r.reader != nil:
		r.reader.answer(frame)
	default:
		r.session.write(frame)
	}
}

// Drop implements [inbound.Dropper]: nothing is written for a cancelled request
// (CANC-03, CANC-09).
func (r *request) Drop(err error) {
	r.session.log.Debug("a call was cancelled", "tool", r.def.def.Name, "id", r.ID().String(), "cause", err)
	if r.batch != nil {
		r.batch.done()
	}
}
