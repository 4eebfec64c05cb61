package pool

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
)

// Bounds on the instances of a server.
const (
	maxTurns = 4096 // calls that wait for an instance

	LeaseIdle  = 10 * time.Second // a kept instance without calls is for another owner that waits
	SpareTime  = 2 * time.Minute  // a further instance without calls ends
	keptTime   = 30 * time.Minute // also a kept one
	startPause = time.Minute      // after an instance that could not be started
)

// Member is a client of one process.
type Member interface {
	State() conn.State
	// Pending returns how many calls have no outcome.
	Pending() int
	Shutdown(ctx context.Context) error
}

// Owner answers for the questions that a server asks because of a call. Nil owners are one.
type Owner interface {
	Same(Owner) bool
	// Is reports whether it is the owner with this identity.
	Is(identity any) bool
}

// Options are those of a pool. All are needed.
type Options struct {
	System *actors.System
	Server string // its configured name
	Log    *slog.Logger
	First  Member // lists and consent are the first instance's
	Most   int    // instances
	// Held is how many further ones there may be while the calls on as many wait for a person.
	Held int
	// Make returns the member with a number, which is not connected.
	Make func(n int) (Member, error)
	// Connect starts a member and waits for its first attempt to connect.
	Connect func(Member) error
	// Discard ends a member that could not be connected, or is not needed.
	Discard func(Member)
	Closed  error // for calls after the end
}

// Pool lends the processes of one definition to the owners of calls. All fields below mu
// change in update only.
//
//	         place                       connected
//	waiting ───────▶ (instance starts) ───────────▶ lent ── Leave ──▶ (over)
//	   │                  │ could not be started: waiting again
//	   └─ giveUp, Close ──┴──▶ (over, with an error)
type Pool struct {
	Options
	own *Instance // of First

	mu      sync.Mutex  // guards the fields below it: a call that finds an instance free takes it on its own goroutine, without a message to an actor
	all     []*Instance // the first one first
	waiting []*Turn     // the oldest first
	paused  time.Time   // no instance is started before
	closed  bool
	clock   *time.Timer // looks when the next lease or instance may end; nil at first
	todo    []func()    // after the lock
}

// New returns a pool of the first instance.
func New(o Options) *Pool {
	p := &Pool{Options: o}
	p.own = &Instance{pool: p, n: 1, member: o.First}
	p.all = []*Instance{p.own}
	return p
}

// First returns the first instance.
func (p *Pool) First() *Instance { return p.own }

// Instance is one process, or the place of one that is being started.
type Instance struct {
	pool   *Pool
	n      int    // from 1
	member Member // nil until it is made
	over   chan struct{}

	starting bool
	pending  []*Turn // that wait for its start
	owner    Owner   // of the calls that are out; without calls: of the last ones
	alone    bool    // the one that is out goes alone
	keep     bool    // it is kept for its owner between calls
	out      int     // calls, pending ones among them
	asks     int     // of the calls, those that wait for a person
	since    time.Time
	wanted   bool // a turn waits for this one only

	doubtful time.Time // until then the server may ask for a call that has ended, of
	doubtOf  Owner
}

// Pool returns the pool that the instance is of.
func (i *Instance) Pool() *Pool { return i.pool }

// Member returns the client of the process, once the instance was lent.
func (i *Instance) Member() Member { return i.member }

// Turn is a call that wants an instance.
type Turn struct {
	Owner  Owner
	Alone  bool      // no other call may be out with it
	Keep   bool      // more calls of its owner are to come
	Only   *Instance // nil: any
	OnWait func(Use) // called once, under the lock, if the call has to wait; may be nil
	OnEnd  func()    // called when a call that has waited has its instance; may be nil

	got   func(*Instance, error)
	waits bool  // OnWait was called
	gone  error // why it wants none any more
}

func same(a, b Owner) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Same(b)
}

// Lend gives a call an instance, and then calls then: before Lend returns, or on a goroutine
// of the system. The wait holds no goroutine, and ends with ctx.
func (p *Pool) Lend(ctx context.Context, t *Turn, then func(*Instance, error)) {
	if i := p.try(t); i != nil {
		then(i, nil)
		return
	}
	stop := func() bool { return true }
	t.got = func(i *Instance, err error) {
		stop()
		if err == nil && t.waits && t.OnEnd != nil {
			t.OnEnd()
		}
		then(i, err)
	}
	stop = actors.AfterDone(ctx, func() { p.giveUp(t, context.Cause(ctx)) })
	p.enter(t)
}

// update changes the pool, lends what is free, and then does what is to be done.
func (p *Pool) update(f func()) {
	p.mu.Lock()
	f()
	p.route()
	p.arm()
	todo := p.todo
	p.todo = nil
	p.mu.Unlock()
	for _, do := range todo {
		do()
	}
}

