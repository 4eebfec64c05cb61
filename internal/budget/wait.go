// wait.go: a turn waits for amounts that turns of other runs of the tree hold and do not need.
//
// A turn is held at its most, and usually costs far less. Without waiting the first of
// several sub-agents would hold all that is left of a limit, and the others would fail,
// or have their answers cut, although there is room once the first has settled.

package budget

import (
	"cmp"
	"slices"
)

// waiter is a turn that waits for room. Its address is its identity.
type waiter struct{ wake func() }

// WaitForRoom reports whether turn t should wait: the tree has less than t asks for, and
// would have more without the turns of other runs that are in flight. It then calls wake
// once, on any goroutine, as soon as something is given back; the caller asks again
// after that. Stop withdraws the call, and may come too late. Wake must not block.
//
// The wait is bounded: turns in flight end by themselves and wait for no reservation.
// Turns of the runs above a do not count, since they may wait for a.
func (a *Account) WaitForRoom(t Turn, wake func()) (stop func(), waits bool) {
	root := a.root
	root.mu.Lock()
	defer root.mu.Unlock()
	if !a.mustWait(t) {
		return nil, false
	}
	w := &waiter{wake}
	root.waiting = append(root.waiting, w)
	return func() {
		root.mu.Lock()
		defer root.mu.Unlock()
		root.waiting = slices.DeleteFunc(root.waiting, func(other *waiter) bool { return other == w })
	}, true
}

// MustWait reports what WaitForRoom would.
func (a *Account) MustWait(t Turn) bool {
	a.root.mu.Lock()
	defer a.root.mu.Unlock()
	return a.mustWait(t)
}

// mustWait is called under the lock.
func (a *Account) mustWait(t Turn) bool {
	now, _ := roomIn(a.left(false), t)
	if now >= cmp.Or(t.Output, DefaultOutput) {
		return false
	}
	without, _ := roomIn(a.left(true), t)
	return now < without
}

// wake has the waiting turns of the tree ask again, in their order. It is called on the
// root, without the lock.
func (a *Account) wake() {
	a.mu.Lock()
	waiting := a.waiting
	a.waiting = nil
	a.mu.Unlock()
	for _, w := range waiting {
		w.wake()
	}
}
