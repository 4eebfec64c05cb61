// request.go: one call in flight.

package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/buffer"
	"github.com/troupe-dev/troupe/mcpserver/internal/clients"
	"github.com/troupe-dev/troupe/mcpserver/internal/dialogue"
	"github.com/troupe-dev/troupe/mcpserver/internal/invocation"
	"github.com/troupe-dev/troupe/mcpserver/internal/logpace"
	"github.com/troupe-dev/troupe/mcpserver/internal/offered"
	"github.com/troupe-dev/troupe/mcpserver/internal/port"
)

// request is the handler of one call: its actor's, see [inbound.Handler].
type request struct {
	inbound.Call
	session    *session
	port       port.Port
	work       work
	version    mcp.Version
	client     *clients.Client
	principal  *Principal      // nil for an anonymous sender
	arguments  json.RawMessage // of a tool or prompt
	*optional                  // to be written through own
	logs       logpace.Pace
	invocation atomic.Pointer[handlerCall] // that it belongs to; nil for one whose handler cannot ask

	out     *[]byte // the encoded answer, once Handle has returned nil
	settled *[]byte // the same, of one that was concluded while its handler may write to out
	reader  *reader // whose goroutine this is, as long as it is; else nil
	hosted  bool    // it may ask, and runs on the reader's goroutine, or has begun there
	leased  bool    // the handler runs, and the reader may be taken away
	lost    bool    // the reader was taken away
}

// work is the subject of a call: a tool, a prompt, a resource, a completion.
type work interface {
	// name is for logs and messages.
	name() string
	// asks reports whether the handler takes the request: it may ask the client and
	// wait, so it runs on a goroutine of its own, or reads on (see [pipe.Input.Host]).
	asks() bool
	// speed decides whether it may run where a pipe is read; nil is never.
	speed() *offered.Speed
	// scopes are what the sender needs for it; nil for none.
	scopes() []string
	// run carries it out and leaves the answer in r.out, see request.respond.
	run(r *request) error
}

// optional has the fields that most requests do not need.
type optional struct {
	token     mcp.ProgressToken
	responses json.RawMessage         // inputResponses, nil when absent
	state     json.RawMessage         // requestState, nil when absent
	meta      clients.Meta            // empty when absent, and for a handler that cannot see it
	outer     context.Context         // of the call, as a middleware has changed it; nil without
	task      dialogue.Task           // of a task that a client watches; nil for others
	waits     chan invocation.Outcome // for a middleware; nil without
}

// noOptional is shared by the requests that need none of it. It is never written.
var noOptional optional

// own returns optional fields that the request may write. It is called before others know
// of the request, or on the goroutine of its handler.
func (r *request) own() *optional {
	if r.optional == &noOptional {
		r.optional = new(optional)
	}
	return r.optional
}

// buffer returns an empty buffer for the answer.
func (r *request) buffer() []byte {
	if r.out == nil {
		r.out = buffer.Take()
	}
	return (*r.out)[:0]
}

// answer is the response of a tool call, apart from its result.
func (r *request) answer() offered.Answer {
	return offered.Answer{ID: r.ID(), Version: r.version, Identity: r.session.server.identity}
}

// encoded makes an encoded response the answer.
func (r *request) encoded(response []byte, err error) error {
	if err == nil {
		*r.out = response
	}
	return err
}

// Handle implements [inbound.Handler].
func (r *request) Handle(context.Context) error {
	inline, start := r.reader != nil, r.Begun()
	if !inline {
		start = time.Now() // begun includes the wait for a goroutine
	}
	err := r.carryOut()
	r.work.speed().Ran(inline, time.Since(start)-r.Held())
	return err
}

func (r *request) carryOut() error {
	if all := r.session.server.opts.Middleware; len(all) > 0 {
		return r.runThrough(all)
	}
	if err := r.find(); err != nil {
		return err
	}
	if r.job().asks() {
		return r.start()
	}
	return r.job().run(r)
}

// enter and leave enclose the handler itself, which may be slow and does not need the
// frame any more: meanwhile another goroutine may take over the reader.
func (r *request) enter() {
	if r.reader != nil {
		r.leased = true
		r.reader.Offer()
	}
}

func (r *request) leave() {
	if r.leased {
		r.leased = false
		if !r.reader.Reclaim() {
			r.reader, r.lost = nil, true
		}
	}
}

// Answer implements [inbound.Handler].
func (r *request) Answer(err error) {
	if err == nil && r.settled != nil { // the handler may still run, and another goroutine read
		r.port.Respond(*r.settled, nil)
		return
	}
	if err == nil {
		r.send(*r.out)
		buffer.Give(r.out, *r.out)
		r.out = nil
		return
	}
	if n := r.invocation.Load(); n != nil {
		n.Leave(r, err)
	}
	if refuses(r.port, r.ID(), err) {
		return
	}
	wire := wireOf(err)
	if errors.Is(err, inbound.ErrClosed) { // the handler has not failed
		r.session.server.log.Debug("a call ended with its session", "session", r.session.ref.Path(), "name", r.work.name(), "id", r.ID().String(), "cause", err)
		wire = endedWith(err)
	} else if wire.Code == mcp.CodeInternal && !actors.Panicked(err) { // supervision logs a panic
		r.session.server.log.Error("a call failed", "session", r.session.ref.Path(), "method", r.Method(), "name", r.work.name(), "id", r.ID().String(), "error", err)
	}
	wire = wire.For(r.version)
	r.port.Respond(mcp.AppendError(nil, r.ID(), wire), wire)
}

// endedWith returns the error for a call whose session has ended before the call.
func endedWith(err error) *mcp.Error {
	if errors.Is(err, ErrClosed) || errors.Is(err, actors.ErrStopped) {
		return mcp.Errorf(mcp.CodeInternal, "the server is shutting down")
	}
	return mcp.Errorf(mcp.CodeInternal, "the session has ended")
}

// send writes a result, on the goroutine that ran the handler.
func (r *request) send(frame []byte) {
	if r.reader != nil {
		r.reader.Respond(frame, nil)
		return
	}
	r.port.Respond(frame, nil)
}

// Drop is for [inbound.Handler]: nothing is written for a cancelled
// request.
func (r *request) Drop(err error) {
	r.session.server.log.Debug("a call was cancelled", "session", r.session.ref.Path(), "name", r.work.name(), "id", r.ID().String(), "cause", err)
	r.port.Drop()
	if n := r.invocation.Load(); n != nil {
		n.Leave(r, err)
	}
}

// respond encodes a result as the answer. Tools encode theirs by [offered.Tool].
func (r *request) respond(result any) error {
	raw, err := mcp.MarshalResult(result, r.version)
	if err != nil {
		return fmt.Errorf("encoding the result of %s %q: %w", r.Method(), r.work.name(), err)
	}
	r.respondRaw(r.session.server.identity.Finish(raw, r.version))
	return nil
}

// respondRaw makes an encoded result the answer.
func (r *request) respondRaw(result []byte) {
	*r.out = mcp.AppendResult(r.buffer(), r.ID(), result)
}

// rawMeta returns the _meta as it came; nil if the handler sees none.
func (r *request) rawMeta() []byte { return r.meta.Raw(r.client) }
