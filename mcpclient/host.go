package mcpclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
	"github.com/troupe-dev/troupe/mcpclient/internal/capability"
	"github.com/troupe-dev/troupe/mcpclient/internal/negotiate"
	"github.com/troupe-dev/troupe/mcpclient/internal/pins"
)

// HostOptions changes how a host works; nil is the same as the zero value. The embedded
// [Options] hold for each server: a function of them may be called for several servers at
// once, Roots are those of all. System, OnState and the On…Changed functions are the host's
// own, and [NewHost] refuses them: OnEvent takes their place.
type HostOptions struct {
	Options
	// OnEvent hears of what happens to the servers, one event at a time for each of
	// them; it may block.
	OnEvent func(Event)
	// ListTimeout is how long [Host.Tools] waits for a server. Zero means 30 s.
	ListTimeout time.Duration
	// Pins holds the definition of each tool to what it was when it was first called:
	// another one takes the consent of Human (SECA-38). Nil remembers them for the
	// host's life; a store of the program's makes that last.
	Pins PinStore
	// Tenant names the one whose connections these are: the host then is an actor of the
	// kind tenant, and its failure ends nothing else. Empty is the program's own.
	Tenant string
	// Like is another host of the same servers, from which this one learns which era they
	// belong to, and the other way round. Nil is none.
	Like *Host
}

func (o *HostOptions) withDefaults() HostOptions {
	var d HostOptions
	if o != nil {
		d = *o
	}
	d.ListTimeout = cmp.Or(d.ListTimeout, 30*time.Second)
	if d.Pins == nil {
		d.Pins = new(MemoryPins)
	}
	return d
}

func (o *HostOptions) check() error {
	if o.System != nil || o.OnState != nil || o.OnToolsChanged != nil || o.OnResourcesChanged != nil || o.OnPromptsChanged != nil {
		return errors.New("mcpclient: System, OnState and the On…Changed functions are not a host's options: use NewHost's system, and OnEvent")
	}
	return capability.CheckExtensions(o.Extensions)
}

// Event is something that happened to a server.
type Event struct {
	Server string
	Status Status
	// ToolsChanged says that the catalogue may have changed, the others that those
	// lists may have; if none is set the state has.
	ToolsChanged, ResourcesChanged, PromptsChanged bool
}

// ServerStatus is what [Host.Servers] tells of a server.
type ServerStatus struct {
	Status
	Disabled bool
	Tools    int   // in the catalogue, those of the last good list
	ListErr  error // why the last attempts to list what it has failed, nil if none did
	// Instances are the processes that its calls are shared out to, the first one first;
	// Waiting is how many calls wait for one. See [Server].Instances.
	Instances []InstanceStatus
	Waiting   int
}

// Host keeps many servers running, each under supervision of its own.
type Host struct {
	sys     *actors.System
	ownSys  bool
	opts    HostOptions
	log     *slog.Logger
	entries []*entry
	ref     actors.Ref
	closing sync.Once
	closed  atomic.Bool
	ended   error

	names atomic.Pointer[toolCatalogue] // of the tools; replaced whole
	mu    sync.Mutex                    // guards the lists of the entries and the making of names: callers read them at each turn of a model, without a message to the host's actor
	pins  *pins.Pins
	pool  asks.HostLimit  // of the questions of all servers
	eras  *negotiate.Eras // what is known of the servers, for all connections to them
	roots atomic.Pointer[[]mcp.Root]
}

// entry is one server of a host.
type entry struct {
	server Server
	client atomic.Pointer[Client] // nil if it is disabled

	// Guarded by the host's lock.
	tools     lastList[mcp.Tool]
	described []Tool // the tools as the catalogue has them, but for names and neighbours
	resources lastList[mcp.Resource]
	templates lastList[mcp.ResourceTemplate]
	prompts   lastList[mcp.Prompt]
	skills    lastList[mcp.Skill]
}

// toolCatalogue is a snapshot of all tools.
type toolCatalogue struct {
	tools []Tool // by name
}

func (c *toolCatalogue) find(name string) *Tool {
	if c == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(c.tools, name, func(t Tool, name string) int { return cmp.Compare(t.Name, name) })
	if !ok {
		return nil
	}
	return &c.tools[i]
}

