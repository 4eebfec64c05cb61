package budget

import (
	"math"
	"slices"
	"strconv"
	"sync"
)

// Account is the budget of one run with all that it starts. Make it with [New] or
// [Account.Child], and end it with [Account.Close].
type Account struct {
	root   *Account   // of the tree, which may be this one; not changed
	mu     sync.Mutex // the root's guards the fields below in all accounts of its tree: holds settle on any goroutine
	parent *Account   // nil for the root; not changed
	name   string     // not changed
	depth  int        // not changed

	limits   Limits
	made     *Limits // limits before they were raised; nil if they were not
	spent    vector  // by this account and all below, also those that are closed
	reserved vector  // likewise, and not settled
	inFlight vector  // the part of reserved that holds of turns have, see [Account.ReserveTurn]
	turns    vector  // the part of inFlight that are this account's own
	short    vector  // by how much settled calls have cost more than was held for them
	children []*Account
	closed   bool
	waiting  []*waiter // of the root: turns that wait for room, in their order
}

// New returns the account of a tree of its own. The name is for errors and reports.
func New(name string, l Limits) *Account {
	a := &Account{name: name, limits: l}
	a.root = a
	return a
}

// asMade are the limits that the account was made with.
func (a *Account) asMade() Limits {
	if a.made != nil {
		return *a.made
	}
	return a.limits
}

// Child returns an account below a: whatever it reserves and spends is reserved and
// spent of a and all above it too. The error is a [*LimitError] of depth where it
// would be too deep, or a closed account's [ErrClosed].
func (a *Account) Child(name string, l Limits) (*Account, error) {
	a.root.mu.Lock()
	defer a.root.mu.Unlock()
	if a.closed {
		return nil, ErrClosed
	}
	for up := a; up != nil; up = up.parent {
		if most := up.limits.Depth; most != 0 && a.depth+1-up.depth > max(most, 0) {
			return nil, &LimitError{Account: up.name, Limit: Depth, Max: strconv.Itoa(max(most, 0)), at: up, own: up == a, again: int64(up.asMade().Depth), missing: 1}
		}
	}
	child := &Account{root: a.root, parent: a, name: name, depth: a.depth + 1, limits: l}
	a.children = append(a.children, child)
	return child, nil
}

// Name returns the account's name.
func (a *Account) Name() string { return a.name }

// Reserve holds n of the account and of all above it, or nothing at all. The error is
// a [*LimitError], [ErrNegative] or [ErrClosed].
func (a *Account) Reserve(n Amount) (*Hold, error) {
	h := new(Hold)
	if err := a.ReserveIn(h, n); err != nil {
		return nil, err
	}
	return h, nil
}

// ReserveIn is Reserve for a hold that has its memory already, and holds nothing.
func (a *Account) ReserveIn(h *Hold, n Amount) error {
	v := n.vector()
	if v.negative() {
		return ErrNegative
	}
	a.root.mu.Lock()
	defer a.root.mu.Unlock()
	if err := a.fits(v); err != nil {
		return err
	}
	*h = Hold{account: a, held: v}
	h.reserve()
	return nil
}

// fits returns the error of an amount that cannot be reserved of the whole path.
func (a *Account) fits(v vector) error {
	if a.closed {
		return ErrClosed
	}
	for up := a; up != nil; up = up.parent {
		free := up.free()
		for i, n := range v.at(up == a) {
			if n > free[i] {
				return &LimitError{Account: up.name, Limit: names[i], Max: format(i, max(0, up.limits.vector()[i])),
					at: up, own: up == a, again: up.asMade().vector()[i], missing: n - free[i], wanted: n}
			}
		}
	}
	return nil
}

// free is how much can be reserved of this account alone. Without a limit that is
// what still can be counted.
func (a *Account) free() vector {
	most := a.limits.vector()
	for i, limit := range most {
		if limit == 0 {
			most[i] = math.MaxInt
		}
	}
	return most.positive().less(a.spent).less(a.reserved)
}

// unreserve gives back what the account itself holds, and how much of it turns have.
func (a *Account) unreserve(v, turns vector) {
	a.turns = a.turns.less(turns)
	for up := a; up != nil; up = up.parent {
		up.reserved = up.reserved.less(v.at(up == a))
		up.inFlight = up.inFlight.less(turns.at(up == a))
	}
}

// charge counts what was spent, and what of it nothing was held for.
func (a *Account) charge(spent, held vector) {
	for up := a; up != nil; up = up.parent {
		part := spent.at(up == a)
		up.spent = up.spent.plus(part)
		up.short = up.short.plus(part.less(held))
	}
}

// Left returns how much can still be reserved: the least of the path, and
// [Unlimited] where no account of it has a limit.
func (a *Account) Left() Amount {
	a.root.mu.Lock()
	defer a.root.mu.Unlock()
	return a.left(false).amount()
}

// left counts the holds of turns of other runs as free with withoutOthers.
func (a *Account) left(withoutOthers bool) vector {
	if a.closed {
		return vector{}
	}
	left := vector{Unlimited, Unlimited, Unlimited, Unlimited, Unlimited}
	var own vector // what turns of the path so far hold
	for up := a; up != nil; up = up.parent {
		free := up.free()
		if own = own.plus(up.turns); withoutOthers {
			free = free.plus(up.inFlight.less(own).positive())
		}
		for i, limit := range up.limits.vector() {
			if limit != 0 && (i != steps || up == a) {
				left[i] = min(left[i], free[i])
			}
		}
	}
	return left
}

// Raise allows the account so much more. What has no limit gets none, and nothing is
// lowered. The accounts above keep theirs.
func (a *Account) Raise(add Limits) {
	defer a.root.wake()
	a.root.mu.Lock()
	defer a.root.mu.Unlock()
	made := a.asMade()
	a.made = &made
	l, more := a.limits.vector(), add.vector()
	for i := range l {
		l[i] = raised(l[i], more[i])
	}
	n := l.amount()
	a.limits = Limits{n.Tokens, n.Cost, n.ModelCalls, n.ToolCalls, n.Steps, int(raised(int64(a.limits.Depth), int64(add.Depth)))}
}

func raised(limit, more int64) int64 {
	if limit == 0 || more <= 0 {
		return limit
	}
	return addUp(max(limit, 0), more)
}

// Restore counts what was spent before the account was made. The accounts above have it already
// if counted is true.
func (a *Account) Restore(spent Amount, counted bool) {
	a.root.mu.Lock()
	defer a.root.mu.Unlock()
	if counted {
		a.spent = a.spent.plus(spent.vector())
		return
	}
	a.charge(spent.vector(), spent.vector())
}

// Close ends the account and all below it: what they still hold is given back, also
// to the accounts above, and nothing more can be reserved. What they have spent
// remains charged. A hold of a closed account that is settled all the same is charged
// too, as something nothing was held for. Close may be called again.
func (a *Account) Close() {
	defer a.root.wake()
	a.root.mu.Lock()
	defer a.root.mu.Unlock()
	a.close()
	if p := a.parent; p != nil {
		p.children = slices.DeleteFunc(p.children, func(c *Account) bool { return c == a })
	}
}

func (a *Account) close() {
	for _, c := range a.children {
		c.close()
	}
	a.children = nil
	a.closed = true
	a.unreserve(a.reserved, a.turns) // what is left of it are the account's own holds
}