// try lends an instance that is connected and free for the call, nil if it has to wait.
func (p *Pool) try(t *Turn) *Instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	i := p.place(t, slices.ContainsFunc(p.waiting, func(o *Turn) bool { return o.Only == nil }), false)
	if i == nil || i.starting {
		return nil
	}
	p.take(t, i)
	return i
}

// enter has a call wait for an instance: got is called once, on a goroutine of the system.
func (p *Pool) enter(t *Turn) {
	p.update(func() {
		switch {
		case t.gone != nil:
			p.settle(t, nil, t.gone)
		case p.closed:
			p.settle(t, nil, p.Closed)
		case len(p.waiting) >= maxTurns:
			p.settle(t, nil, call.ErrBusy)
		default:
			p.waiting = append(p.waiting, t)
		}
	})
}

// giveUp ends the wait of a turn that has no instance yet.
func (p *Pool) giveUp(t *Turn, cause error) {
	p.update(func() {
		t.gone = cause
		if at := slices.Index(p.waiting, t); at >= 0 {
			p.waiting = slices.Delete(p.waiting, at, at+1)
			p.settle(t, nil, cause)
			return
		}
		for _, i := range p.all {
			if at := slices.Index(i.pending, t); at >= 0 {
				i.pending = slices.Delete(i.pending, at, at+1)
				p.left(i)
				p.settle(t, nil, cause)
			}
		}
	})
}

// settle answers a turn that has waited.
func (p *Pool) settle(t *Turn, i *Instance, err error) {
	p.todo = append(p.todo, func() { p.System.Go("a call that has waited for an instance", func() { t.got(i, err) }) })
}

// Asks says that one more call on the instance waits for a person, or one less: such an instance
// leaves its place to another.
func (i *Instance) Asks(n int) { i.pool.update(func() { i.asks += n }) }

// Doubt says that a call on the instance, whose end follows, ends without an answer. The server may ask something for
// it for so long: other owners, to whom the question could not be shown, get another instance while there may be several.
func (i *Instance) Doubt(life time.Duration) {
	i.pool.update(func() { i.doubtful, i.doubtOf = time.Now().Add(life), i.owner })
}

// doubted reports whether the server may take a question for a call of another owner than that of t for one of t.
func (i *Instance) doubted(t *Turn) bool {
	return i.pool.Most > 1 && time.Now().Before(i.doubtful) && !same(t.Owner, i.doubtOf)
}

// spare reports whether the instance may end now: no call needs it.
func (i *Instance) spare() bool {
	return i.n > 1 && i.out == 0 && !i.starting && !i.wanted && i.member.Pending() == 0
}

// Leave is the end of a call on the instance.
func (i *Instance) Leave() { i.pool.update(func() { i.pool.left(i) }) }

func (p *Pool) left(i *Instance) {
	if i.out--; i.out == 0 {
		i.alone, i.since = false, time.Now()
	}
}

func (i *Instance) isOf(identity any) bool { return i.owner != nil && i.owner.Is(identity) }

// Forget ends what is kept for an owner: it makes no more calls.
func (p *Pool) Forget(owner any) {
	p.update(func() {
		for _, i := range p.all {
			i.keep = i.keep && !i.isOf(owner)
		}
	})
}

// route lends instances to those that wait, in their order. Only the calls of an owner
// that an instance is kept for overtake others.
func (p *Pool) route() {
	for _, i := range p.all {
		i.wanted = false
	}
	held := false // a call that any instance would do for waits
	left := p.waiting[:0]
	for _, t := range p.waiting {
		if i := p.place(t, held, true); i != nil {
			p.lendLater(t, i)
			continue
		}
		if t.Only != nil {
			t.Only.wanted = true
		} else {
			held = true
		}
		left = append(left, t)
	}
	clear(p.waiting[len(left):])
	p.waiting = left
	for _, t := range left {
		if !t.waits {
			t.waits = true
			if t.OnWait != nil {
				t.OnWait(p.use())
			}
		}
	}
}

// place finds the instance for a call, nil for none now. Held says that others wait; more,
// that one may be started.
func (p *Pool) place(t *Turn, held, more bool) *Instance {
	if t.Only != nil {
		if t.Only.fits(t) {
			return t.Only
		}
		return nil
	}
	var free, lapsed, doubted *Instance
	for _, i := range p.all {
		switch {
		case !i.lives():
		case same(t.Owner, i.owner) && (i.out > 0 || i.keep):
			if i.fits(t) && (i.keep || !held && !i.wanted) {
				return i
			}
			return nil
		case held, i.wanted, !i.fits(t):
		case i.doubted(t):
			if i.spare() {
				doubted = i
			}
		case i.keep && time.Since(i.since) < LeaseIdle:
		case i.keep:
			if lapsed == nil || i.since.Before(lapsed.since) {
				lapsed = i
			}
		case free == nil, same(t.Owner, i.owner) && !same(t.Owner, free.owner):
			free = i
		}
	}
	switch {
	case held:
		return nil
	case free != nil:
		return free
	case !p.mayStart() && (lapsed != nil || doubted == nil || p.closed || time.Now().Before(p.paused)):
		return lapsed
	case !more:
		return nil
	}
	if !p.mayStart() {
		p.end(doubted, "a call of another run was given up on it")
	}
	return p.start()
}