// NewHost starts a host below the runtime of sys; nil makes a system that ends
// with the host. A definition that cannot work is an error, and so are two
// servers of one name; a server that does not start is not: see [Host.Servers].
// The host must be closed.
func NewHost(sys *actors.System, servers []Server, opts *HostOptions) (*Host, error) {
	h := &Host{sys: sys, opts: opts.withDefaults(), eras: negotiate.NewEras()}
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
	started := new(actors.Reply[struct{}])
	spec := actors.Spec{
		Kind: actors.KindHost,
		New:  func() actors.Actor { return &hostActor{host: h, started: started, clients: map[actors.Ref]*entry{}} },
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
		_, err := actors.Ask(context.Background(), h.ref, func(reply *actors.Reply[struct{}]) any { return startInstance{k, reply} })
		return err
	}
	if roots := h.roots.Load(); roots != nil { // of SetRoots
		o.Roots = *roots
	}
	o.OnToolsChanged = func() {
		relist(h, e, h.toolLists(), Event{ToolsChanged: true})
	}
	o.OnResourcesChanged = func() {
		relist(h, e, resourceLists, Event{ResourcesChanged: true})
	}
	o.OnPromptsChanged = func() {
		relist(h, e, promptLists, Event{PromptsChanged: true})
	}
	if h.opts.OnEvent != nil {
		o.OnState = func(s Status) {
			if c := e.client.Load(); c != nil {
				c.events.Add(func() { h.opts.OnEvent(Event{Server: e.server.Name, Status: s}) })
			}
		}
	}
	return &o
}

// relist reads a list that has changed, if it was ever asked for, and reports
// that.
func relist[T any](h *Host, e *entry, k listKind[T], event Event) {
	h.mu.Lock()
	wanted := event.ToolsChanged || k.last(e).read
	h.mu.Unlock()
	if wanted {
		ctx, cancel := context.WithTimeout(context.Background(), h.opts.ListTimeout)
		defer cancel()
		fill(ctx, h, e, k)
	}
	if c := e.client.Load(); c != nil && h.opts.OnEvent != nil {
		event.Server, event.Status = e.server.Name, c.Status()
		h.opts.OnEvent(event)
	}
}

// merge makes the catalogue anew. The host's lock is held.
func (h *Host) merge() {
	var all []Tool
	for _, e := range h.entries {
		all = append(all, e.described...)
	}
	qualify(all)
	flagLookAlikes(all)
	h.names.Store(&toolCatalogue{all})
}

// Tools returns the merged catalogue, sorted by name, connecting to servers where
// that was not done yet. Servers that fail, or do not answer in time, are left
// with their last good list: [Host.Servers] tells of them. The error is the cause
// of ctx, or [ErrClosed]. The caller must not change what is returned.
func (h *Host) Tools(ctx context.Context) ([]Tool, error) {
	return h.ToolsOf(ctx)
}

// ToolsOf is [Host.Tools] for those who need only these servers: it neither connects to
// others nor waits for them. What is known of those is returned too. No names are all.
func (h *Host) ToolsOf(ctx context.Context, servers ...string) ([]Tool, error) {
	if err := gather(ctx, h, h.toolLists(), servers...); err != nil {
		return nil, err
	}
	if c := h.names.Load(); c != nil {
		return c.tools, nil
	}
	return nil, nil
}

// Lookup returns the entry of the catalogue as it is known now.
func (h *Host) Lookup(name string) (Tool, bool) {
	if t := h.names.Load().find(name); t != nil {
		return *t, true
	}
	return Tool{}, false
}

