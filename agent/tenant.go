package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// errTenantClosed is [ErrClosed] for the runs of a tenant.
var errTenantClosed error = closedError("the tenant is closed")

// closedError is an error that is [ErrClosed], in other words.
type closedError string

func (e closedError) Error() string { return string(e) }

// Is reports that it is [ErrClosed].
func (e closedError) Is(target error) bool { return target == ErrClosed }

// TenantOptions changes a tenant; nil is the same as the zero value, which declares to
// servers that they can ask nothing.
type TenantOptions struct {
	// Name is for logs and the tree of actors. Several tenants may have the same. A run of
	// a named tenant that is asked for again by its ID, after its tenant has gone, is
	// found by tenants of that name only.
	Name string
	// Forms to Roots are the capabilities that the connections declare to servers, in place
	// of those of [Options].Host: never more than the tenant can answer. Forms and URLs are
	// the modes of elicitation. A server whose definition has [mcpclient.SamplingDeny]
	// learns nothing of sampling.
	Forms, URLs                              bool
	Sampling, SamplingTools, SamplingContext bool
	Roots                                    bool
	// Lend lets servers ask the runtime's model by [Options].Sampling, in place of Sampling,
	// SamplingTools, SamplingContext and Sampler. It has no effect where that is nil.
	Lend bool

	// OnePerson is as in [mcpclient.AskOptions]: the tenant is one person.
	OnePerson bool
	// Human answers questions that belong to no call, and to calls without a Human. Nil
	// declines.
	Human mcpclient.Human
	// Sampler answers sampling of servers where the call, or its run, has none. Nil
	// refuses. No person reviews it: that is the Sampler's business.
	Sampler mcpclient.Sampler
	// RootsFunc returns the roots where the call, or its run, has none of its own; it is
	// called each time. Nil means that there are none.
	RootsFunc func(ctx context.Context) ([]mcp.Root, error)
	// OnPageDone, OnEvent, OnLog and OnNotification are as in [mcpclient.HostOptions]; they
	// may be nil. Pages are never opened by the runtime: a Human that accepts one sees to
	// that itself.
	OnPageDone     func(mcpclient.PageDone)
	OnEvent        func(mcpclient.Event)
	OnLog          func(server string, p mcp.LogParams)
	OnNotification func(server, method string, params json.RawMessage)
	// Authorizer authorizes the tenant at servers over HTTP, in place of that of [Options].Host. Nil
	// is that one.
	Authorizer mcpclient.Authorizer
	// LogLevel asks servers for log messages at or above it. Empty leaves it to them.
	LogLevel mcp.LogLevel
}

// Tenant is a set of connections of its own to the runtime's servers. Other tenants, and
// runs without one, see no question, list, log or state of its servers.
// Definitions, consents, trust and pins of tools are the runtime's. A server that is a
// command runs as a process of its own for each tenant that uses it, and a server in this
// process sees another client.
//
// Runs belong to it by [RunOptions].Tenant, and so do their sub-agents. It is closed by
// Close, or with the runtime.
type Tenant struct {
	rt      *Runtime
	name    string // empty for none
	servers *servers
	gone    atomic.Bool // it is being closed, or was

	patience context.Context // of Close; ends by hurry
	hurry    context.CancelCauseFunc
	ended    chan struct{} // closed with Close's end; then closed is set
	closed   error
}

// NewTenant opens a tenant. No server is started for it before it is needed. It must be
// closed, as each keeps connections and processes. The error is [ErrTooManyTenants],
// [ErrClosed] or the cause of ctx.
func (rt *Runtime) NewTenant(ctx context.Context, o *TenantOptions) (*Tenant, error) {
	if o == nil {
		o = new(TenantOptions)
	}
	t := &Tenant{rt: rt, name: o.Name, ended: make(chan struct{})}
	t.patience, t.hurry = context.WithCancelCause(context.Background())
	number, err := askAgents(ctx, rt, func(r *actors.Reply[int]) any { return &newTenant{t, rt.opts.MaxTenants, r} })
	if err != nil {
		rt.agents.Send(closedTenant{t}) // it may have been taken in all the same
		return nil, fmt.Errorf("opening a tenant: %w", err)
	}
	own, err := rt.servers.forTenant(rt.sys, fmt.Sprintf("%s-%d", nameOr(o.Name), number), o)
	if err != nil {
		rt.agents.Send(closedTenant{t})
		if errors.Is(err, actors.ErrClosed) {
			err = ErrClosed
		}
		return nil, fmt.Errorf("opening a tenant: %w", err)
	}
	t.servers = own
	if _, err := askAgents(ctx, rt, func(r *actors.Reply[struct{}]) any { return &openedTenant{t, r} }); err != nil {
		rt.agents.Send(closedTenant{t}) // no other closes it
		return nil, errors.Join(fmt.Errorf("opening a tenant: %w", err), own.close(ctx))
	}
	return t, nil
}

// nameOr is the name of a tenant's actor, without the number.
func nameOr(name string) string {
	if name == "" {
		return "tenant"
	}
	return clip.Text(name, 64)
}

// Host returns the tenant's connections: for the catalogue, and for calls that belong to
// no run. It must not be closed. Servers are started when they are first needed.
func (t *Tenant) Host() *mcpclient.Host { return t.servers.host }

// Name returns the name that it was given, which may be empty.
func (t *Tenant) Name() string { return t.name }

