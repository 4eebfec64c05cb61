package expose

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// upstream is one client that is served: a pipe, a legacy session, or a principal with
// certain capabilities. It has a server and connections of its own, so that lists,
// subscriptions, log levels and questions are never another client's.
//
//	made ── a request that needs the servers ──▶ open ── hung up, idle, closed ──▶ closed
//	  ▲                                           │
//	  └──── idle, but with a session of its own ──┘
type upstream struct {
	front     *Front
	log       *slog.Logger
	server    *mcpserver.Server
	principal *mcpserver.Principal // nil for nobody
	key       string               // of a stateless client; empty for sessions and pipes
	gate      *gateway             // nil without

	ctx    context.Context // ends with the upstream
	cancel context.CancelCauseFunc
	over   chan struct{} // closed once everything of it has ended

	mu      sync.Mutex
	caps    *mcp.ClientCapabilities // what the first request has declared; nil before
	peer    *mcpserver.Peer         // of a legacy client that was heard of; nil for others
	opening *opening                // nil before ready, and after rest
	resting chan struct{}           // closed when the connections of before rest have ended; nil without
	errands map[*errand]struct{}    // that are under way
	roots   []mcp.Root              // as they were last told; nil if they never were
	owed    bool                    // a server wanted the roots when nobody could be asked
	pages   map[pageKey][]string    // the ids of pages whose end the client is to hear of
	runs    []string                // that are listed as resources, the oldest first

	// Guarded by the lock of the front.
	busy    int       // requests that use it now
	used    bool      // a request has come after the one that has opened it
	idle    time.Time // since when
	session string    // by which the client comes back; empty for pipes and stateless clients
}

// pageKey is a page of a server that somebody was sent to.
type pageKey struct{ server, url string }

// opening is what becomes of the connections.
type opening struct {
	there  chan struct{} // closed when what follows is set
	tenant *agent.Tenant
	err    error
	done   chan struct{} // closed when the servers have listed what they have, or have failed
}

// ready returns the upstream's connections, which are made when they are first needed:
// they declare what the client can do, and nothing else.
func (u *upstream) ready(ctx context.Context) (*agent.Tenant, error) {
	o := u.begin()
	return u.await(ctx, o, o.there)
}

// await returns the connections once a step towards them is done.
func (u *upstream) await(ctx context.Context, o *opening, step <-chan struct{}) (*agent.Tenant, error) {
	select {
	case <-step:
		return o.tenant, o.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-u.ctx.Done():
		return nil, context.Cause(u.ctx)
	}
}

// prepare waits until what a request needs of the servers is there: for the lists of all
// servers, or, if it names something that is offered already, for no more than connections.
func (u *upstream) prepare(ctx context.Context, in *mcpserver.Incoming) error {
	o := u.begin()
	if _, err := u.await(ctx, o, o.there); err != nil || u.gate == nil {
		return err
	}
	for {
		changed := u.gate.inStep()
		if u.offers(in) {
			return nil
		}
		select {
		case <-changed:
		case <-o.done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-u.ctx.Done():
			return context.Cause(u.ctx)
		}
	}
}

// offers reports whether a request is for a tool or prompt that the client has on its list.
func (u *upstream) offers(in *mcpserver.Incoming) bool {
	switch in.Method {
	case mcp.MethodCallTool:
		return u.reserved(in.Name) || shows(u.gate, &u.gate.shelf.tools, in.Name)
	case mcp.MethodGetPrompt:
		return u.reserved(in.Name) || shows(u.gate, &u.gate.shelf.prompts, in.Name)
	}
	return false
}

// begin has the connections made, if they were not, and does not wait for them.
func (u *upstream) begin() *opening {
	u.mu.Lock()
	defer u.mu.Unlock()
	o := u.opening
	if o == nil {
		o = &opening{there: make(chan struct{}), done: make(chan struct{})}
		u.opening = o
		caps, resting := u.caps, u.resting
		u.front.rt.System().Go("expose", func() {
			if resting != nil {
				<-resting // a server is not started while it ends
			}
			u.open(o, caps)
		})
	}
	return o
}

// open makes the connections. A failure is not kept: the next request tries again.
func (u *upstream) open(o *opening, caps *mcp.ClientCapabilities) {
	defer close(o.done)
	if o.err = u.ctx.Err(); o.err == nil {
		o.tenant, o.err = u.front.rt.NewTenant(u.ctx, u.tenantOptions(caps))
	}
	if o.err != nil {
		o.tenant, o.err = nil, fmt.Errorf("connecting to the servers: %w", o.err)
		u.mu.Lock()
		if u.opening == o {
			u.opening = nil
		}
		u.mu.Unlock()
		close(o.there)
		return
	}
	if u.gate == nil {
		close(o.there)
		return
	}
	u.gate.start(o.tenant)
	close(o.there)
	_ = u.gate.waitForLists(u.ctx) // its error is that the upstream ends
}