// end ends an instance without calls.
func (p *Pool) end(i *Instance, why string) {
	p.remove(i)
	p.System.Go("ending an instance of "+p.Server, func() {
		p.Log.Debug("an instance ends", "instance", i.n, "why", why)
		p.Discard(i.member)
	})
}

// fits reports whether the call may be out with those that are.
func (i *Instance) fits(t *Turn) bool {
	return i.out == 0 || !i.alone && !t.Alone && same(t.Owner, i.owner)
}

// lives reports whether the instance takes calls: the first always does, of another the
// actor may have been stopped.
func (i *Instance) lives() bool {
	return i.n == 1 || i.starting || i.member.State() != conn.Closed
}

// take counts a call in.
func (p *Pool) take(t *Turn, i *Instance) {
	if !same(t.Owner, i.owner) {
		i.keep = false
	}
	i.owner, i.alone, i.keep = t.Owner, t.Alone, i.keep || t.Keep
	i.out++
}

// lendLater gives a call that has waited its instance, as soon as that is connected.
func (p *Pool) lendLater(t *Turn, i *Instance) {
	p.take(t, i)
	if i.starting {
		i.pending = append(i.pending, t)
		return
	}
	p.settle(t, i, nil)
}

// Use is how the instances are used when a call has to wait.
type Use struct {
	InUse int // by other owners, without Held
	Of    int // how many there may be now, without Held
	Held  int // whose calls wait for a person, and that count against the bound for those
}

func (p *Pool) use() Use {
	u := Use{Of: p.Most, Held: p.held()}
	for _, i := range p.all {
		if i.out > 0 || i.keep {
			u.InUse++
		}
	}
	if time.Now().Before(p.paused) {
		u.Of = len(p.all) - u.Held
	}
	u.InUse -= u.Held
	return u
}

// held returns how many instances are held by questions to people, up to the bound for those.
func (p *Pool) held() int {
	n := 0
	for _, i := range p.all {
		if i.asks > 0 && i.out > 0 {
			n++
		}
	}
	return min(n, p.Held)
}

// another is an owner that has no instance yet.
type another struct{}

func (another) Same(Owner) bool { return false }
func (another) Is(any) bool     { return false }

// full reports whether the call of a further owner would have to wait.
func (p *Pool) full() bool {
	t := &Turn{Owner: another{}}
	return len(p.waiting) > 0 || p.place(t, false, false) == nil && !p.mayStart() &&
		!slices.ContainsFunc(p.all, func(i *Instance) bool { return i.spare() && i.doubted(t) })
}

// arm sets the clock to when the next lease lapses, the next doubt is over, or the next instance ends.
func (p *Pool) arm() {
	var next time.Time
	now := time.Now()
	due := func(at time.Time) {
		if at.Before(now) {
			at = now.Add(time.Second) // it was looked at
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	for _, i := range p.all {
		if i.out > 0 || i.starting {
			continue
		}
		if lapse := i.since.Add(LeaseIdle); i.keep && len(p.waiting) > 0 && lapse.After(now) {
			due(lapse)
		}
		if len(p.waiting) > 0 && i.doubtful.After(now) {
			due(i.doubtful)
		}
		if i.n > 1 {
			due(i.ends())
		}
	}
	if len(p.waiting) > 0 && p.paused.After(now) {
		due(p.paused)
	}
	switch {
	case p.closed || next.IsZero():
		if p.clock != nil {
			p.clock.Stop()
		}
	case p.clock == nil:
		p.clock = time.AfterFunc(time.Until(next), p.look)
	default:
		p.clock.Reset(time.Until(next))
	}
}

// ends is when an instance without calls is not needed any more.
func (i *Instance) ends() time.Time {
	if i.keep {
		return i.since.Add(keptTime)
	}
	return i.since.Add(SpareTime)
}

// look ends the instances whose time is up.
func (p *Pool) look() {
	p.update(func() {
		now := time.Now()
		for _, i := range slices.Clone(p.all) {
			switch {
			case i.n == 1 || i.starting || i.out > 0 || i.wanted:
			case !i.lives():
				p.remove(i)
			case now.Before(i.ends()):
			case i.member.Pending() > 0: // a call waits for a page, or a task goes on
				i.since = now
			default:
				p.end(i, "it was not needed")
			}
		}
	})
}

func (p *Pool) remove(i *Instance) {
	p.all = slices.DeleteFunc(p.all, func(o *Instance) bool { return o == i })
}
