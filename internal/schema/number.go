package schema

import (
	"bytes"
	"strconv"
)

// decimal is a JSON number without loss: 0.ab × 10^exp, where a and b are its
// significant digits on both sides of the point. Zero has no digits.
type decimal struct {
	neg  bool
	a, b []byte // parts of the literal
	exp  int
}

// maxExponent keeps exponents from overflowing; beyond it a number has no value for us.
const maxExponent = 1 << 30

// parseDecimal reads a JSON number; ok is false for anything else.
func parseDecimal(lit []byte) (d decimal, ok bool) {
	if len(lit) > 0 && lit[0] == '-' {
		d.neg = true
		lit = lit[1:]
	}
	n := digits(lit)
	if n == 0 {
		return decimal{}, false
	}
	d.a, lit = lit[:n], lit[n:]
	if len(lit) > 0 && lit[0] == '.' {
		n = digits(lit[1:])
		if n == 0 {
			return decimal{}, false
		}
		d.b, lit = lit[1:1+n], lit[1+n:]
	}
	if len(lit) > 0 {
		if lit[0] != 'e' && lit[0] != 'E' {
			return decimal{}, false
		}
		if d.exp, ok = parseExponent(lit[1:]); !ok {
			return decimal{}, false
		}
	}
	d.normalize()
	return d, true
}

func parseExponent(lit []byte) (int, bool) {
	neg := false
	if len(lit) > 0 && (lit[0] == '+' || lit[0] == '-') {
		neg = lit[0] == '-'
		lit = lit[1:]
	}
	if len(lit) == 0 || digits(lit) != len(lit) {
		return 0, false
	}
	e := 0
	for _, c := range lit {
		if e = e*10 + int(c-'0'); e > maxExponent {
			return 0, false
		}
	}
	if neg {
		e = -e
	}
	return e, true
}

// normalize strips zeros on both ends and moves the point in front of the first digit.
func (d *decimal) normalize() {
	d.a = bytes.TrimLeft(d.a, "0")
	d.exp += len(d.a)
	if len(d.a) == 0 {
		n := len(d.b)
		d.b = bytes.TrimLeft(d.b, "0")
		d.exp -= n - len(d.b)
	}
	d.b = bytes.TrimRight(d.b, "0")
	if len(d.b) == 0 {
		d.a = bytes.TrimRight(d.a, "0")
	}
	if len(d.a)+len(d.b) == 0 {
		*d = decimal{}
	}
}

func digits(s []byte) int {
	for i, c := range s {
		if c < '0' || c > '9' {
			return i
		}
	}
	return len(s)
}

// integral reports whether the number has no fraction, as 1.0 and 10e-1 have none.
func (d decimal) integral() bool { return len(d.a)+len(d.b) == 0 || len(d.a)+len(d.b) <= d.exp }

// compare is -1, 0 or 1 as d is less than, equal to or greater than e.
func (d decimal) compare(e decimal) int {
	ds, es := d.sign(), e.sign()
	switch {
	case ds != es:
		return sign(ds - es)
	case ds == 0:
		return 0
	case d.exp != e.exp:
		return ds * sign(d.exp-e.exp)
	}
	for i := range max(len(d.a)+len(d.b), len(e.a)+len(e.b)) {
		if x, y := d.digit(i), e.digit(i); x != y {
			return ds * sign(int(x)-int(y))
		}
	}
	return 0
}

func (d decimal) sign() int {
	switch {
	case len(d.a)+len(d.b) == 0:
		return 0
	case d.neg:
		return -1
	}
	return 1
}

// digit returns the i-th significant digit; beyond the last there are zeros.
func (d decimal) digit(i int) byte {
	if i < len(d.a) {
		return d.a[i]
	}
	if i -= len(d.a); i < len(d.b) {
		return d.b[i]
	}
	return '0'
}

// appendKey appends a text that equal numbers share.
func (d decimal) appendKey(dst []byte) []byte {
	if d.neg {
		dst = append(dst, '-')
	}
	dst = append(append(dst, d.a...), d.b...)
	return strconv.AppendInt(append(dst, 'e'), int64(d.exp), 10)
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}

// plainInt reads an integer of up to 18 digits without exponent.
func plainInt(lit []byte) (n int64, ok bool) {
	neg := len(lit) > 0 && lit[0] == '-'
	if neg {
		lit = lit[1:]
	}
	if len(lit) == 0 || len(lit) > 18 {
		return 0, false
	}
	for _, c := range lit {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if neg {
		n = -n
	}
	return n, true
}
