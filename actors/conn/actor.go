package conn

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
)

// actor keeps one peer reachable.
//
//	       wanted            dialed                agreed
//	idle ─────────▶ dialing ─────────▶ negotiating ───────▶ ready
//	  ▲  (or eager)  ▲    │ error, timeout  │ error, timeout  │ lost
//	  │              │    ▼                 ▼                 ▼
//	  │ no waiter    │ ◀─ backoff ◀─────────┴─────────────────┘
//	  └── (lazy) ────┘ due  │ permanent error
//	                 ▲      ▼
//	                 ├─── failed          any ── close ──▶ closing ──▶ (stopped)
//	                 │ wanted  ▲
//	                 │         │ no login
//	                 └─── unauthorized ◀── permanent error that a login ends
//	                 login, retry
type actor struct {
	conn *Conn

	session   *Session   // the newest generation; nil before the first
	transport actors.Ref // its actor
	negotiate context.CancelCauseFunc
	waiters   []*actors.Reply[struct{}] // of Connect

	backoff  *backoff.ExponentialBackOff // nil since the connection was stable
	clock    *actors.Timer               // the end of the attempt under way, or of the pause; nil without either
	failures int32                       // attempts that failed since the connection was stable
	redials  int32                       // at once, in a row
	lastErr  error
	lost     error  // the transport went away while the negotiation still runs
	leave    func() // gives the wait for an authorization up; nil without one

	pings  *actors.Timer           // nil if there are none
	pinger context.CancelCauseFunc // of the ping under way; nil if there is none
	state  State
	misses int32 // pings in a row without an answer
}

// maxRedials bounds the attempts that follow each other without a delay.
const maxRedials = 3

// Messages. Those of a generation are dropped when another has begun.
type (
	wake        struct{} // a call waits for a connection
	connect     struct{ reply *actors.Reply[struct{}] }
	retryWanted struct{} // a caller asks for an attempt within a pause
	closeWanted struct{}
	closeNow    struct{}

	dialed struct {
		gen uint64
		err error
	}
	transportLost struct {
		gen uint64
		err error
	}
	negotiated struct {
		gen uint64
		err error
	}
	awaited struct { // the end of a wait for an authorization
		gen uint64
		err error
	}
	clockDue struct{}
)

// nextDelay returns the pause before the next attempt.
func (a *actor) nextDelay() time.Duration {
	if a.backoff == nil {
		a.backoff = backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(a.conn.opts.MinBackoff),
			backoff.WithMaxInterval(a.conn.opts.MaxBackoff),
			backoff.WithMultiplier(2),
			backoff.WithMaxElapsedTime(0), // never gives up
		)
	}
	if d := a.backoff.NextBackOff(); d != backoff.Stop {
		return d
	}
	return a.conn.opts.MaxBackoff
}

// Receive implements [actors.Actor].
func (a *actor) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		self := c.Self()
		a.conn.calls.Bind(self)
		a.conn.ref.Store(&self) // not by Start alone: the first transport may be lost before it returns
		if o := &a.conn.opts; o.Ping != nil {
			a.pings = c.NewTimer(pingDue{})
		}
		if first := a.conn.first.Load(); first != nil && !first.Completed() {
			a.waiters = append(a.waiters, first)
		}
		if a.conn.opts.Lazy && len(a.waiters) == 0 && a.conn.calls.Stats().Waiting == 0 {
			a.to(Idle)
		} else {
			a.dial(c)
		}
	case actors.Stopping:
		a.stopping(m)
	case wake:
		a.wanted(c)
	case connect:
		a.connect(c, m.reply)
	case retryWanted:
		if a.state == Backoff || a.state == Unauthorized {
			a.dial(c)
		} else {
			a.wanted(c)
		}
	case closeWanted:
		a.drain(c)
	case closeNow:
		if a.state == Closing {
			c.Stop()
		}
	case clockDue:
		if a.state == Dialing || a.state == Negotiating {
			a.fail(c, &connectTimeout{State: a.state, After: a.conn.opts.ConnectTimeout})
		} else {
			a.retryNow(c)
		}
	case pingDue:
		a.ping(c)
	case actors.ChildStopped:
		if m.Ref == a.transport {
			a.transport = actors.Ref{}
			a.fail(c, cmpErr(m.Err, ErrClosedByPeer))
		}
	default:
		a.ofGeneration(c, msg)
	}
}