// Call calls a tool of the catalogue by its qualified name. Errors are as in
// [Client.CallTool]; a name that is not in the catalogue is [ErrUnknownTool].
func (h *Host) Call(ctx context.Context, name string, args json.RawMessage, opts *CallOptions) (*mcp.CallToolResult, error) {
	c, tool, err := h.toCall(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	return c.CallTool(ctx, tool.Tool.Name, args, opts)
}

// Start is [Host.Call] for a caller that does not wait; see [Client.StartTool].
func (h *Host) Start(ctx context.Context, name string, args json.RawMessage, opts *CallOptions) *ToolCall {
	ctx, t := newToolCall(ctx)
	t.begin(ctx, args, opts, func() (*Client, string, error) {
		c, tool, err := h.toCall(ctx, name, opts)
		if err != nil {
			return nil, "", err
		}
		return c, tool.Tool.Name, nil
	})
	return t
}

// toCall finds a tool of the catalogue that may be called, and its server's client.
func (h *Host) toCall(ctx context.Context, name string, opts *CallOptions) (*Client, *Tool, error) {
	tool := h.names.Load().find(name)
	if tool == nil {
		if _, err := h.Tools(ctx); err != nil {
			return nil, nil, err
		}
		if tool = h.names.Load().find(name); tool == nil {
			return nil, nil, fmt.Errorf("%w: %q", ErrUnknownTool, name)
		}
	}
	c, err := h.Client(tool.Server)
	if err != nil {
		return nil, nil, err
	}
	if err := h.checkPin(ctx, tool, opts); err != nil {
		return nil, nil, &notSentError{err}
	}
	return c, tool, nil
}

// Retry makes an attempt to connect to a server now, also if it is waiting after
// failures, has given up, or asks for something that was missing then. It does not
// wait for the outcome: see [Host.Servers]. A server that is ready is left alone.
func (h *Host) Retry(server string) error {
	if _, err := h.Client(server); err != nil {
		return err
	}
	i := slices.IndexFunc(h.entries, func(e *entry) bool { return e.server.Name == server })
	h.ref.Send(retry{h.entries[i]})
	return nil
}

// Client returns the client of a server, for what a host has no method for. It
// must not be closed.
func (h *Host) Client(server string) (*Client, error) {
	if h.closed.Load() {
		return nil, ErrClosed
	}
	for _, e := range h.entries {
		if e.server.Name == server {
			if c := e.client.Load(); c != nil {
				return c, nil
			}
			return nil, &ServerError{Server: server, Err: errors.New("it is disabled")}
		}
	}
	return nil, fmt.Errorf("mcpclient: there is no server %q", server)
}

// listErr says which lists could not be read. The host's lock is held.
func (e *entry) listErr() error {
	return errors.Join(e.tools.err, e.resources.err, e.templates.err, e.prompts.err, e.skills.err)
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

// Servers returns the state of every server, in the order they were given.
func (h *Host) Servers() []ServerStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]ServerStatus, len(h.entries))
	for i, e := range h.entries {
		out[i] = ServerStatus{Status: Status{Name: e.server.Name}, Tools: len(e.tools.items), ListErr: e.listErr()}
		if c := e.client.Load(); c != nil {
			out[i].Status = c.Status()
			out[i].Instances, out[i].Waiting = c.Instances()
		} else {
			out[i].Disabled = true
		}
	}
	return out
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

// respawnDelay is the pause before a connection whose actor has given up is made anew.
const respawnDelay = 30 * time.Second

// hostActor supervises the connections: it starts them and makes those anew that
// have stopped. Everything else the host does needs no actor.
type hostActor struct {
	host    *Host
	started *actors.Reply[struct{}]
	clients map[actors.Ref]*entry
}

// respawn is a message to itself: a pause is over. Retry is a user's.
type (
	respawn struct{ entry *entry }
	retry   struct{ entry *entry }
	// startInstance is from a client: its server needs one more process.
	startInstance struct {
		conn  *conn.Conn
		reply *actors.Reply[struct{}]
	}
)

// runs reports whether the connection of a server has an actor. E is not nil.
func (a *hostActor) runs(e *entry) bool {
	server := e.server.Name
	for _, other := range a.clients {
		if other.server.Name == server {
			return true
		}
	}
	return false
}

// Receive implements [actors.Actor].
func (a *hostActor) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		for _, e := range a.host.entries {
			if !e.server.Disabled {
				a.start(c, e)
			}
		}
		a.started.Complete(struct{}{}, nil)
	case respawn:
		if !a.runs(m.entry) {
			a.start(c, m.entry)
		}
	case retry:
		if !a.runs(m.entry) {
			a.start(c, m.entry)
		} else if client := m.entry.client.Load(); client != nil {
			client.conn.Retry()
		}
	case startInstance:
		_, err := m.conn.StartChild(c)
		m.reply.Complete(struct{}{}, err)
	case actors.ChildStopped:
		e := a.clients[m.Ref]
		delete(a.clients, m.Ref)
		if e != nil {
			a.endInstances(c, e)
		}
		if e != nil && !a.host.closed.Load() {
			c.After(respawnDelay, respawn{e})
		}
	}
}

func (a *hostActor) start(c *actors.Context, e *entry) {
	client, err := newClient(e.server, a.host.clientOptions(e))
	if err != nil {
		c.Log().Error("a server cannot be started", "server", e.server.Name, "error", err)
		return
	}
	before := e.client.Swap(client) // now, for the events that come before StartChild has returned
	ref, err := client.conn.StartChild(c)
	if err != nil {
		e.client.Store(before)
		c.Log().Error("a server cannot be started", "server", e.server.Name, "error", err)
		return
	}
	a.clients[ref] = e
}

// endInstances ends the further processes of a server whose first connection has stopped.
func (a *hostActor) endInstances(c *actors.Context, e *entry) {
	if client := e.client.Load(); client != nil {
		c.System().Go("the instances of "+e.server.Name, func() {
			ctx, cancel := context.WithTimeout(context.Background(), closeTime)
			defer cancel()
			for _, done := range client.instances.Close(ctx) {
				<-done.Done()
			}
		})
	}
}
