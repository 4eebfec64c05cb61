package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcpclient/internal/negotiate"
	"github.com/troupe-dev/troupe/mcpclient/internal/pins"
	"github.com/troupe-dev/troupe/mcpclient/internal/supervise"
)

// NewHost starts a host below the runtime of sys; nil makes a system that ends
// with the host. A definition that cannot work is an error, and so are two
// servers of one name; a server that does not start is not: see [Host.Servers].
// The host must be closed.
func NewHost(sys *actors.System, servers []Server, opts *HostOptions) (*Host, error) {
	h := &Host{sys: sys, opts: opts.withDefaults(), eras: new(negotiate.Eras)}
	h.pins = pins.New(h.opts.Pins)
	if h.opts.Like != nil {
		h.eras, h.opts.Like = h.opts.Like.eras, nil
	}
	if err := h.opts.check(); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, s := range servers {
		if err := s.check(); err != nil {
			return nil, err
		}
		if seen[s.Name] {
			return nil, fmt.Errorf("mcpclient: there are two servers of the name %q", s.Name)
		}
		seen[s.Name] = true
		h.entries = append(h.entries, &entry{server: s})
	}
	if sys == nil {
		var err error
		if h.sys, err = actors.NewSystem(&actors.Options{Logger: h.opts.Logger}); err != nil {
			return nil, fmt.Errorf("starting the host: %w", err)
		}
		h.ownSys = true
	}
	if h.log = h.opts.Logger; h.log == nil {
		h.log = h.sys.Log()
	}
	h.logWarnings()
	h.newGatherer()
	started := new(actors.Reply[struct{}])
	var running []supervise.Server
	for _, e := range h.entries {
		if !e.server.Disabled {
			running = append(running, supervised{e, h})
		}
	}
	spec := actors.Spec{
		Kind: actors.KindHost,
		New: func() actors.Actor {
			return &supervise.Actor{Servers: running, Closed: h.closed.Load, Started: started}
		},
	}
	if h.opts.Tenant != "" {
		spec.Kind, spec.Name = actors.KindTenant, h.opts.Tenant
	}
	ref, err := h.sys.Spawn(spec)
	if err != nil {
		return nil, fmt.Errorf("starting the host: %w", err)
	}
	h.ref = ref
	select {
	case <-started.Done():
	case <-ref.Stopped():
		return nil, ErrClosed
	}
	return h, nil
}

// clientOptions are the options of one server's client.
func (h *Host) clientOptions(e *entry) *Options {
	o := h.opts.Options
	o.System, o.Logger, o.pool, o.eras = h.sys, h.log, &h.pool, h.eras
	o.spawn = func(k *conn.Conn) error {
		_, err := actors.Ask(context.Background(), h.ref, func(reply *actors.Reply[struct{}]) any {
			return supervise.StartInstance{Start: k.StartChild, Reply: reply}
		})
		return err
	}
	if roots := h.roots.Load(); roots != nil { // of SetRoots
		o.Roots = *roots
	}
	o.OnToolsChanged = func() {
		relist(h, e, h.tools, Event{ToolsChanged: true})
	}
	o.OnResourcesChanged = func() {
		relist(h, e, kindOf(resourceLists), Event{ResourcesChanged: true})
	}
	o.OnPromptsChanged = func() {
		relist(h, e, kindOf(promptLists), Event{PromptsChanged: true})
	}
	if h.opts.OnEvent != nil {
		o.OnState = func(s Status) {
			if c := e.client.Load(); c != nil {
				c.events().Add(func() { h.opts.OnEvent(Event{Server: e.server.Name, Status: s}) })
			}
		}
	}
	return &o
}

// supervised is a server as the host's actor sees it.
type supervised struct {
	*entry
	host *Host
}

// Name implements [supervise.Server], as the other methods do.
func (e supervised) Name() string { return e.server.Name }

func (e supervised) Start(c *actors.Context) (actors.Ref, error) {
	client, err := newClient(e.server, e.host.clientOptions(e.entry))
	if err != nil {
		return actors.Ref{}, err
	}
	before := e.client.Swap(client) // now, for the events that come before StartChild has returned
	ref, err := client.conn.StartChild(c)
	if err != nil {
		e.client.Store(before)
	}
	return ref, err
}

func (e supervised) Connect() {
	if client := e.client.Load(); client != nil {
		client.conn.Retry()
	}
}

