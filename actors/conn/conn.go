package conn

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
)

// Options says how a connection is made. Dial and Negotiate are required.
type Options struct {
	// Name is the peer's, for paths and logs.
	Name string
	// Dial makes the transport of a generation. It must heed ctx, and close what
	// it has begun when it returns an error.
	Dial func(ctx context.Context, gen uint64, sink mcp.Sink) (mcp.Link, error)
	// Negotiate agrees with the peer on a version and calls [Session.Agree].
	Negotiate func(ctx context.Context, s *Session) error
	// Received takes the peer's requests and its notifications, progress that its call has got already
	// among them, on the transport's goroutine: it must not block. The message is valid until it returns.
	// Related is the request of ours on whose stream it came, zero if the transport cannot tell. Nil drops
	// them.
	Received func(s *Session, m *mcp.Message, related mcp.ID)
	// Inbound, if set, gives each generation a table for the peer's requests, which
	// is closed when the generation ends; see [Session.Inbound].
	Inbound *inbound.Options
	// Ping, if set with PingEvery, asks the peer for a sign of life each PingEvery
	// while the connection is ready on a legacy revision. It must heed ctx, which
	// ends after PingTimeout; zero means 10 s. An error of the peer's is a sign of
	// life. After PingMisses pings in a row without one the generation fails with
	// [ErrNoPing]; zero means 2.
	Ping                   func(ctx context.Context, s *Session) error
	PingEvery, PingTimeout time.Duration
	PingMisses             int
	// Await, if set, has resume called once with nil when an attempt that has failed with
	// err, which is permanent, can be made again, else with the reason why it cannot. It
	// returns nil if err says nothing of that kind. Neither it nor leave may block; resume may
	// be called before it returns.
	Await func(err error, resume func(error)) (leave func())
	// OnStatus, if set, is told of each change of state, in order. It must not block.
	OnStatus func(Status)
	// Lazy connects when the first call wants to, not at once.
	Lazy bool
	// ConnectTimeout bounds one attempt, negotiation included. Zero means 60 s.
	ConnectTimeout time.Duration
	// MinBackoff and MaxBackoff bound the delay between attempts. Zero means
	// 100 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration
	// Stable is how long a connection must have been ready for the delay to start
	// anew: a peer that always dies right after the handshake must not be
	// restarted without pause. Zero means 5 s.
	Stable time.Duration
	// PatientFor is how many attempts in a row may fail before the calls that wait
	// for a connection end with the failure. Zero means 3.
	PatientFor int
	// Calls bounds the calls. Its Wanted is not used.
	Calls call.Options
	// Logger takes structured logs. Nil means the system's.
	Logger *slog.Logger
}

func (o Options) withDefaults(sys *actors.System) Options {
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, time.Minute)
	o.MinBackoff = cmp.Or(o.MinBackoff, 100*time.Millisecond)
	o.MaxBackoff = cmp.Or(o.MaxBackoff, 30*time.Second)
	o.Stable = cmp.Or(o.Stable, 5*time.Second)
	o.PatientFor = cmp.Or(o.PatientFor, 3)
	o.PingTimeout = cmp.Or(o.PingTimeout, 10*time.Second)
	o.PingMisses = cmp.Or(o.PingMisses, 2)
	o.Logger = cmp.Or(o.Logger, sys.Log())
	return o
}

// settings are the options that a connection needs for its life, with little room.
type settings struct {
	Name                                           string
	Dial                                           func(ctx context.Context, gen uint64, sink mcp.Sink) (mcp.Link, error)
	Negotiate                                      func(ctx context.Context, s *Session) error
	Received                                       func(s *Session, m *mcp.Message, related mcp.ID)
	Inbound                                        *inbound.Options
	Ping                                           func(ctx context.Context, s *Session) error // nil if there are none
	Await                                          func(err error, resume func(error)) (leave func())
	OnStatus                                       func(Status)
	PingEvery, PingTimeout                         time.Duration
	ConnectTimeout, MinBackoff, MaxBackoff, Stable time.Duration
	PingMisses, PatientFor                         int32
	Lazy                                           bool
}

