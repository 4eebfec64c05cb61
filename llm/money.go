package llm

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Money is an amount in billionths of whatever currency the user's prices are in. Its
// zero value is nothing.
type Money int64

// Unit is one whole unit of the currency.
const Unit Money = 1_000_000_000

// ParseMoney reads a decimal such as "0.25", with at most nine digits behind the point
// and no sign.
func ParseMoney(s string) (Money, error) {
	whole, rest, _ := strings.Cut(s, ".")
	if whole == "" || len(rest) > 9 || strings.Trim(whole+rest, "0123456789") != "" || strings.HasSuffix(s, ".") {
		return 0, fmt.Errorf("%.40q is not an amount of money: want digits with at most nine behind a point, such as 0.25", s)
	}
	n, err := strconv.ParseInt(whole+rest+strings.Repeat("0", 9-len(rest)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q is too much money", s)
	}
	return Money(n), nil
}

// String writes the amount with a point and at least two digits behind it.
func (m Money) String() string {
	sign := ""
	n := uint64(m)
	if m < 0 {
		sign, n = "-", -n
	}
	rest := strings.TrimRight(fmt.Sprintf("%09d", n%uint64(Unit)), "0")
	for len(rest) < 2 {
		rest += "0"
	}
	return sign + strconv.FormatUint(n/uint64(Unit), 10) + "." + rest
}

// MarshalText implements [encoding.TextMarshaler].
func (m Money) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (m *Money) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMoney(string(text))
	return err
}

// Price is what a model costs, for a million tokens each. The user states it: no server
// else's list is trusted.
type Price struct {
	Input  Money `json:"in"`
	Output Money `json:"out"`
}

// Of returns what so many tokens cost, rounded up. What is beyond the range of Money
// is its largest value.
func (p Price) Of(input, output int) Money {
	return addMoney(perMillion(input, p.Input), perMillion(output, p.Output))
}

// perMillion is n times price by a million.
func perMillion(n int, price Money) Money {
	if n <= 0 || price <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(n), uint64(price))
	lo, carry := bits.Add64(lo, 999_999, 0)
	if hi += carry; hi >= 1_000_000 {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, 1_000_000)
	return Money(min(q, math.MaxInt64))
}

func addMoney(a, b Money) Money {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