// detach takes the connections from an upstream that keeps its session, if they are made
// and nothing uses them. What it returns ends them, and is to be called; nil is that there
// are none. It is called under the lock of the front, so that no request comes between.
func (u *upstream) detach() (end func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	o := u.opening
	if o == nil {
		return nil
	}
	select {
	case <-o.done:
	default:
		return nil
	}
	ended := make(chan struct{})
	u.opening, u.resting = nil, ended
	if u.gate != nil {
		u.gate.pause()
	}
	return func() {
		u.front.rt.System().Go("expose", func() {
			defer close(ended)
			u.shut(o)
		})
	}
}

// tenantOptions declare to servers what the client can do.
func (u *upstream) tenantOptions(caps *mcp.ClientCapabilities) *agent.TenantOptions {
	o := &agent.TenantOptions{
		Name: u.name(), LogLevel: mcp.LogInfo, // which of it the client gets is decided when it comes
		Human:      u.front.fallback,
		OnePerson:  !u.shared(),
		Forms:      caps.ElicitForm() || u.front.opts.Unanswered == FallbackInbox,
		URLs:       caps.ElicitURL() || u.front.opts.Unanswered == FallbackInbox,
		OnPageDone: u.pageDone,
	}
	if g := u.gate; g != nil {
		o.OnEvent, o.OnNotification = g.event, g.notification
	} else {
		o.OnLog = u.serverLog
	}
	if caps != nil && caps.Sampling != nil {
		o.Sampling, o.SamplingTools, o.SamplingContext = true, caps.SamplingTools(), caps.Sampling.Context != nil
		o.Sampler = u
	} else {
		o.Lend = true // as the runtime's policy says, if it has one
	}
	if caps != nil && caps.Roots != nil {
		o.Roots, o.RootsFunc = true, u.rootsNow
	}
	return o
}

// serverLog passes on what a server logs.
func (u *upstream) serverLog(server string, p mcp.LogParams) {
	logger := server
	if p.Logger != "" {
		logger += "/" + p.Logger
	}
	u.logApart(p.Level, logger, p.Data)
}

// logApart sends a log message that belongs to no call that is known: with one that is
// under way if there is any, else alone, where the client takes such.
func (u *upstream) logApart(level mcp.LogLevel, logger string, data any) {
	if e := u.live(); e != nil {
		e.log(level, logger, data)
		return
	}
	u.mu.Lock()
	peer := u.peer
	u.mu.Unlock()
	if peer != nil {
		peer.Log(level, logger, data)
	}
}

// Sample implements [mcpclient.Sampler] for what belongs to no call: the client can only
// be asked during one.
func (u *upstream) Sample(ctx context.Context, req *mcpclient.SampleRequest) (*mcp.CreateMessageResult, error) {
	if e := u.live(); e != nil {
		return e.Sample(ctx, req)
	}
	return nil, mcp.ErrUserRejected
}

// rootsNow returns the client's roots: as it tells them now if it can be asked, else as
// it told them last.
func (u *upstream) rootsNow(ctx context.Context) ([]mcp.Root, error) {
	u.mu.Lock()
	peer := u.peer
	u.mu.Unlock()
	if peer != nil && peer.Client().Version.Era() == mcp.EraLegacy {
		roots, err := peer.Roots(ctx)
		if err == nil {
			u.keepRoots(roots)
		}
		return roots, err
	}
	if e := u.live(); e != nil {
		roots, err := e.Roots(ctx)
		if err == nil || e.ctx.Err() == nil || ctx.Err() != nil {
			return roots, err
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.owed = u.roots == nil
	return u.roots, nil
}

// payRoots asks for the roots that a server wanted when nobody could be asked, and has
// the servers ask again. Many want them once, when they are connected. It is done in runs:
// a call of the gateway is asked nothing that its own server does not ask.
func (u *upstream) payRoots(e *errand) {
	u.mu.Lock()
	owed := u.owed
	u.owed = false
	u.mu.Unlock()
	if !owed {
		return
	}
	u.front.rt.System().Go("expose", func() {
		if _, err := e.Roots(e.ctx); err == nil {
			u.rootsChanged(e.ctx, nil)
			return
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		u.owed = u.roots == nil // the next call may last
	})
}

func (u *upstream) keepRoots(roots []mcp.Root) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.roots = append([]mcp.Root{}, roots...)
}

// rootsChanged tells the servers that the client's roots are others now (ROOT-02).
func (u *upstream) rootsChanged(context.Context, *mcpserver.Peer) {
	u.mu.Lock()
	o := u.opening
	u.mu.Unlock()
	if o == nil {
		return
	}
	select {
	case <-o.there:
		if o.tenant != nil {
			o.tenant.RootsChanged()
		}
	default: // they ask when they are connected
	}
}

// samples reports whether the client's model answers for servers.
func (u *upstream) samples() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.caps != nil && u.caps.Sampling != nil
}

func (u *upstream) hasRoots() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.caps != nil && u.caps.Roots != nil
}

// maxPages bounds the pages whose end a client is to hear of.
const maxPages = 64