// Stopped ends the further processes of the server.
func (e supervised) Stopped(c *actors.Context) {
	if client := e.client.Load(); client != nil {
		c.System().Go("the instances of "+e.server.Name, func() {
			ctx, cancel := context.WithTimeout(context.Background(), closeTime)
			defer cancel()
			for _, done := range client.pooled().Close(ctx) {
				<-done.Done()
			}
		})
	}
}

// Close is [Host.Shutdown] with a bound of 2 s for the calls under way.
func (h *Host) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	return h.Shutdown(ctx)
}

// Shutdown lets calls end until ctx does, then ends them and all servers. It takes
// at most some seconds longer than ctx, and returns the cause of ctx if calls had
// to be ended. Later calls return what the first did.
func (h *Host) Shutdown(ctx context.Context) error {
	h.closing.Do(func() {
		h.closed.Store(true)
		h.ended = h.shutDown(ctx)
	})
	return h.ended
}

func (h *Host) shutDown(ctx context.Context) error {
	var ends []*actors.Reply[struct{}]
	for _, e := range h.entries {
		c := e.client.Load()
		if c == nil {
			continue
		}
		done := new(actors.Reply[struct{}])
		h.sys.Go("closing "+e.server.Name, func() { done.Complete(struct{}{}, c.Shutdown(ctx)) })
		ends = append(ends, done)
	}
	var errs []error
	for _, done := range ends {
		<-done.Done() // Close has its own bound
		_, err := done.Result()
		errs = append(errs, err)
	}
	h.ref.Stop()
	select {
	case <-h.ref.Stopped():
	case <-time.After(systemGrace):
		errs = append(errs, errors.New("mcpclient: the host's actor does not stop"))
	}
	if h.ownSys {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), systemGrace)
		defer cancel()
		errs = append(errs, h.sys.Shutdown(end))
	}
	return errors.Join(errs...)
}

// Retry makes an attempt to connect to a server now, also if it is waiting after
// failures, has given up, or asks for something that was missing then. It does not
// wait for the outcome: see [Host.Servers]. A server that is ready is left alone.
func (h *Host) Retry(server string) error {
	if _, err := h.Client(server); err != nil {
		return err
	}
	i := slices.IndexFunc(h.entries, func(e *entry) bool { return e.server.Name == server })
	h.ref.Send(supervise.Retry{Server: supervised{h.entries[i], h}})
	return nil
}

// logWarnings says once what of the definitions is ignored. A tenant's are those of the
// program's own host.
func (h *Host) logWarnings() {
	if h.opts.Tenant != "" {
		return
	}
	for _, e := range h.entries {
		for _, w := range e.server.Warnings {
			h.log.Warn("a part of a server's definition is ignored: "+w, "server", e.server.Name)
		}
	}
}

// ForgetOwner says that an owner of calls makes no more of them: what was kept for it, see
// [CallOptions].Keep, is free for others. The owner is what [Owned] returns.
func (h *Host) ForgetOwner(owner any) {
	for _, e := range h.entries {
		if c := e.client.Load(); c != nil {
			c.dialing.poolNow().Forget(owner)
		}
	}
}

// Ready connects to the servers that are [Server].Required, all at once, and returns
// when each is connected or its first attempt has failed. The error joins a
// [*ServerError] for each that failed or is disabled; it is the cause of ctx if that
// ends first, or [ErrClosed]. Without required servers Ready returns nil at once.
func (h *Host) Ready(ctx context.Context) error {
	if h.closed.Load() {
		return ErrClosed
	}
	var attempts []*actors.Reply[struct{}]
	for _, e := range h.entries {
		if !e.server.Required {
			continue
		}
		attempt := new(actors.Reply[struct{}])
		h.sys.Go("required server "+e.server.Name, func() { attempt.Complete(struct{}{}, e.connect(ctx)) })
		attempts = append(attempts, attempt)
	}
	var errs []error
	for _, attempt := range attempts {
		_, err := attempt.Wait(ctx)
		errs = append(errs, err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(errs...)
}

// connect waits for the first attempt to connect to a required server.
func (e *entry) connect(ctx context.Context) error {
	c := e.client.Load()
	if c == nil {
		return &ServerError{Server: e.server.Name, Err: errors.New("it is required, and disabled")}
	}
	if _, err := c.Info(ctx); err != nil {
		return fmt.Errorf("it is required: %w", err)
	}
	return nil
}