// ofGeneration handles what comes from a transport.
func (a *actor) ofGeneration(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case *dialed:
		if a.is(m.gen, Dialing) {
			if m.err != nil {
				a.fail(c, m.err)
			} else {
				a.negotiating(c)
			}
		}
	case *negotiated:
		if a.is(m.gen, Negotiating) {
			a.negotiate = nil
			if err := cmpErr(m.err, a.lost); err != nil {
				a.fail(c, err)
			} else {
				a.ready()
			}
		}
	case *awaited:
		if a.is(m.gen, Unauthorized) {
			a.awaited(c, m.err)
		}
	case *pinged:
		if a.is(m.gen, Ready) {
			a.pinged(c, m.err)
		}
	case *transportLost:
		switch {
		case a.session == nil || m.gen != a.session.gen:
		case a.state == Negotiating:
			// The negotiation hears of it by its request, and may know what to do.
			a.lost = m.err
			a.conn.calls.Lost(m.gen, m.err)
		default:
			a.fail(c, m.err)
		}
	}
}

func (a *actor) is(gen uint64, state State) bool {
	return a.state == state && a.session.gen == gen
}

func cmpErr(err, standard error) error {
	if err == nil {
		return standard
	}
	return err
}

// to changes the state and tells of it.
func (a *actor) to(s State) {
	a.state = s
	a.giveUpWait()
	status := &Status{State: s, Since: time.Now(), Generation: a.conn.gens.Load(), Err: a.lastErr, Failures: int(a.failures)}
	a.conn.status.Store(status)
	if a.conn.opts.OnStatus != nil {
		a.conn.opts.OnStatus(*status)
	}
}

// wanted begins an attempt if none is made anyway, and if it is not known to be in vain.
func (a *actor) wanted(c *actors.Context) {
	switch a.state {
	case Idle, Failed:
		a.dial(c)
	case Unauthorized:
		a.conn.calls.Unavailable(a.lastErr)
	}
}

func (a *actor) connect(c *actors.Context, reply *actors.Reply[struct{}]) {
	switch a.state {
	case Ready:
		reply.Complete(struct{}{}, nil)
		return
	case Closing:
		reply.Complete(struct{}{}, call.ErrClosed)
		return
	case Unauthorized:
		reply.Complete(struct{}{}, a.lastErr)
		return
	}
	a.waiters = append(a.waiters, reply)
	a.wanted(c)
}

// answer tells those who wait for the connection.
func (a *actor) answer(err error) {
	for _, r := range a.waiters {
		r.Complete(struct{}{}, err)
	}
	a.waiters = nil
}

// dial begins a new generation.
func (a *actor) dial(c *actors.Context) {
	a.session = newSession(a.conn)
	a.conn.session.Store(a.session)
	a.to(Dialing)
	a.setClock(c, a.conn.opts.ConnectTimeout)
	ref, err := c.Spawn(transportSpec(a.conn, a.session, c.Self()))
	if err != nil { // the system shuts down
		a.session.attach(nil, err)
		a.fail(c, Permanent(err))
		return
	}
	a.transport = ref
}

func (a *actor) negotiating(c *actors.Context) {
	s := a.session
	a.lost = nil
	a.conn.calls.Open(s.gen, s.link)
	a.to(Negotiating)
	a.negotiate = actors.Await(c,
		func(ctx context.Context) (struct{}, error) {
			s.begin()
			return struct{}{}, a.conn.opts.Negotiate(ctx, s)
		},
		func(_ struct{}, err error) any { return &negotiated{s.gen, err} })
}

func (a *actor) ready() {
	a.endClock()
	a.lastErr = nil
	a.misses = 0
	a.nextPing()
	a.to(Ready) // before a call can have an answer: its caller may look at the state
	a.conn.calls.Ready()
	a.answer(nil)
}

