// instances.go: the processes of one server that does not say whose question it asks.

package mcpclient

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/internal/hostconfig"
)

// Bounds on the instances of a server.
const (
	defaultInstances = 4
	maxInstances     = hostconfig.MaxInstances
	maxTurns         = 4096 // calls that wait for an instance

	leaseIdle  = 10 * time.Second // a kept instance without calls is for another owner that waits
	spareTime  = 2 * time.Minute  // a further instance without calls ends
	keptTime   = 30 * time.Minute // also a kept one
	startPause = time.Minute      // after an instance that could not be started
)

// InstanceWait is what a call waits for that has no instance of its server yet.
type InstanceWait struct {
	Server string
	// InUse is how many instances other owners have, Of how many there may be.
	InUse, Of int
}

func (w *InstanceWait) String() string {
	return fmt.Sprintf("an instance of server %q (%d of %d in use)", w.Server, w.InUse, w.Of)
}

// instances lends the processes of one definition to the owners of calls: the calls that
// are out on a process belong to one owner, so a question on it is that owner's. The first
// instance is the client itself. All fields below mu change in update only.
//
//	         place                       connected
//	waiting ───────▶ (instance starts) ───────────▶ lent ── leave ──▶ (over)
//	   │                  │ could not be started: waiting again
//	   └─ giveUp, close ──┴──▶ (over, with an error)
type instances struct {
	first *Client
	own   *instance // that of first
	most  int

	mu      sync.Mutex
	all     []*instance // the first one first
	waiting []*turn     // the oldest first
	paused  time.Time   // no instance is started before
	closed  bool
	clock   *time.Timer // looks when the next lease or instance may end; nil at first
	todo    []func()    // after the lock
}

// instance is one process, or the place of one that is being started.
type instance struct {
	pool   *instances
	n      int     // from 1
	client *Client // nil until it is made
	over   chan struct{}

	starting bool
	pending  []*turn // that wait for its start
	of       party   // whose calls are out; without calls: whose were last
	alone    bool    // the one that is out goes alone
	keep     bool    // it is kept for its owner between calls
	out      int     // calls, pending ones among them
	since    time.Time
	wanted   bool // a turn waits for this one only
}

// turn is a call that wants an instance.
type turn struct {
	of    party
	alone bool                // no other call may be out with it
	keep  bool                // more calls of its owner are to come
	only  *instance           // nil: any
	told  func(*InstanceWait) // hears what it waits for, once, under the lock; may be nil
	got   func(*instance, error)

	waits bool  // told was called
	gone  error // why it wants none any more
}

// party is who answers for what the server asks because of a call.
type party struct {
	human   Human
	sampler Sampler  // of the call alone; nil if it has none of its own
	roots   *callTag // the call itself, if nobody is asked and it tells roots of its own
}

func (p party) same(o party) bool {
	if p.human != nil || o.human != nil {
		return same(p.human, o.human)
	}
	return p.roots == o.roots && same(p.sampler, o.sampler)
}

// is reports whether the party answers for an owner, see [Owned].
func (p party) is(owner any) bool {
	h, ok := p.human.(Owned)
	return ok && h.Owner() == owner
}

// update changes the pool, lends what is free, and then does what is to be done.
func (p *instances) update(f func()) {
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
func (p *instances) try(t *turn) *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	i := p.place(t, slices.ContainsFunc(p.waiting, func(o *turn) bool { return o.only == nil }), false)
	if i == nil || i.starting {
		return nil
	}
	p.take(t, i)
	return i
}

// enter has a call wait for an instance: got is called once, on a goroutine of the system.
func (p *instances) enter(t *turn) {
	p.update(func() {
		switch {
		case t.gone != nil:
			p.settle(t, nil, t.gone)
		case p.closed:
			p.settle(t, nil, ErrClosed)
		case len(p.waiting) >= maxTurns:
			p.settle(t, nil, call.ErrBusy)
		default:
			p.waiting = append(p.waiting, t)
		}
	})
}

