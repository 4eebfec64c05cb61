package expose

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/expose/internal/gateway"
	"github.com/troupe-dev/troupe/agent/expose/internal/relay"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// clientSession is one client that is served: a pipe, a legacy session, or a principal with
// certain capabilities. It has a server and connections of its own, so that clients share no
// lists, subscriptions, log levels and questions.
//
//	admitted ── a request that needs backends ──▶ connected ── hung up, idle, closed ──▶ closed
//	    ▲                                             │
//	    └───── idle, but with a session of its own ───┘
type clientSession struct {
	front     *Front
	principal *mcpserver.Principal // nil for an anonymous client
	key       string               // of a stateless client; empty for sessions and pipes
	client    *relay.Client
	row       row // of the clients' table, which alone changes it, under its lock

	making sync.Once
	server *mcpserver.Server // set by making, as are the next two
	gate   *gateway.Gateway  // nil without
	failed error

	ctx    context.Context // ends with the session
	cancel context.CancelCauseFunc
	over   chan struct{} // closed once all parts have ended

	// The requests of a client have its connections made, and the sweep takes them: neither
	// waits for the other.
	opening atomic.Pointer[opening] // nil before the first connect, and after one that failed
}

// opening is the making of a client's connections.
type opening struct {
	made   chan struct{} // closed when tenant and err are set; nil of one at rest
	tenant *agent.Tenant
	err    error
	listed chan struct{} // closed when the backends have listed, or failed

	ended chan struct{} // of one at rest: closed when the connections have ended; else nil
}

// atRest reports whether there are no connections, and none are being made.
func (o *opening) atRest() bool { return o == nil || o.ended != nil }

func (f *Front) newSession(p *mcpserver.Principal, key string) *clientSession {
	u := &clientSession{front: f, principal: p, key: key, over: make(chan struct{})}
	u.ctx, u.cancel = context.WithCancelCause(context.Background())
	name := principalID(p)
	if name == "" {
		name = "client"
	}
	u.client = f.operations.NewClient(u.ctx, u, relay.Identity{Name: name, Owner: principalID(p), Shared: key != "" && p == nil})
	return u
}

// serve returns the client's server; the first caller makes it.
func (u *clientSession) serve() (*mcpserver.Server, error) {
	u.making.Do(func() { u.server, u.failed = u.front.newServer(u) })
	return u.server, u.failed
}

// middleware sees each request of the client: it learns the client's capabilities, and has
// the connections and lists that the request needs made first.
func (u *clientSession) middleware(ctx context.Context, in *mcpserver.Incoming, next mcpserver.Next) (json.RawMessage, error) {
	switch in.Method {
	case mcp.MethodInitialize, mcp.MethodDiscover, mcp.MethodPing, mcp.MethodSetLevel:
		return next(ctx)
	}
	if u == u.front.anonymous {
		return nil, mcp.Errorf(mcp.CodeInvalidRequest, "the request belongs to no client: its session or its capabilities are missing")
	}
	u.client.Seen(in.Client.Capabilities, in.Peer)
	if u.gate == nil {
		return next(ctx)
	}
	switch in.Method {
	case mcp.MethodListen: // answered where it is read; it may be the only request for long
		u.connect()
	case mcp.MethodGetTask, mcp.MethodTaskResult, mcp.MethodListTasks, mcp.MethodCancelTask, mcp.MethodUpdateTask:
		// answered where they are read
	default:
		if err := u.prepare(ctx, in); err != nil {
			return nil, err
		}
	}
	if in.Method == mcp.MethodSubscribe {
		wait := u.gate.Expect(in.Name)
		defer wait(ctx)
	}
	return next(ctx)
}

// levelSet passes on the log level that a legacy client wants.
func (u *clientSession) levelSet(_ *mcpserver.Peer, level mcp.LogLevel) { u.gate.SetLevel(level) }

// tenant returns the client's connections. They are made when they are first needed, with the
// capabilities that the client has.
func (u *clientSession) tenant(ctx context.Context) (*agent.Tenant, error) {
	o := u.connect()
	select {
	case <-o.made:
		return o.tenant, o.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-u.ctx.Done():
		return nil, context.Cause(u.ctx)
	}
}

// prepare waits for the lists of all backends, or until the client's list has the item that a
// request names.
func (u *clientSession) prepare(ctx context.Context, in *mcpserver.Incoming) error {
	if _, err := u.tenant(ctx); err != nil {
		return err
	}
	o := u.connect()
	for {
		changed := u.gate.InStep()
		if in.Method == mcp.MethodCallTool && u.gate.HasTool(in.Name) || in.Method == mcp.MethodGetPrompt && u.gate.HasPrompt(in.Name) {
			return nil
		}
		select {
		case <-changed:
		case <-o.listed:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-u.ctx.Done():
			return context.Cause(u.ctx)
		}
	}
}

// connect has the connections made, if they are not, and does not wait for them.
func (u *clientSession) connect() *opening {
	for {
		before := u.opening.Load()
		if !before.atRest() {
			return before
		}
		o := &opening{made: make(chan struct{}), listed: make(chan struct{})}
		if !u.opening.CompareAndSwap(before, o) {
			continue
		}
		u.front.rt.System().Go("expose", func() {
			if before != nil {
				<-before.ended // a backend does not start while it ends
			}
			u.open(o)
		})
		return o
	}
}