func (o *Options) settings() settings {
	s := settings{
		Name: o.Name, Dial: o.Dial, Negotiate: o.Negotiate, Received: o.Received, Inbound: o.Inbound, Await: o.Await, OnStatus: o.OnStatus,
		ConnectTimeout: o.ConnectTimeout, MinBackoff: o.MinBackoff, MaxBackoff: o.MaxBackoff, Stable: o.Stable,
		PatientFor: int32(min(o.PatientFor, math.MaxInt32)), Lazy: o.Lazy,
	}
	if o.PingEvery > 0 {
		s.Ping, s.PingEvery, s.PingTimeout, s.PingMisses = o.Ping, o.PingEvery, o.PingTimeout, int32(min(o.PingMisses, math.MaxInt32))
	}
	return s
}

// Conn is the handle of a connection. Its methods may be used from any goroutine,
// those that wait not from an actor.
type Conn struct {
	sys   *actors.System
	opts  settings
	log   *slog.Logger
	calls *call.Table

	gens    atomic.Uint64
	first   atomic.Pointer[actors.Reply[struct{}]] // of a StartConnect that waits
	ref     atomic.Pointer[actors.Ref]             // nil before it is started
	status  atomic.Pointer[Status]
	session atomic.Pointer[Session] // the newest
}

// New returns a connection that is not started yet.
func New(sys *actors.System, opts Options) *Conn {
	opts = opts.withDefaults(sys)
	k := &Conn{sys: sys, opts: opts.settings(), log: opts.Logger.With("peer", opts.Name)}
	k.status.Store(&Status{Since: time.Now()})
	o := opts.Calls
	o.Wanted = func() { k.send(wake{}) }
	k.calls = call.NewTable(sys, &o)
	return k
}

func (k *Conn) spec() actors.Spec {
	return actors.Spec{
		Kind:   actors.KindClient,
		Name:   "client-" + k.opts.Name,
		New:    func() actors.Actor { return &actor{conn: k} },
		OnStop: k.stopped,
	}
}

// Start starts the connection below the runtime. It must not be called from a Receive.
func (k *Conn) Start() error {
	_, err := k.start(k.sys.Spawn)
	return err
}

// StartConnect is [Conn.Start] and [Conn.Connect] in one: it waits for the first
// attempt, also if that has failed by the time another could ask for it.
func (k *Conn) StartConnect(ctx context.Context) error {
	first := new(actors.Reply[struct{}])
	k.first.Store(first)
	defer k.first.Store(nil)
	if _, err := k.start(k.sys.Spawn); err != nil {
		return err
	}
	select {
	case <-first.Done():
	case <-ctx.Done():
		first.Complete(struct{}{}, context.Cause(ctx))
	}
	_, err := first.Result()
	return err
}

// StartChild starts the connection as a child of the actor that has c.
func (k *Conn) StartChild(c *actors.Context) (actors.Ref, error) {
	return k.start(c.Spawn)
}

func (k *Conn) start(spawn func(actors.Spec) (actors.Ref, error)) (actors.Ref, error) {
	spec := k.spec()
	ref, err := spawn(spec)
	if errors.Is(err, actors.ErrNameTaken) { // peers of one name are no reason to fail
		spec.Name = ""
		ref, err = spawn(spec)
	}
	if err == nil {
		k.ref.Store(&ref)
	}
	return ref, err
}

// stopped runs when the actor is gone for good, for whatever reason.
func (k *Conn) stopped(failure error) {
	if failure == nil {
		failure = call.ErrClosed
	}
	k.calls.Close(failure)
	if first := k.first.Load(); first != nil {
		first.Complete(struct{}{}, actors.ErrStopped)
	}
	last := *k.status.Load()
	k.status.Store(&Status{State: Closed, Since: time.Now(), Generation: last.Generation, Err: failure, Failures: last.Failures})
}

// Ref returns the connection's actor; the zero Ref before it is started.
func (k *Conn) Ref() actors.Ref {
	if ref := k.ref.Load(); ref != nil {
		return *ref
	}
	return actors.Ref{}
}

func (k *Conn) send(msg any) {
	k.Ref().Send(msg)
}

// SpawnChild starts a child of the connection's actor, which outlives transports and ends
// with the connection: see [actors.Ref.SpawnChild]. The error is [ErrNotReady] before the
// connection is started and [call.ErrClosed] once it has ended.
func (k *Conn) SpawnChild(spec actors.Spec, then func(actors.Ref, error)) {
	parent := k.Ref()
	if parent.IsZero() {
		then(actors.Ref{}, ErrNotReady)
		return
	}
	parent.SpawnChild(spec, func(ref actors.Ref, err error) {
		if errors.Is(err, actors.ErrStopped) {
			err = call.ErrClosed
		}
		then(ref, err)
	})
}

