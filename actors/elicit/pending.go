package elicit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// Pending is one elicitation. Its methods may be used from any goroutine.
//
//	       completed, retried, expired, cancelled
//	open ──────────────────────────────────────────▶ over
//	  └──────────────── stopped, failed ─────────────▶
type Pending struct {
	table  *Table
	id     string
	expiry time.Time                           // zero for never
	done   func(context.Context) (bool, error) // looks elsewhere; nil for nothing to look at

	mu      sync.Mutex // guards what follows; nothing is called under it
	ref     actors.Ref // zero until it is started
	first   any        // what it is to be told once it is started, nil for nothing
	waiters map[*waiter]struct{}
	over    bool
	err     error // what it ended with
}

type waiter struct{ resume func(error) }

// Messages.
type (
	open      struct{}
	completed struct{}
	retried   struct{}
	expired   struct{}
	cancelled struct{ cause error }

	look   struct{} // whether it is done elsewhere
	looked struct {
		done, last bool
		err        error
	}
)

// ID returns the elicitation's id.
func (p *Pending) ID() string { return p.id }

// Ref returns the actor that stands for it; the zero Ref until it is started.
func (p *Pending) Ref() actors.Ref {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ref
}

// Expires returns when it ends by itself; the zero time if never, or if it was over
// when it was opened.
func (p *Pending) Expires() time.Time { return p.expiry }

// Over reports whether it has ended, and with what.
func (p *Pending) Over() (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over, p.err
}

// Wait calls resume once when the elicitation is over: with nil if those who wait
// are to try again. It is called on any goroutine, on this one if the elicitation is
// over already, and must not block. Abort ends the wait without a call, unless that
// is under way.
func (p *Pending) Wait(resume func(err error)) (abort func()) {
	w := &waiter{resume}
	p.mu.Lock()
	if p.over {
		err := p.err
		p.mu.Unlock()
		resume(err)
		return func() {}
	}
	if p.waiters == nil {
		p.waiters = make(map[*waiter]struct{})
	}
	p.waiters[w] = struct{}{}
	p.mu.Unlock()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.waiters, w)
	}
}

// Retry lets those who wait try again, because a person says that the page was
// visited.
func (p *Pending) Retry() { p.tell(&retried{}) }

// Cancel gives it up: those who wait end with [ErrCancelled] and the cause.
func (p *Pending) Cancel(cause error) { p.tell(&cancelled{cause}) }

// tell sends to the actor, or keeps the message for it: the first one decides.
func (p *Pending) tell(msg any) {
	p.mu.Lock()
	ref := p.ref
	if ref.IsZero() && p.first == nil && !p.over {
		p.first = msg
	}
	p.mu.Unlock()
	ref.Send(msg)
}

// spawned takes the actor, or the reason why there is none.
func (p *Pending) spawned(ref actors.Ref, err error) {
	if err != nil {
		p.end(fmt.Errorf("%w: %w", ErrFailed, err))
		return
	}
	ref.Send(&open{})
	p.mu.Lock()
	p.ref = ref
	first := p.first
	p.first = nil
	p.mu.Unlock()
	ref.Send(first)
}

// stopped runs when the actor is gone, whatever the reason.
func (p *Pending) stopped(failure error) {
	if failure == nil {
		failure = actors.ErrStopped
	}
	p.end(fmt.Errorf("%w: %w", ErrFailed, failure))
}

// end tells those who wait. Only the first end counts.
func (p *Pending) end(err error) {
	p.mu.Lock()
	if p.over {
		p.mu.Unlock()
		return
	}
	p.over, p.err = true, err
	waiters := p.waiters
	p.waiters = nil
	p.mu.Unlock()
	p.table.forget(p)
	for w := range waiters { // all of them, whatever one does
		_, panicked := actors.Guard(func() (struct{}, error) { w.resume(err); return struct{}{}, nil })
		if panicked != nil {
			p.table.opts.Logger.Error("a waiter of an elicitation panicked", "error", panicked)
		}
	}
}

func (p *Pending) newActor() actors.Actor { return &actor{p: p} }

// actor stands for one pending elicitation.
type actor struct {
	p     *Pending
	timer *actors.Timer // of the next look; nil if there is none
}

// Receive implements [actors.Actor].
func (a *actor) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case *open:
		if !a.p.expiry.IsZero() {
			c.NewTimer(expired{}).SetAt(a.p.expiry)
		}
		if a.p.done != nil {
			a.timer = c.NewTimer(look{})
			a.timer.Set(a.p.table.opts.LookEvery)
		}
		return
	case look:
		a.look(c, false)
		return
	case looked:
		switch {
		case m.done:
			a.p.end(nil)
		case errors.Is(m.err, ErrExpired), errors.Is(m.err, ErrCancelled):
			a.p.end(m.err)
		case m.last:
			a.p.end(ErrExpired)
		default:
			a.timer.Set(a.p.table.opts.LookEvery)
			return
		}
	case *completed, *retried:
		a.p.end(nil)
	case expired:
		if a.p.done != nil {
			a.look(c, true)
			return
		}
		a.p.end(ErrExpired)
	case *cancelled:
		err := cmp.Or(m.cause, ErrCancelled)
		if !errors.Is(err, ErrCancelled) {
			err = fmt.Errorf("%w: %w", ErrCancelled, m.cause)
		}
		a.p.end(err)
	default:
		return
	}
	c.Stop()
}

// look asks whether it is done elsewhere; the last time before it expires.
func (a *actor) look(c *actors.Context, last bool) {
	actors.Await(c, a.p.done, func(done bool, err error) any { return looked{done && err == nil, last, err} })
}