// fail ends the generation and decides how to go on.
func (a *actor) fail(c *actors.Context, err error) {
	wasReady := a.state == Ready
	if !wasReady && a.state != Dialing && a.state != Negotiating && a.state != Closing {
		return // it had failed already
	}
	a.drop(err)
	a.lastErr = err
	if a.state == Closing {
		c.Stop() // nothing that waits can end well now
		return
	}
	if wasReady && time.Since(a.conn.Status().Since) >= a.conn.opts.Stable {
		a.failures, a.redials = 0, 0
		a.backoff = nil
	}
	level := slog.LevelWarn
	if IsRefused(err) {
		level = slog.LevelDebug
	}
	a.conn.log.Log(context.Background(), level, "the connection failed", "state", a.state.String(), "generation", a.session.gen, "error", err)
	switch {
	case isRedial(err) && a.failures == 0 && a.redials < maxRedials: // else a peer that always dies is started twice as often (ROB-8)
		a.redials++
		a.dial(c)
	case errors.Is(err, ErrPermanent):
		a.refused(c, err)
	default:
		a.failures++
		a.pause(c, err)
	}
}

// refused makes no more attempts before the connection is authorized, if that is what it
// lacks, or else before a caller asks.
func (a *actor) refused(c *actors.Context, err error) {
	if leave := a.await(c, err); leave != nil {
		a.to(Unauthorized)
		a.leave = leave
	} else {
		a.failures++
		a.to(Failed)
	}
	a.conn.calls.Unavailable(err)
	a.answer(err)
}

// await begins the wait for an authorization; it returns nil if there is none to wait for.
func (a *actor) await(c *actors.Context, err error) (leave func()) {
	if a.conn.opts.Await == nil {
		return nil
	}
	self, gen := c.Self(), a.session.gen
	return a.conn.opts.Await(err, func(err error) { self.Send(&awaited{gen, err}) })
}

// awaited is the end of that wait.
func (a *actor) awaited(c *actors.Context, err error) {
	a.leave = nil
	if err == nil {
		a.dial(c)
		return
	}
	a.lastErr = errors.Join(a.lastErr, err)
	a.to(Failed)
}

func (a *actor) giveUpWait() {
	if a.leave != nil {
		a.leave()
		a.leave = nil
	}
}

// pause waits before the next attempt.
func (a *actor) pause(c *actors.Context, err error) {
	a.conn.calls.NotYet(err)
	if a.failures >= a.conn.opts.PatientFor {
		a.conn.calls.Unavailable(err)
	}
	a.redials = 0
	a.to(Backoff)
	a.setClock(c, a.nextDelay())
	a.answer(err)
}

func (a *actor) setClock(c *actors.Context, d time.Duration) {
	if a.clock == nil {
		a.clock = c.NewTimer(clockDue{})
	}
	a.clock.Set(d)
}

// endClock leaves nothing of the clock: a connection that is ready needs none.
func (a *actor) endClock() {
	a.clock.End()
	a.clock = nil
}

// retryNow is the end of a pause.
func (a *actor) retryNow(c *actors.Context) {
	switch {
	case a.state != Backoff:
	case a.conn.opts.Lazy && len(a.waiters) == 0 && a.conn.calls.Stats().Waiting == 0:
		a.to(Idle)
	default:
		a.dial(c)
	}
}

// drop ends what belongs to the current generation.
func (a *actor) drop(err error) {
	a.endClock()
	a.noPing(err)
	if a.negotiate != nil {
		a.negotiate(err)
		a.negotiate = nil
	}
	a.conn.calls.Lost(a.session.gen, err)
	a.session.end()
	t := a.transport
	a.transport = actors.Ref{} // its end is no news any more
	t.Stop()
}

// drain is the way to the end: calls that are out may still be answered.
func (a *actor) drain(c *actors.Context) {
	if a.state == Closing {
		return
	}
	wasReady := a.state == Ready
	a.endClock()
	a.noPing(call.ErrClosed)
	a.to(Closing)
	a.answer(call.ErrClosed)
	self := c.Self()
	a.conn.calls.Drain(func() { self.Send(closeNow{}) })
	if !wasReady {
		c.Stop()
	}
}

func (a *actor) stopping(m actors.Stopping) {
	err := m.Err
	if err == nil {
		err = call.ErrClosed
	}
	a.giveUpWait()
	a.conn.calls.Unbind(m.Err)
	if !m.Restart {
		a.conn.calls.Close(err)
	}
	a.answer(err)
	if a.session != nil {
		if a.negotiate != nil {
			a.negotiate(err)
		}
		a.conn.calls.Lost(a.session.gen, err)
		a.session.end()
	}
}