// RootsChanged notifies legacy servers that the roots have changed.
func (t *Tenant) RootsChanged() { t.servers.host.RootsChanged() }

// Close cancels the tenant's runs with [ErrClosed], waits for their end, lets calls that
// belong to no run end until ctx does, and stops its connections and their processes. It
// takes at most some seconds longer than ctx; the error names the parts that did not
// stop. Later calls return the result of the first, which waits no longer than they do.
func (t *Tenant) Close(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { t.hurry(context.Cause(ctx)) })()
	if t.gone.Swap(true) {
		<-t.ended
		return t.closed
	}
	defer close(t.ended)
	t.closed = t.close(t.patience)
	t.hurry(nil)
	return t.closed
}

func (t *Tenant) close(ctx context.Context) error {
	var errs []error
	if err := t.rt.stopRuns(ctx, t, errTenantClosed); err != nil {
		errs = append(errs, fmt.Errorf("ending the runs of the tenant: %w", err))
	}
	errs = append(errs, t.servers.close(ctx))
	t.rt.agents.Send(closedTenant{t})
	return errors.Join(errs...)
}

// askAgents asks the actor of all runs and tenants.
func askAgents[T any](ctx context.Context, rt *Runtime, msg func(*actors.Reply[T]) any) (T, error) {
	answer, err := actors.Ask(ctx, rt.agents, msg)
	if errors.Is(err, actors.ErrStopped) || errors.Is(err, actors.ErrClosed) {
		err = ErrClosed
	}
	return answer, err
}

// listTenantsTime bounds the question which tenants are open, also after the end of the time
// for a shutdown: the actor answers at once.
const listTenantsTime = time.Second

// closeTenants closes all tenants, at the same time, and takes no more.
func (rt *Runtime) closeTenants(ctx context.Context) error {
	if rt.agents.IsZero() {
		return nil
	}
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTenantsTime)
	defer cancel()
	open, err := askAgents(soon, rt, func(r *actors.Reply[[]*Tenant]) any { return &closeTenants{r} })
	if err != nil && !errors.Is(err, ErrClosed) {
		return fmt.Errorf("closing the tenants: %w", err)
	}
	var ends []*actors.Reply[struct{}]
	for _, t := range open {
		done := new(actors.Reply[struct{}])
		rt.sys.Go("closing a tenant", func() { done.Complete(struct{}{}, t.Close(ctx)) })
		ends = append(ends, done)
	}
	var errs []error
	for _, done := range ends {
		<-done.Done() // Close has its own bound
		_, err := done.Result()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// forTenant makes connections of a tenant's own to the same servers.
func (s *servers) forTenant(sys *actors.System, name string, o *TenantOptions) (*servers, error) {
	own := &servers{all: s.all, defined: s.defined, options: s.options, log: s.log, polls: s.polls, inputs: s.inputs}
	h := s.options
	h.Tenant, h.Like, h.Lazy = name, s.host, true
	h.OnEvent, h.OnLog, h.OnNotification, h.LogLevel = o.OnEvent, o.OnLog, o.OnNotification, o.LogLevel
	if h.Human = o.Human; h.Human == nil {
		h.Human = mcpclient.DeclineAll
	}
	h.OnePerson = o.OnePerson
	if o.Authorizer != nil {
		h.Authorizer = o.Authorizer
	}
	h.NoForms, h.NoURLs, h.OnPageDone = !o.Forms, !o.URLs, o.OnPageDone
	h.OpenURL = func(context.Context, string) error { return nil }
	h.Roots, h.RootsFunc = nil, nil
	if o.Roots {
		if h.RootsFunc = o.RootsFunc; h.RootsFunc == nil {
			h.RootsFunc = noRoots
		}
		if h.RootAvailable == nil { // they may be of another machine: the client that reports them exposes them
			h.RootAvailable = func(string) bool { return true }
		}
	}
	servers := own.all
	if o.Lend && s.sampling != nil {
		own.sampling = s.sampling.With(own.instructions)
		h.Sampler = own.sampling
	} else {
		servers = o.sampling(&h, s.defined)
	}
	var err error
	own.host, err = mcpclient.NewHost(sys, servers, &h)
	return own, err
}

// sampling declares the sampling that the tenant answers itself, and returns the servers
// as they are defined: the policies for the runtime's model do not count here.
func (o *TenantOptions) sampling(h *mcpclient.HostOptions, defined []mcpclient.Server) []mcpclient.Server {
	h.Sampler, h.SamplingTools, h.SamplingContext, h.SampleFreely = nil, false, false, true
	if o.Sampling {
		h.SamplingTools, h.SamplingContext = o.SamplingTools, o.SamplingContext
		if h.Sampler = o.Sampler; h.Sampler == nil {
			h.Sampler = noModel
		}
	}
	servers := make([]mcpclient.Server, len(defined))
	for i, srv := range defined {
		srv.SamplingContext = false
		if srv.Sampling != mcpclient.SamplingDeny {
			srv.Sampling = mcpclient.SamplingAllow
		}
		servers[i] = srv
	}
	return servers
}

// noRoots returns no roots.
func noRoots(context.Context) ([]mcp.Root, error) { return nil, nil }

// noModel refuses sampling that belongs to no call.
var noModel = mcpclient.SamplerFunc(func(context.Context, *mcpclient.SampleRequest) (*mcp.CreateMessageResult, error) {
	return nil, mcp.Errorf(mcp.CodeUserRejected, "sampling refused: the tenant has no model for this")
})
