package expose

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/expose/internal/agenttools"
	"github.com/troupe-dev/troupe/agent/expose/internal/gateway"
	"github.com/troupe-dev/troupe/agent/expose/internal/hook"
	"github.com/troupe-dev/troupe/agent/expose/internal/relay"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

const (
	// taskAfter is how long a run may take before its call becomes a task, where the client
	// supports tasks.
	taskAfter = 3 * time.Second
	// noticePace is the least time between two notices that one list has changed: backends
	// start, and change their lists, all the time.
	noticePace = time.Second
	// closeTime bounds the end of one client's connections.
	closeTime = 10 * time.Second
)

// Front offers agents and servers to clients. Its methods may be used from any goroutine.
type Front struct {
	rt         *agent.Runtime
	opts       Options
	log        *slog.Logger
	clients    clients
	operations *relay.Operations
	gateway    gateway.Options
	history    agenttools.History
	records    store.Records // of clients without sessions

	defaultServer *mcpserver.Server // answers requests of no client
	anonymous     *clientSession    // that of defaultServer; it offers nothing
}

// New returns a front of the runtime. It serves clients by its Handler, Serve and ServeStdio,
// and ends with Close, which must come before that of the runtime.
func New(rt *agent.Runtime, opts *Options) (*Front, error) {
	f, err := newFront(rt, opts)
	if err != nil {
		return nil, fmt.Errorf("expose: %w", err)
	}
	return f, nil
}

func newFront(rt *agent.Runtime, opts *Options) (*Front, error) {
	o, err := opts.withDefaults(rt)
	if err != nil {
		return nil, err
	}
	if o.Server.Rounds.TicketKeys == nil {
		// All servers share the key: a client that comes back to another server of the front,
		// since its own was idle, can prove there which questions it had.
		key := make([]byte, 32)
		if _, err := rand.Read(key); err != nil {
			return nil, fmt.Errorf("making a key: %w", err)
		}
		o.Server.Rounds.TicketKeys = [][]byte{key}
	}
	reserved := make(map[string]bool)
	for _, a := range o.Agents {
		if reserved[agenttools.Name(a)] {
			return nil, fmt.Errorf("two agents would be the tool %q", agenttools.Name(a))
		}
		reserved[agenttools.Name(a)] = true
	}
	f := &Front{rt: rt, opts: o, log: o.Logger, records: memstore.New(nil)}
	f.clients.init(&f.opts)
	asks := relay.Options{System: rt.System(), Log: f.log, TaskAfter: taskAfter, Keep: cmp.Or(o.Server.Rounds.TicketTTL, time.Hour)}
	if o.Unanswered == FallbackInbox {
		asks.Inbox = agent.InboxHuman(rt.Store(), &agent.InboxOptions{By: o.Info.Name})
	}
	f.operations = relay.NewOperations(asks)
	f.gateway = gateway.Options{System: rt.System(), Log: f.log, Servers: o.Servers, PlainNames: o.Names == NamesPlain, ListWait: o.ListWait,
		Reserved: func(name string) bool { return reserved[name] }, Warnings: new(gateway.Warnings)}
	f.anonymous = f.newSession(nil, "")
	f.defaultServer, err = f.anonymous.serve()
	return f, err
}