// giveUp ends the wait of a turn that has no instance yet.
func (p *instances) giveUp(t *turn, cause error) {
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
func (p *instances) settle(t *turn, i *instance, err error) {
	p.todo = append(p.todo, func() { p.first.sys.Go("a call that has waited for an instance", func() { t.got(i, err) }) })
}

// leave is the end of a call on the instance.
func (i *instance) leave() { i.pool.update(func() { i.pool.left(i) }) }

func (p *instances) left(i *instance) {
	if i.out--; i.out == 0 {
		i.alone, i.since = false, time.Now()
	}
}

// forget ends what is kept for an owner: it makes no more calls.
func (p *instances) forget(owner any) {
	p.update(func() {
		for _, i := range p.all {
			i.keep = i.keep && !i.of.is(owner)
		}
	})
}

// route lends instances to those that wait, in their order. Only the calls of an owner
// that an instance is kept for overtake others.
func (p *instances) route() {
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
		if t.only != nil {
			t.only.wanted = true
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
			if t.told != nil {
				t.told(p.wait())
			}
		}
	}
}

// place finds the instance for a call, nil for none now. Held says that others wait; more,
// that one may be started.
func (p *instances) place(t *turn, held, more bool) *instance {
	if t.only != nil {
		if t.only.fits(t) {
			return t.only
		}
		return nil
	}
	var free, lapsed *instance
	for _, i := range p.all {
		switch {
		case !i.lives():
		case t.of.same(i.of) && (i.out > 0 || i.keep):
			if i.fits(t) && (i.keep || !held && !i.wanted) {
				return i
			}
			return nil
		case held, i.wanted, !i.fits(t):
		case i.keep && time.Since(i.since) < leaseIdle:
		case i.keep:
			if lapsed == nil || i.since.Before(lapsed.since) {
				lapsed = i
			}
		case free == nil, t.of.same(i.of) && !t.of.same(free.of):
			free = i
		}
	}
	switch {
	case held:
		return nil
	case free != nil:
		return free
	case !p.mayStart():
		return lapsed
	case more:
		return p.start()
	}
	return nil
}

// fits reports whether the call may be out with those that are.
func (i *instance) fits(t *turn) bool {
	return i.out == 0 || !i.alone && !t.alone && t.of.same(i.of)
}

// lives reports whether the instance takes calls: the first always does, of another the
// actor may have been stopped.
func (i *instance) lives() bool {
	return i.n == 1 || i.starting || i.client.conn.Status().State != conn.Closed
}

// take counts a call in.
func (p *instances) take(t *turn, i *instance) {
	if !t.of.same(i.of) {
		i.keep = false
	}
	i.of, i.alone, i.keep = t.of, t.alone, i.keep || t.keep
	i.out++
}

// lendLater gives a call that has waited its instance, as soon as that is connected.
func (p *instances) lendLater(t *turn, i *instance) {
	p.take(t, i)
	if i.starting {
		i.pending = append(i.pending, t)
		return
	}
	p.settle(t, i, nil)
}

// wait is what a call waits for now.
func (p *instances) wait() *InstanceWait {
	w := &InstanceWait{Server: p.first.server.Name, Of: p.most}
	for _, i := range p.all {
		if i.out > 0 || i.keep {
			w.InUse++
		}
	}
	if time.Now().Before(p.paused) {
		w.Of = len(p.all)
	}
	return w
}

// arm sets the clock to when the next lease lapses, or the next instance ends.
func (p *instances) arm() {
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
		if lapse := i.since.Add(leaseIdle); i.keep && len(p.waiting) > 0 && lapse.After(now) {
			due(lapse)
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
func (i *instance) ends() time.Time {
	if i.keep {
		return i.since.Add(keptTime)
	}
	return i.since.Add(spareTime)
}

// look ends the instances whose time is up.
func (p *instances) look() {
	p.update(func() {
		now := time.Now()
		for _, i := range slices.Clone(p.all) {
			switch {
			case i.n == 1 || i.starting || i.out > 0 || i.wanted:
			case !i.lives():
				p.remove(i)
			case now.Before(i.ends()):
			case i.client.conn.Stats().Pending > 0: // a call waits for a page, or a task goes on
				i.since = now
			default:
				p.remove(i)
				p.first.sys.Go("ending an instance of "+p.first.server.Name, func() {
					p.first.log.Debug("an instance ends, it was not needed", "instance", i.n)
					_ = i.client.Close()
				})
			}
		}
	})
}

func (p *instances) remove(i *instance) {
	p.all = slices.DeleteFunc(p.all, func(o *instance) bool { return o == i })
}
