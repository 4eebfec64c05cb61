package actors

import (
	"slices"
	"sync"
	"time"
)

// Pool recycles the child actors of one parent, each of which works on one call at a
// time. It is part of its owner's state, a table of calls, and the owner's lock guards
// it: an actor is taken or put back together with what else changes for its call. A, a
// pointer, embeds [Worker].
//
// The parent need not have started, and does nothing for the pool: it is the kit that
// starts the actors in it, and stops those that were idle for a while.
type Pool[A PoolActor] struct {
	owner  PoolOwner[A]
	parent Ref // zero before Bind
	trim   time.Duration

	idle     []A // the last to have worked on top
	all      []A
	wanted   []func(A, error) (then func())
	unneeded int32 // the fewest that were idle since the last trim
	trimming bool  // a trim is due
}

// PoolActor is an actor that embeds [Worker].
type PoolActor interface {
	comparable
	worker() *Worker
}

// PoolOwner is what a pool needs of its owner.
type PoolOwner[A PoolActor] interface {
	sync.Locker
	// Worker returns a new actor, and how to start it.
	Worker() (A, Spec)
	// Lost is called once for each actor that has stopped, with the failure that ended
	// it or nil, without the lock. The actor is out of the pool.
	Lost(a A, failure error)
	// Rest is called with the lock when a trim leaves no idle actor.
	Rest()
}

// Worker is what a [Pool] knows of one of its actors.
type Worker struct {
	ref   Ref
	place int // in the pool's list of all, from 1; 0 when it is not there
}

func (w *Worker) worker() *Worker { return w }

// Ref returns the actor's reference.
func (w *Worker) Ref() Ref { return w.ref }

// Retired reports whether the actor is out of its pool. The owner's lock guards it.
func (w *Worker) Retired() bool { return w.place == 0 }

// Init sets the pool up. An actor that was not needed for about the time of trim is stopped.
func (p *Pool[A]) Init(owner PoolOwner[A], trim time.Duration) { p.owner, p.trim = owner, trim }

// Bind makes parent the parent of the actors: in its Started, and so once more after a
// restart, or later. It takes the owner's lock.
func (p *Pool[A]) Bind(parent Ref) {
	p.owner.Lock()
	p.parent, p.trimming = parent, false
	p.owner.Unlock()
	p.Grow()
}

// Parent returns the parent, the zero Ref before Bind.
func (p *Pool[A]) Parent() Ref { return p.parent }

// Idle and Busy count the actors; those that work, and those that are awaited, are busy.
func (p *Pool[A]) Idle() int { return len(p.idle) }

// Busy is described at [Pool.Idle].
func (p *Pool[A]) Busy() int { return len(p.all) - len(p.idle) + len(p.wanted) }

// Take lends an idle actor, the zero A if there is none.
func (p *Pool[A]) Take() (a A) {
	n := len(p.idle)
	if n == 0 {
		p.unneeded = 0
		return a
	}
	var none A
	a, p.idle[n-1] = p.idle[n-1], none
	p.idle = p.idle[:n-1]
	p.unneeded = min(p.unneeded, int32(n-1))
	return a
}

// Await lends an actor that is still to be started, which [Pool.Grow] brings about. Take is
// called once, with the lock, with the actor or with the reason why there is none; what it
// returns is called then, without the lock, on the goroutine of the parent or of the
// caller of Grow or Refuse, and must not block.
func (p *Pool[A]) Await(take func(a A, err error) (then func())) {
	p.wanted = append(p.wanted, take)
}

// Grow starts the actors that are awaited; before Bind it leaves that to it. It is called
// without the lock.
func (p *Pool[A]) Grow() {
	p.owner.Lock()
	parent, none := p.parent, len(p.wanted) == 0
	p.owner.Unlock()
	if parent.IsZero() || none {
		return
	}
	parent.visit(func(c *Context, err error) {
		if err != nil {
			p.Refuse(err)
			return
		}
		for p.start(c) {
		}
	})
}