// Spawn is [Conn.SpawnChild] for a caller that waits: it must not be called from a Receive.
func (k *Conn) Spawn(spec actors.Spec) (actors.Ref, error) {
	var reply actors.Reply[actors.Ref]
	k.SpawnChild(spec, func(ref actors.Ref, err error) { reply.Complete(ref, err) })
	return reply.Wait(context.Background())
}

// Status returns what the connection is doing.
func (k *Conn) Status() Status { return *k.status.Load() }

// Stats returns what its calls have seen.
func (k *Conn) Stats() call.Stats { return k.calls.Stats() }

// Do carries out a request; see [call.Table.Do].
func (k *Conn) Do(ctx context.Context, req *call.Request) (call.Result, error) {
	return k.calls.Do(ctx, req)
}

// Go carries out a request and calls done with its outcome; see [call.Table.Go].
func (k *Conn) Go(ctx context.Context, req *call.Request, done func(call.Result, error)) *call.Call {
	return k.calls.Go(ctx, req, done)
}

// Begin begins a request and returns its handle; see [call.Table.Start].
func (k *Conn) Begin(req *call.Request, done func(call.Result, error)) *call.Call {
	return k.calls.Start(req, done)
}

// Hold keeps the clocks of a call of the current session still; see [Session.Hold].
func (k *Conn) Hold(id mcp.ID) (release func()) {
	if s := k.session.Load(); s != nil {
		return s.Hold(id)
	}
	return func() {}
}

// Out returns the calls that are out on the current session; see [Session.Out].
func (k *Conn) Out() []call.OutCall {
	if s := k.session.Load(); s != nil {
		return s.Out()
	}
	return nil
}

// CancelTagged cancels, with cause, the calls with this tag that await their answer; see
// [call.Table.CancelTagged].
func (k *Conn) CancelTagged(tag any, cause error) { k.calls.CancelTagged(tag, cause) }

// Notify sends a notification if the connection is ready, and is [ErrNotReady] if not.
func (k *Conn) Notify(method string, params []byte) error {
	s := k.session.Load()
	if s == nil || k.Status().State != Ready {
		return ErrNotReady
	}
	return s.Notify(method, params)
}

// Connect asks for the connection and waits until it is ready. Its error is the
// failure of the attempt that was or came under way, or the cause of ctx. After a
// failure attempts go on unless it is permanent. A connection that is [Unauthorized] is not
// waited for.
func (k *Conn) Connect(ctx context.Context) error {
	ref := k.Ref()
	if ref.IsZero() {
		return ErrNotReady
	}
	_, err := actors.Ask(ctx, ref, func(r *actors.Reply[struct{}]) any { return connect{r} })
	return err
}

// Retry makes an attempt to connect now, also within a pause or after a permanent
// failure. It does not wait, and does nothing while an attempt is under way.
func (k *Conn) Retry() { k.send(retryWanted{}) }

// closeGrace bounds the wait for a transport to close, beyond the context of Close.
const closeGrace = 10 * time.Second

// Close takes no more calls, lets those that are out end until ctx does, then
// ends them and closes the transport. It waits for that, up to ten seconds longer
// than ctx, and returns the cause of ctx if calls had to be ended.
func (k *Conn) Close(ctx context.Context) error {
	ref := k.Ref()
	if ref.IsZero() {
		return nil
	}
	ref.Send(closeWanted{})
	var cut error
	select {
	case <-ref.Stopped():
	case <-ctx.Done():
		cut = context.Cause(ctx)
		ref.Send(closeNow{})
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
	defer cancel()
	select {
	case <-ref.Stopped():
	case <-grace.Done():
		return context.Cause(grace)
	}
	if s := k.session.Load(); s != nil {
		select {
		case <-s.done.Done():
		case <-grace.Done():
			return context.Cause(grace)
		}
	}
	return cut
}

// Agree changes what the requests of the current session say, if it is ready; see
// [call.Table.Agree].
func (k *Conn) Agree(version mcp.Version, members []byte) {
	if s := k.session.Load(); s != nil && k.Status().State == Ready {
		s.Agree(version, members)
	}
}
