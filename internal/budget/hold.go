package budget

import "errors"

// ErrClosed is returned for an account that was closed.
var ErrClosed = errors.New("the account is closed")

// errSettled is returned for a hold that does not hold any more.
var errSettled = errors.New("the reservation was settled or released")

// Hold is a reservation. The first of [Hold.Settle] and [Hold.Release] counts, all
// later ones do nothing.
type Hold struct {
	account *Account
	turn    bool   // of a turn; not changed
	held    vector // guarded by the tree's mutex, like done
	done    bool
}

// Amount returns the amount that is held; none once it is settled or released.
func (h *Hold) Amount() Amount {
	h.account.root.mu.Lock()
	defer h.account.root.mu.Unlock()
	if h.done || h.account.closed {
		return Amount{}
	}
	return h.held.amount()
}

// Settle charges what was spent and gives back the rest. It may be more than was held:
// the error of the estimate is charged too, see [Report]. What is below zero counts as
// nothing.
func (h *Hold) Settle(spent Amount) {
	defer h.account.root.wake()
	h.account.root.mu.Lock()
	defer h.account.root.mu.Unlock()
	if held, ok := h.end(); ok {
		h.account.charge(spent.vector().positive(), held)
	}
}

// Release gives back all that was held. A nil Hold holds nothing.
func (h *Hold) Release() {
	if h == nil {
		return
	}
	defer h.account.root.wake()
	h.account.root.mu.Lock()
	defer h.account.root.mu.Unlock()
	h.end()
}

// end gives back the reservation, once, and returns its amount. A closed account has
// given it back already.
func (h *Hold) end() (held vector, ok bool) {
	if h.done {
		return vector{}, false
	}
	h.done = true
	if h.account.closed {
		return vector{}, true
	}
	h.unreserve()
	return h.held, true
}

// reserve counts the hold in its account and all above it.
func (h *Hold) reserve() {
	a, turns := h.account, h.turns()
	a.turns = a.turns.plus(turns)
	for up := a; up != nil; up = up.parent {
		up.reserved = up.reserved.plus(h.held.at(up == a))
		up.inFlight = up.inFlight.plus(turns.at(up == a))
	}
}

func (h *Hold) unreserve() { h.account.unreserve(h.held, h.turns()) }

// turns is the part of the hold that is of a turn in flight.
func (h *Hold) turns() vector {
	if !h.turn {
		return vector{}
	}
	return h.held
}

// Resize changes the amount that is held, to more or to less, or leaves it as it is with the
// error of [Account.Reserve].
func (h *Hold) Resize(n Amount) error {
	v := n.vector()
	if v.negative() {
		return ErrNegative
	}
	a := h.account
	a.root.mu.Lock()
	defer a.root.mu.Unlock()
	switch {
	case h.done:
		return errSettled
	case a.closed:
		return ErrClosed
	}
	h.unreserve()
	err := a.fits(v)
	if err == nil {
		h.held = v
	}
	h.reserve() // the lock is held: no other hold could take it meanwhile
	return err
}