// Refuse tells all that await an actor that there is none. It is called without the lock.
func (p *Pool[A]) Refuse(err error) {
	for {
		p.owner.Lock()
		then := p.serve(*new(A), err)
		p.owner.Unlock()
		if then == nil {
			return
		}
		then()
	}
}

// serve gives an actor, or the reason why there is none, to the first that awaits one. It
// returns nil if there was none.
func (p *Pool[A]) serve(a A, err error) (then func()) {
	if len(p.wanted) == 0 {
		return nil
	}
	take := p.wanted[0]
	p.wanted = slices.Delete(p.wanted, 0, 1)
	if len(p.wanted) == 0 {
		p.wanted = nil
	}
	return take(a, err)
}

// start starts an actor for the first that awaits one, and reports whether there was one.
func (p *Pool[A]) start(c *Context) bool {
	p.owner.Lock()
	none := len(p.wanted) == 0
	p.owner.Unlock()
	if none {
		return false
	}
	a, spec := p.owner.Worker()
	spec.OnStop = func(failure error) { p.stopped(a, failure) }
	ref, err := c.Spawn(spec)
	p.owner.Lock()
	w := a.worker()
	switch {
	case err != nil:
	case !ref.Alive():
		err = ErrStopped
	default:
		w.ref = ref
		p.all = append(p.all, a)
		w.place = len(p.all)
	}
	then := p.serve(a, err)
	if then == nil { // the one that awaited it was refused meanwhile
		p.Retire(a)
		then = ref.Stop
	}
	p.owner.Unlock()
	then() // no inline actor runs under the lock
	return true
}

// stopped runs when an actor is gone for good.
func (p *Pool[A]) stopped(a A, failure error) {
	p.owner.Lock()
	p.Retire(a)
	p.owner.Unlock()
	p.owner.Lost(a, failure)
}

// Retire takes an actor out of the pool for good. It does not stop it, and may come more
// than once.
func (p *Pool[A]) Retire(a A) {
	w := a.worker()
	if w.place == 0 {
		return
	}
	last := len(p.all) - 1
	moved := p.all[last]
	p.all[w.place-1] = moved
	moved.worker().place = w.place
	w.place = 0
	p.all = slices.Delete(p.all, last, last+1)
	if i := slices.Index(p.idle, a); i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
	}
}

// RetireAll retires all actors and returns them; its owner stops them.
func (p *Pool[A]) RetireAll() []A {
	all := p.all
	for _, a := range all {
		a.worker().place = 0
	}
	p.all, p.idle = nil, nil
	return all
}

// All returns the actors; the slice is the pool's.
func (p *Pool[A]) All() []A { return p.all }

// Put takes an actor back that is not retired, and reports whether it is kept: at most
// keep are. One that is not is out of the pool, and its owner stops it.
func (p *Pool[A]) Put(a A, keep int) bool {
	if len(p.idle) >= keep {
		p.Retire(a)
		return false
	}
	p.idle = append(p.idle, a)
	if !p.trimming {
		p.trimming, p.unneeded = true, int32(len(p.idle))
		p.parent.Send(&visit{do: p.beginTrim}) // the parent is not inline: it does not run here
	}
	return true
}

func (p *Pool[A]) beginTrim(c *Context, err error) {
	if err != nil {
		return
	}
	var timer *Timer
	timer = c.NewTimer(&visit{do: func(*Context, error) {
		if p.trimNow() {
			timer.Set(p.trim)
		}
	}})
	timer.Set(p.trim)
}

// trimNow stops the actors that were not needed since the last time, and reports whether
// there are more.
func (p *Pool[A]) trimNow() (more bool) {
	p.owner.Lock()
	old := slices.Clone(p.idle[:min(int(p.unneeded), len(p.idle))])
	for _, a := range old {
		p.Retire(a)
	}
	p.unneeded = int32(len(p.idle))
	p.trimming = p.unneeded > 0
	more = p.trimming
	if !more {
		p.owner.Rest()
	}
	p.owner.Unlock()
	for _, a := range old {
		a.worker().ref.Stop()
	}
	return more
}