// open makes the connections. After a failure the next request tries again.
func (u *clientSession) open(o *opening) {
	defer close(o.listed)
	if o.err = u.ctx.Err(); o.err == nil {
		o.tenant, o.err = u.newTenant()
	}
	if o.err != nil {
		o.tenant, o.err = nil, fmt.Errorf("connecting to the servers: %w", o.err)
		u.opening.CompareAndSwap(o, nil)
	}
	start := o.err == nil && u.gate != nil
	if start {
		u.gate.Start(o.tenant.Host())
	}
	close(o.made)
	if start {
		_ = u.gate.WaitForLists(u.ctx) // its error is that the session ends
	}
}

func (u *clientSession) newTenant() (_ *agent.Tenant, err error) {
	o := u.tenantOptions()
	if authorizer := u.front.opts.Authorizer; authorizer != nil && u.principal != nil {
		if o.Authorizer, err = authorizer(u.principal); err != nil {
			return nil, err
		}
	}
	return u.front.rt.NewTenant(u.ctx, o)
}

// tenantOptions declare the capabilities of the client to backends.
func (u *clientSession) tenantOptions() *agent.TenantOptions {
	caps, inbox := u.client.Capabilities(), u.client.Inbox()
	o := &agent.TenantOptions{
		Name: u.client.Name, LogLevel: mcp.LogInfo, // the client's own level decides later
		Human:      u.front.operations.Inbox,
		OnePerson:  !u.client.Shared,
		Forms:      caps.ElicitForm() || inbox,
		URLs:       caps.ElicitURL() || inbox,
		OnPageDone: u.client.PageDone,
	}
	if u.gate != nil {
		o.OnEvent = u.gate.Event
		o.OnNotification = func(server, method string, params json.RawMessage) { u.gate.Notification(server, method, params) }
	} else {
		o.OnLog = func(server string, p mcp.LogParams) { u.client.Log(p.Level, gateway.Logger(server, &p), p.Data) }
	}
	if caps != nil && caps.Sampling != nil {
		o.Sampling, o.SamplingTools, o.SamplingContext = true, caps.SamplingTools(), caps.Sampling.Context != nil
		o.Sampler = u.client
	} else {
		o.Lend = true // by the runtime's policy, if it has one
	}
	if caps != nil && caps.Roots != nil {
		o.Roots, o.RootsFunc = true, u.client.Roots
	}
	return o
}

// RootsChanged notifies the backends that the client's roots have changed.
func (u *clientSession) RootsChanged() {
	o := u.opening.Load()
	if o.atRest() {
		return
	}
	select {
	case <-o.made:
		if o.tenant != nil {
			o.tenant.RootsChanged()
		}
	default: // backends ask when they are connected
	}
}

// PageEnded notifies the client of the end of a page.
func (u *clientSession) PageEnded(elicitationID string) error {
	return u.server.CompleteElicitation(elicitationID, principalID(u.principal))
}

// OperationEnded starts the client's idle time anew.
func (u *clientSession) OperationEnded() { u.front.clients.touch(u) }

// rest takes the connections from a client that keeps its session, if they are made. The
// function that it returns ends them, and must be called; it is nil if there are none. The
// clients' table calls rest under its lock, so that no request comes between.
func (u *clientSession) rest() (end func()) {
	o := u.opening.Load()
	if o.atRest() {
		return nil
	}
	select {
	case <-o.listed:
	default:
		return nil
	}
	ended := make(chan struct{})
	if !u.opening.CompareAndSwap(o, &opening{ended: ended}) {
		return nil // they could not be made
	}
	if u.gate != nil {
		u.gate.Pause(errIdle)
	}
	return func() {
		u.front.rt.System().Go("expose", func() {
			defer close(ended)
			u.disconnect(o)
		})
	}
}

// close ends the session: its runs and calls with the cause, its server and its connections.
// It does not wait; over is closed when that has happened.
func (u *clientSession) close(cause error) {
	if u.front.clients.forget(u) {
		u.end(cause)
	}
}

// end is close for a session that the clients' table has dropped.
func (u *clientSession) end(cause error) {
	u.cancel(cause)
	u.front.rt.System().Go("expose", func() {
		defer close(u.over)
		if s, err := u.serve(); err == nil {
			if u.gate != nil {
				u.gate.Close()
			}
			if err := s.Close(); err != nil {
				u.front.log.Warn("a client's server did not end in order", "error", err)
			}
		}
		switch o := u.opening.Load(); {
		case o == nil:
		case o.atRest():
			<-o.ended
		default:
			<-o.listed // its context has ended
			u.disconnect(o)
		}
		u.front.clients.ended(u)
	})
}

// disconnect ends the connections.
func (u *clientSession) disconnect(o *opening) {
	if o.tenant == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.ctx), closeTime)
	defer cancel()
	if err := o.tenant.Close(ctx); err != nil {
		u.front.log.Warn("a client's connections did not end in order", "error", err)
	}
}
