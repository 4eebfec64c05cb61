package budget

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/troupe-dev/troupe/llm"
)

// Unlimited is what [Account.Left] says of a quantity that no account of the path
// limits.
const Unlimited = math.MaxInt

// ErrNegative is returned for an amount below zero.
var ErrNegative = errors.New("a negative amount cannot be reserved")

// Amount is something to reserve, or that was spent. Its zero value is nothing.
type Amount struct {
	Tokens     int       `json:"tokens,omitzero"` // input and output
	Cost       llm.Money `json:"cost,omitzero"`
	ModelCalls int       `json:"modelCalls,omitzero"`
	ToolCalls  int       `json:"toolCalls,omitzero"`
	// Steps are turns of the account's own run. Unlike all others they are not
	// reserved of its ancestors: a limit of steps is one run's, and what bounds those
	// of a tree is ModelCalls.
	Steps int `json:"steps,omitzero"`
}

// Limits bounds an account. A zero is no limit, and a negative one allows nothing.
type Limits struct {
	Tokens     int       `json:"tokens,omitzero"`
	Cost       llm.Money `json:"cost,omitzero"`
	ModelCalls int       `json:"modelCalls,omitzero"`
	ToolCalls  int       `json:"toolCalls,omitzero"`
	Steps      int       `json:"steps,omitzero"`
	// Depth is how many levels of accounts may be below.
	Depth int `json:"depth,omitzero"`
}

// Names of limits, as in [LimitError].
const (
	Tokens     = "tokens"
	Cost       = "cost"
	ModelCalls = "model calls"
	ToolCalls  = "tool calls"
	Steps      = "steps"
	Depth      = "depth"
	WallTime   = "wall time" // not an account's: its run has a timer
	Repeats    = "repeats"   // likewise: its run counts how often it comes to the same
)

// LimitError names the limit that a reservation would exceed.
type LimitError struct {
	Account string // the name of the account that has the limit
	Limit   string // "tokens", "cost", "model calls", "tool calls", "steps", "depth", "wall time" or "repeats"
	Max     string

	at      *Account
	own     bool  // it is the limit of the account that was asked
	again   int64 // the limit as it was made
	missing int64 // how much more it would have taken
	wanted  int64 // the amount that was to be reserved
}

func (e *LimitError) Error() string {
	text := "the run has reached its limit: " + e.Max + " " + e.Limit
	switch e.Limit {
	case Cost:
		text = "the run has reached its limit: a cost of " + e.Max
	case Depth:
		text = "the run has reached its limit: a depth of " + e.Max
	case Repeats:
		text = "the model has repeated itself " + e.Max + " times in a row, though it was told"
	}
	if e.at != nil && !e.own && e.Account != "" {
		text += ", that of " + e.Account
	}
	switch {
	case e.at == nil: // wall time, repeats
	case e.Limit == Cost: // a run may end with most of it left, and should say why
		text += fmt.Sprintf(" (what comes next may cost %s, and %s is left)", format(cost, e.wanted), format(cost, e.left()))
	case e.Limit == Tokens:
		text += fmt.Sprintf(" (what comes next may take %d, and %d are left)", e.wanted, e.left())
	}
	return text
}

// left is the amount that could still have been reserved.
func (e *LimitError) left() int64 { return max(0, e.wanted-e.missing) }

// At returns the account whose limit it is, nil for none, such as of wall time.
func (e *LimitError) At() *Account { return e.at }

// More returns the limits that [Account.Raise] takes to allow amount more of what has
// run out. The amount is written as in Max. An empty one is as much as the account was
// made with, or what the reservation lacked if that is more; it must be above zero.
func (e *LimitError) More(amount string) (Limits, error) {
	var n int64
	var err error
	switch {
	case amount == "":
		n = max(e.again, e.missing)
	case e.Limit == Cost:
		var m llm.Money
		m, err = llm.ParseMoney(amount)
		n = int64(m)
	default:
		n, err = strconv.ParseInt(amount, 10, strconv.IntSize)
	}
	if err != nil || n <= 0 {
		return Limits{}, fmt.Errorf("%.40q is no amount of %s to allow more", amount, e.Limit)
	}
	var l Limits
	switch e.Limit {
	case Tokens:
		l.Tokens = int(n)
	case Cost:
		l.Cost = llm.Money(n)
	case ModelCalls:
		l.ModelCalls = int(n)
	case ToolCalls:
		l.ToolCalls = int(n)
	case Steps:
		l.Steps = int(n)
	case Depth:
		l.Depth = int(n)
	default:
		return Limits{}, fmt.Errorf("there is no account that has a limit of %s", e.Limit)
	}
	return l, nil
}

// Default returns the amount that [LimitError.More] allows where none is named.
func (e *LimitError) Default() (string, error) {
	l, err := e.More("")
	if err != nil {
		return "", err
	}
	if e.Limit == Depth {
		return strconv.Itoa(l.Depth), nil
	}
	return e.Format(l.vector().amount()), nil
}

// Format writes the part of an amount that the limit is of, as in Max.
func (e *LimitError) Format(n Amount) string {
	for i, name := range names {
		if name == e.Limit {
			return format(i, n.vector()[i])
		}
	}
	return ""
}

// vector is an amount, or the limits of one, with its parts in a fixed order.
type vector [5]int64

// names are those of the parts.
var names = [len(vector{})]string{Tokens, Cost, ModelCalls, ToolCalls, Steps}

// Places of parts that are not like the others.
const (
	tokens = 0
	cost   = 1
	steps  = 4
)

// Plus returns the sum of two amounts.
func (n Amount) Plus(m Amount) Amount { return n.vector().plus(m.vector()).amount() }

// Beyond returns what n is more than m.
func (n Amount) Beyond(m Amount) Amount {
	v := n.vector()
	for i, less := range m.vector() {
		v[i] = max(v[i]-less, 0)
	}
	return v.amount()
}

func (n Amount) vector() vector {
	return vector{int64(n.Tokens), int64(n.Cost), int64(n.ModelCalls), int64(n.ToolCalls), int64(n.Steps)}
}

func (l Limits) vector() vector {
	return Amount{l.Tokens, l.Cost, l.ModelCalls, l.ToolCalls, l.Steps}.vector()
}

func (v vector) amount() Amount {
	return Amount{Tokens: int(v[tokens]), Cost: llm.Money(v[cost]), ModelCalls: int(v[2]), ToolCalls: int(v[3]), Steps: int(v[steps])}
}

// format writes one part.
func format(part int, n int64) string {
	if part == cost {
		return llm.Money(n).String()
	}
	return strconv.FormatInt(n, 10)
}

func (v vector) negative() bool { return slices.Min(v[:]) < 0 }

// plus adds, and stays at the largest value where the sum would be beyond it.
func (v vector) plus(w vector) vector {
	for i := range v {
		v[i] = addUp(v[i], w[i])
	}
	return v
}

// less subtracts, and stays at zero.
func (v vector) less(w vector) vector {
	for i := range v {
		v[i] -= min(v[i], w[i])
	}
	return v
}

// positive is the amount with zero in place of negative parts.
func (v vector) positive() vector {
	for i := range v {
		v[i] = max(v[i], 0)
	}
	return v
}

// at is the part of an amount that an account of the path has to bear.
func (v vector) at(own bool) vector {
	if !own {
		v[steps] = 0
	}
	return v
}

// addUp adds numbers that are not negative.
func addUp(a, b int64) int64 {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}
