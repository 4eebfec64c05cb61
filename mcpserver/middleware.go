package mcpserver

import (
	"context"
	"encoding/json"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/offered"
	"github.com/troupe-dev/troupe/mcpserver/internal/tasks"
)

// Middleware stands around every request: it can inspect the request, refuse it by an error
// (the client gets an [*mcp.Error] as it is), give the handler another context, and replace
// the result of next.
//
//	func timed(ctx context.Context, in *mcpserver.Incoming, next mcpserver.Next) (json.RawMessage, error) {
//		start := time.Now()
//		result, err := next(ctx)
//		slog.Info("served", "method", in.Method, "name", in.Name, "took", time.Since(start), "error", err)
//		return result, err
//	}
//
// The result is the JSON object of the response, in the revision in.Version; a middleware
// must neither change it in place nor keep it. A handler that asks a client of 2026-07-28
// takes several requests: each round passes through, with input_required as the result of
// all but the last. subscriptions/listen and tasks/result, whose responses come when
// something ends, pass when they begin, with {} for their result.
//
// Notifications do not pass, nor requests that never reach their method: malformed, of an
// unknown method or tool, beyond the rate limit. Methods without a handler, such as
// tools/list, run where the pipe is read: a middleware must not wait there. With a
// middleware no handler runs there.
type Middleware func(ctx context.Context, in *Incoming, next Next) (result json.RawMessage, err error)

// Next goes on with the request. A middleware calls it at most once, on its own goroutine.
type Next = func(ctx context.Context) (result json.RawMessage, err error)

// Incoming is a request as a [Middleware] sees it. A middleware must not keep it.
type Incoming struct {
	Method    string
	Name      string          // of the tool or prompt, the URI or the id of a task; may be empty
	ID        mcp.ID          //
	Arguments json.RawMessage // of a tool or prompt; nil without any
	Meta      json.RawMessage // the _meta of the request; nil without one
	Version   mcp.Version
	Client    Client
	Principal *Principal // nil for an anonymous sender
	Peer      *Peer      // as [Request.Peer]; may be nil
	// Task is the id of the task whose work this is. A call that becomes a task at once
	// passes twice: with the creation for its result, and then as this work.
	Task string
}

// through runs the last step inside of the middleware, the first outermost.
func through(all []Middleware, ctx context.Context, in *Incoming, last Next) (json.RawMessage, error) {
	if len(all) == 0 {
		return last(ctx)
	}
	return all[0](ctx, in, func(ctx context.Context) (json.RawMessage, error) { return through(all[1:], ctx, in, last) })
}

// incoming returns what a middleware sees of a request that is not a call yet.
func (a *arrival) incoming() *Incoming {
	in := &Incoming{Method: a.Method, ID: a.ID, Meta: a.Meta, Version: a.version, Principal: a.principal}
	if in.Name, _ = a.URIString(); in.Name == "" {
		in.Name, _ = a.TaskIDString()
	}
	if a.client != nil {
		in.Client = publicClient(a.client, a.version)
	}
	return in
}

// runAround runs last, which is not a call, inside of the middleware. The goroutine reads
// for others, so a panic must not end it.
func runAround(s *Server, in *Incoming, last func() (json.RawMessage, error)) (json.RawMessage, error) {
	result, err := actors.Guard(func() (json.RawMessage, error) {
		return through(s.opts.Middleware, context.Background(), in, func(context.Context) (json.RawMessage, error) { return last() })
	})
	if p, ok := err.(*actors.PanicError); ok {
		s.log.Error("a middleware panicked", "method", in.Method, "id", in.ID.String(), "error", p, "stack", string(p.Stack))
		return nil, errOddResult
	}
	return result, err
}

// throughMiddleware runs a quick method inside of the middleware.
func (row method) throughMiddleware(s *session, a *arrival) ([]byte, error) {
	var own json.RawMessage
	in := a.incoming()
	in.Peer = s.public()
	result, err := runAround(s.server, in, func() (_ json.RawMessage, err error) {
		own, err = row.quick(s, a)
		return own, err
	})
	if err == nil && !offered.Unchanged(result, own) {
		err = checkObject(result)
	}
	if err != nil {
		if own != nil && a.Method == mcp.MethodInitialize { // the client gets no session
			s.legacy.Store(nil)
		}
		return nil, err
	}
	return result, nil
}

// passMiddleware runs the middleware for a request whose response comes later.
func passMiddleware(s *session, a *arrival) error {
	if len(s.server.opts.Middleware) == 0 {
		return nil
	}
	passed := false
	_, err := runAround(s.server, a.incoming(), func() (json.RawMessage, error) {
		passed = true
		return json.RawMessage("{}"), nil
	})
	if err == nil && !passed {
		err = mcp.Errorf(mcp.CodeInternal, "a middleware of the server has refused the request")
	}
	return err
}

// errOddResult replaces an invalid result of a middleware.
var errOddResult = mcp.Errorf(mcp.CodeInternal, "internal error")

// checkObject checks the result that a middleware returns in place of another.
func checkObject(result json.RawMessage) error {
	if len(result) == 0 || result[0] != '{' || !mcp.Valid(result) {
		return errOddResult
	}
	return nil
}

// runThrough carries out a call inside of the middleware.
func (r *request) runThrough(all []Middleware) error {
	in := &Incoming{
		Method: r.Method(), Name: r.work.name(), ID: r.ID(), Arguments: r.arguments, Meta: r.rawMeta(),
		Version: r.version, Client: publicClient(r.client, r.version), Principal: r.principal,
		Peer: r.session.public(),
	}
	if t, ok := r.task.(*tasks.Task); ok {
		in.Task = t.ID()
	}
	if r.Method() == mcp.MethodReadResource {
		in.Arguments = nil
	}
	var own json.RawMessage // the handler's result, in r.out
	parked := false
	result, err := through(all, &r.Call, in, func(ctx context.Context) (json.RawMessage, error) {
		if err := r.find(); err != nil {
			return nil, err
		}
		if r.job().asks() {
			return r.round(ctx)
		}
		r.own().outer = ctx
		err := r.job().run(r)
		if parked = err == inbound.ErrParked; err != nil {
			return nil, err
		}
		own = offered.ResultIn(*r.out, r.ID())
		return own, nil
	})
	switch {
	case parked: // the response comes when it ends
		return inbound.ErrParked
	case err != nil:
		return err
	case !offered.Unchanged(result, own):
		if err := checkObject(result); err != nil {
			return err
		}
		r.respondRaw(append([]byte(nil), result...)) // which may be a part of r.out
	}
	return nil
}

// context returns the handler's context: the call, or the context of the middleware.
func (r *request) context() context.Context {
	if n := r.invocation.Load(); n != nil {
		return n.Context()
	}
	if r.outer != nil {
		return r.outer
	}
	return &r.Call
}
