package watch

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
)

// Task is the handle of a watched task. Its methods may be used from any goroutine.
type Task struct {
	tasks      *Tasks
	generation Generation
	id         string
	tag        any
	ref        atomic.Pointer[actors.Ref] // nil before it is started

	mu      sync.Mutex
	state   State
	known   bool  // state was told by the peer
	early   []any // messages before there is an actor
	waiters map[*Waiter]struct{}
	over    bool
	outcome call.Outcome // once over
	held    int
	since   time.Time // it was held first
}

// Waiter waits for a task.
type Waiter struct {
	// Limit ends the wait after so long, with Timeout as its outcome. Zero is none.
	// While the task is held it stands still.
	Limit   time.Duration
	Timeout error
	// Owner says that no other waiter has a use for the task: when this waiter leaves
	// or runs out of time, the task is cancelled.
	Owner bool
	// Kept, set before it leaves, leaves the task to go on all the same: another process waits for it.
	Kept atomic.Bool
	// Resume gets the outcome, once, unless the waiter leaves before. It must not block.
	Resume func(call.Outcome)

	due time.Time // zero without a limit
}

// ID returns the peer's id of the task.
func (t *Task) ID() string { return t.id }

// Tag returns what [Tasks.Watch] was given.
func (t *Task) Tag() any { return t.tag }

// Generation returns which design the task belongs to.
func (t *Task) Generation() Generation { return t.generation }

// Ref returns the actor.
func (t *Task) Ref() actors.Ref {
	if ref := t.ref.Load(); ref != nil {
		return *ref
	}
	return actors.Ref{}
}

// State returns what is known of the task, false if that is nothing.
func (t *Task) State() (State, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state, t.known
}

// Outcome returns what the task has ended with, false if it has not.
func (t *Task) Outcome() (call.Outcome, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.outcome, t.over
}

// Wait lets w wait for the task, until leave is called. A waiter is used once.
func (t *Task) Wait(w *Waiter) (leave func()) {
	t.mu.Lock()
	if t.over {
		out := t.outcome
		t.mu.Unlock()
		w.Resume(out)
		return func() {}
	}
	if w.Limit > 0 {
		w.due = time.Now().Add(w.Limit)
		if t.held > 0 { // so that the release, which adds it all, does not add too much
			w.due = t.since.Add(w.Limit)
		}
	}
	t.waiters[w] = struct{}{}
	t.mu.Unlock()
	t.send(wanted{})
	return func() {
		if t.drop(w) {
			t.send(&left{owner: w.Owner && !w.Kept.Load()})
		}
	}
}

// Hold lets the limits of those who wait stand still: a person is asked on the
// task's behalf. It may be called several times; each release counts once.
func (t *Task) Hold() (release func()) {
	t.mu.Lock()
	if t.held++; t.held == 1 {
		t.since = time.Now()
	}
	t.mu.Unlock()
	return sync.OnceFunc(func() {
		t.mu.Lock()
		if t.held--; t.held == 0 {
			for w := range t.waiters {
				if !w.due.IsZero() {
					w.due = w.due.Add(time.Since(t.since))
				}
			}
		}
		t.mu.Unlock()
		t.send(limitDue{})
	})
}

// Poke asks for the task's state as soon as that is allowed, if there is a waiter.
func (t *Task) Poke() { t.send(&noticed{State{ID: t.id}}) }

// maxEarly bounds the messages before there is an actor: of notices there may be more.
const maxEarly = 64

// send sends to the actor, or keeps the message for it.
func (t *Task) send(msg any) {
	t.mu.Lock()
	ref := t.Ref()
	if ref.IsZero() && !t.over && len(t.early) < maxEarly {
		t.early = append(t.early, msg)
	}
	t.mu.Unlock()
	ref.Send(msg)
}

// attach makes the actor known, and gives it what came before.
func (t *Task) attach(ref actors.Ref) {
	t.mu.Lock()
	t.ref.Store(&ref)
	early := t.early
	t.early = nil
	t.mu.Unlock()
	for _, msg := range early {
		ref.Send(msg)
	}
}

// idle reports whether there is no waiter.
func (t *Task) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiters) == 0
}

func (t *Task) drop(w *Waiter) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, there := t.waiters[w]
	delete(t.waiters, w)
	return there
}

func (t *Task) learn(s State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state, t.known = s, true
}

// expired takes out those whose time is up, and returns when the next one's is;
// zero if that is not known, as no waiter has a limit or the task is held.
func (t *Task) expired(now time.Time) (out []*Waiter, next time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held > 0 {
		return nil, time.Time{}
	}
	for w := range t.waiters {
		switch {
		case w.due.IsZero():
		case !now.Before(w.due):
			out = append(out, w)
			delete(t.waiters, w)
		case next.IsZero() || w.due.Before(next):
			next = w.due
		}
	}
	return out, next
}

// finish gives the outcome to all who wait, once.
func (t *Task) finish(out call.Outcome) {
	t.tasks.remove(t)
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return
	}
	t.over, t.outcome = true, out
	waiters := t.waiters
	t.waiters = nil
	t.mu.Unlock()
	for w := range waiters {
		w.Resume(out)
	}
}

// stopped answers for the actor when it is gone, for whatever reason.
func (t *Task) stopped(failure error) {
	err := fmt.Errorf("task %s: %w", t.id, ErrFailed)
	if failure != nil {
		err = fmt.Errorf("task %s: %w: %w", t.id, ErrFailed, failure)
	}
	t.finish(call.Outcome{Err: err})
}