// pageOpened remembers that the client's user was sent to a server's page.
func (u *upstream) pageOpened(key pageKey, id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if id != "" && len(u.pages) < maxPages {
		u.pages[key] = append(u.pages[key], id)
	}
}

// pageDone tells the client that a page is done (URL-30).
func (u *upstream) pageDone(p mcpclient.PageDone) {
	key := pageKey{p.Server, p.URL.URL}
	u.mu.Lock()
	ids := u.pages[key]
	delete(u.pages, key)
	u.mu.Unlock()
	if p.Err != nil {
		return
	}
	for _, id := range ids {
		if err := u.server.CompleteElicitation(id, principalID(u.principal)); err != nil {
			u.log.Debug("the end of a page can not be told", "server", p.Server, "error", err)
		}
	}
}

// name names the upstream in logs and in the tree.
func (u *upstream) name() string {
	if id := principalID(u.principal); id != "" {
		return id
	}
	return "client"
}

// add and remove keep the errands that are under way.
func (u *upstream) add(e *errand) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.errands[e] = struct{}{}
}

func (u *upstream) remove(e *errand) {
	u.mu.Lock()
	delete(u.errands, e)
	u.mu.Unlock()
	u.front.touch(u)
}

// live returns an errand whose call waits and can carry what belongs to none, nil if
// there is none. Of several calls of nobody none can: it may be another's (SECA-6).
func (u *upstream) live() *errand {
	u.mu.Lock()
	all := slices.Collect(maps.Keys(u.errands))
	u.mu.Unlock()
	if u.shared() && len(all) > 1 {
		return nil
	}
	for _, e := range all {
		if e.ctx.Err() == nil && e.current() != nil {
			return e
		}
	}
	return nil
}

// working reports whether anything is under way.
func (u *upstream) working() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.errands) > 0
}

// around is the middleware of the upstream's server: it learns who the client is, and
// has the servers' things there before they are asked for.
func (u *upstream) around(ctx context.Context, in *mcpserver.Incoming, next mcpserver.Next) (json.RawMessage, error) {
	switch in.Method {
	case mcp.MethodInitialize, mcp.MethodDiscover, mcp.MethodPing, mcp.MethodSetLevel:
		return next(ctx)
	}
	if u == u.front.nobody {
		return nil, mcp.Errorf(mcp.CodeInvalidRequest, "it can not be told whose request this is")
	}
	u.learn(in.Client.Capabilities, in.Peer)
	switch {
	case !u.front.opts.Gateway:
	case in.Method == mcp.MethodListen: // it may be the only request for long
		u.begin()
	case waits(in.Method):
		if err := u.prepare(ctx, in); err != nil {
			return nil, err
		}
	}
	if u.gate != nil && in.Method == mcp.MethodSubscribe {
		wait := u.gate.expect(in.Name)
		defer wait(ctx)
	}
	return next(ctx)
}

// waits reports whether a method may wait for the servers: what begins a stream or looks
// at a task is answered where it is read.
func waits(method string) bool {
	switch method {
	case mcp.MethodListen, mcp.MethodGetTask, mcp.MethodTaskResult, mcp.MethodListTasks, mcp.MethodCancelTask, mcp.MethodUpdateTask:
		return false
	}
	return true
}

// learn takes what the first request declares for the connections to come.
func (u *upstream) learn(caps *mcp.ClientCapabilities, peer *mcpserver.Peer) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if peer != nil {
		u.peer = peer
	}
	if u.opening == nil {
		u.caps = caps
	}
}

// levelSet hears which log messages a legacy client wants.
func (u *upstream) levelSet(_ *mcpserver.Peer, level mcp.LogLevel) {
	if u.gate != nil {
		u.gate.level(level)
	}
}

// reserved reports whether a tool's or prompt's name is an agent's.
func (u *upstream) reserved(name string) bool { return u.front.reserved[name] }

// close ends all of the upstream: its runs and calls with the cause, its server and its
// connections. It does not wait; over is closed when that has happened.
func (u *upstream) close(cause error) {
	if u.front.forget(u) {
		u.end(cause)
	}
}

// end is close for an upstream that the front has dropped.
func (u *upstream) end(cause error) {
	u.cancel(cause)
	u.front.rt.System().Go("expose", func() {
		defer close(u.over)
		if u.gate != nil {
			u.gate.close()
		}
		if err := u.server.Close(); err != nil {
			u.log.Warn("a client's server did not end in order", "error", err)
		}
		u.mu.Lock()
		o, resting := u.opening, u.resting
		u.mu.Unlock()
		if resting != nil {
			<-resting
		}
		if o != nil {
			<-o.done // its context has ended
			u.shut(o)
		}
		u.front.gone(u)
	})
}

// shut ends what was opened.
func (u *upstream) shut(o *opening) {
	if o.tenant == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.ctx), closeTime)
	defer cancel()
	if err := o.tenant.Close(ctx); err != nil {
		u.log.Warn("a client's connections did not end in order", "error", err)
	}
}

// closeTime bounds the end of one upstream's connections.
const closeTime = 10 * time.Second