// newServer makes the server of a client.
func (f *Front) newServer(u *clientSession) (*mcpserver.Server, error) {
	o := f.opts.Server
	o.System, o.Logger = f.rt.System(), f.log
	if u.key != "" && o.Records == nil {
		o.Records = f.records // a client without a session may come back to another server
	}
	o.Instructions = f.opts.Instructions
	o.Limits.CallTimeout = cmp.Or(o.Limits.CallTimeout, -1)
	o.HTTP.Authenticate = identified
	o.Lists.DeclareAll = f.opts.Gateway
	hook.Server.LetMiddlewareWait(&o)
	o.Middleware = append(slices.Clone(o.Middleware), u.middleware)
	o.Events.OnRootsChanged = func(context.Context, *mcpserver.Peer) { u.RootsChanged() }
	o.Events.OnClose = func(*mcpserver.Peer) { u.close(errHungUp) }
	if f.opts.Gateway {
		o.Lists.NoticePace, o.Lists.QuietUntilListed = cmp.Or(o.Lists.NoticePace, noticePace), true
		u.gate = gateway.New(u.ctx, &f.gateway, u.client)
		o.Events.OnWatched, o.Events.OnLogLevel = u.gate.Watched, u.levelSet
	}
	o.Tasks = f.taskOptions()
	s, err := mcpserver.New(f.opts.Info, &o)
	if err != nil {
		return nil, err
	}
	if u.gate != nil {
		u.gate.Attach(s)
	}
	if len(f.opts.Agents) > 0 {
		agents := &agenttools.Server{MCP: s, Client: u.client, Tenant: u.tenant, History: &f.history, Log: f.log}
		if err := agents.Offer(f.opts.Agents); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// taskOptions lets long runs become tasks, and calls of backends' tools. Which of those can be
// tasks is known only after the client has the server's capabilities.
func (f *Front) taskOptions() *mcpserver.TaskOptions {
	if len(f.opts.Agents) == 0 && !f.opts.Gateway {
		return f.opts.Server.Tasks
	}
	var o mcpserver.TaskOptions
	if f.opts.Server.Tasks != nil {
		o = *f.opts.Server.Tasks
	}
	policies := make(map[string]mcpserver.TaskPolicy, len(o.Tools)+len(f.opts.Agents))
	maps.Copy(policies, o.Tools)
	agenttools.TaskPolicies(policies, f.opts.Agents)
	o.Tools = policies
	return &o
}

// Clients returns how many clients there are.
func (f *Front) Clients() int { return f.clients.count() }

// ServeStdio serves the client at the other end of standard input and output, until it
// hangs up or ctx ends. The process must write nothing else to standard output meanwhile.
func (f *Front) ServeStdio(ctx context.Context) error {
	return f.servePipe(func(s *mcpserver.Server) error { return s.ServeStdio(ctx) }) // STDIO-03
}

// Serve serves one client over a pair of byte streams, as [mcpserver.Server.Serve] does, in
// both eras. It may be called many times at once.
func (f *Front) Serve(ctx context.Context, in io.Reader, out io.WriteCloser) error {
	return f.servePipe(func(s *mcpserver.Server) error { return s.Serve(ctx, in, out) })
}

func (f *Front) servePipe(serve func(*mcpserver.Server) error) error {
	u, err := f.open(f.opts.Server.Principal)
	if err != nil {
		return fmt.Errorf("expose: %w", err)
	}
	err = serve(u.server)
	u.close(errHungUp)
	<-u.over // its parts end in a bounded time
	return err
}

// open makes a client, busy.
func (f *Front) open(p *mcpserver.Principal) (*clientSession, error) {
	u := f.newSession(p, "")
	return f.clients.admit(u)
}

// stateless returns the client of a key, busy; it makes one if there is none.
func (f *Front) stateless(p *mcpserver.Principal, key string) (*clientSession, error) {
	if u := f.clients.find(byKey, key, p); u != nil {
		_, err := u.serve()
		return u, err
	}
	return f.clients.admit(f.newSession(p, key))
}

// Close ends all runs and calls in flight and all clients. It waits a few seconds at most.
func (f *Front) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	now, end := context.WithCancel(ctx)
	end()
	return f.shutdown(now, ctx)
}

// Shutdown takes no new clients and no more calls, lets those in flight end until ctx
// does, and ends all clients. Later calls wait for the same.
func (f *Front) Shutdown(ctx context.Context) error {
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	if deadline, ok := ctx.Deadline(); ok {
		cancel()
		bound, cancel = context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(closeTime))
	}
	defer cancel()
	return f.shutdown(ctx, bound)
}

// shutdown lets calls end until calm does, and waits for the rest until bound does.
func (f *Front) shutdown(calm, bound context.Context) error {
	open, ending := f.clients.close()
	calmed := make(chan struct{}, len(open))
	for _, u := range open {
		f.rt.System().Go("expose", func() {
			if s, err := u.serve(); err == nil {
				_ = s.Shutdown(calm) // its callers learn that their calls were cut off
			}
			u.close(ErrClosed)
			calmed <- struct{}{}
		})
	}
	errs := []error{f.defaultServer.Shutdown(calm)}
	for range open {
		select {
		case <-calmed:
		case <-bound.Done():
		}
	}
	f.operations.Close()
	for _, u := range slices.Concat(open, ending) {
		select {
		case <-u.over:
		case <-bound.Done():
			errs = append(errs, fmt.Errorf("expose: the client %q has not ended: %w", u.client.Name, context.Cause(bound)))
		}
	}
	return errors.Join(errs...)
}
