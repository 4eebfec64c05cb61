package budget

import (
	"cmp"

	"github.com/troupe-dev/troupe/llm"
)

// DefaultOutput bounds the output of a turn under a limit of tokens or money, in
// tokens, where the request has no bound of its own.
const DefaultOutput = 8192

// Turn is one question to a model that is to be reserved.
type Turn struct {
	Input  int // tokens, estimated: see [llm.EstimateTokens]
	Output int // most tokens of output; zero means [DefaultOutput] where there is a limit
	// Least is the smallest bound of output that makes the turn worth while. Zero
	// means one token.
	Least int
	Price llm.Price // the dearest of the models that may answer; zero costs nothing
	Steps int       // one for a turn of the account's own run, else zero
}

// Amount returns the cost of a turn with so many tokens of output.
func (t Turn) Amount(output int) Amount {
	return Amount{Tokens: int(addUp(int64(t.Input), int64(output))), Cost: t.Price.Of(t.Input, output), ModelCalls: 1, Steps: t.Steps}
}

// ReserveTurn holds a turn at its most, and returns the bound of its output that makes
// it the most: Output, or what is left if that is less. Without any limit of tokens or
// money the bound is Output as it is, and may be zero for none.
func (a *Account) ReserveTurn(t Turn) (h *Hold, output int, err error) {
	h = new(Hold)
	if output, err = a.ReserveTurnIn(h, t); err != nil {
		return nil, 0, err
	}
	return h, output, nil
}

// ReserveTurnIn is ReserveTurn for a hold that has its memory already, and holds nothing.
func (a *Account) ReserveTurnIn(h *Hold, t Turn) (output int, err error) {
	if t.Input < 0 || t.Output < 0 || t.Steps < 0 {
		return 0, ErrNegative
	}
	a.root.mu.Lock()
	defer a.root.mu.Unlock()
	room, bounded := roomIn(a.left(false), t)
	output = min(cmp.Or(t.Output, DefaultOutput), room)
	least := max(1, min(t.Least, cmp.Or(t.Output, DefaultOutput)))
	n := t.Amount(max(output, least)).vector()
	if err := a.fits(n); err != nil {
		return 0, err
	}
	*h = Hold{account: a, turn: true, held: n}
	h.reserve()
	if !bounded {
		output = t.Output
	}
	return output, nil
}

// Room returns how many tokens of output a turn could have now, and whether tokens or
// money are limited at all.
func (a *Account) Room(t Turn) (output int, bounded bool) {
	a.root.mu.Lock()
	defer a.root.mu.Unlock()
	return roomIn(a.left(false), t)
}

// roomIn is how many tokens of output a turn could have of the rest.
func roomIn(v vector, t Turn) (output int, bounded bool) {
	left := v.amount()
	output = Unlimited
	if left.Tokens != Unlimited {
		output, bounded = max(0, left.Tokens-t.Input), true
	}
	if left.Cost != Unlimited {
		output, bounded = min(output, affordable(left.Cost, t)), true
	}
	return output, bounded
}

// affordable is the most output that money buys, beside the input.
func affordable(money llm.Money, t Turn) int {
	if t.Price.Of(t.Input, 0) > money {
		return 0
	}
	// The price rounds up in two places, so that the bound is searched for.
	low, high := 0, Unlimited/2
	for low < high {
		mid := low + (high-low+1)/2
		if t.Price.Of(t.Input, mid) <= money {
			low = mid
		} else {
			high = mid - 1
		}
	}
	if low == Unlimited/2 { // output is for nothing
		return Unlimited
	}
	return low
}
