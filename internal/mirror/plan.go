package mirror

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Prefix is what the name of each mirrored parameter begins with (HDR-20).
const Prefix = "Mcp-Param-"

// Plan is what a server checks of the calls of one tool, derived once from its input
// schema. The zero value checks nothing.
type Plan struct{ params []planned }

type planned struct {
	Param
	key string // of http.Header
}

// NewPlan derives a plan. The error wraps [ErrAnnotation] if clients would have to
// leave the tool out (HDR-22).
func NewPlan(schema json.RawMessage) (Plan, error) {
	params, err := Params(schema)
	if err != nil || len(params) == 0 {
		return Plan{}, err
	}
	p := Plan{params: make([]planned, len(params))}
	for i := range params {
		p.params[i] = planned{params[i], http.CanonicalHeaderKey(Prefix + params[i].Header)}
	}
	return p, nil
}

// Empty reports whether there is nothing to check.
func (p Plan) Empty() bool { return len(p.params) == 0 }

// MismatchError is a header that does not say what the body says (HDR-05). Neither
// value is told: they may be private.
type MismatchError struct {
	Header string
	Why    string
}

func (e *MismatchError) Error() string { return fmt.Sprintf("the header %s %s", e.Header, e.Why) }

// Check compares the headers of a call with its arguments, a JSON object or empty
// (HDR-24). Headers that the tool does not name are ignored. The error is
// a [*MismatchError].
func (p Plan) Check(h http.Header, args json.RawMessage) error {
	for i := range p.params {
		if why := p.params[i].check(h, args); why != "" {
			return &MismatchError{p.params[i].key, why}
		}
	}
	return nil
}

func (p *planned) check(h http.Header, args json.RawMessage) (why string) {
	raw, err := p.find(args)
	if err != nil {
		return "repeats an argument of what is no object"
	}
	want, present, why := text(raw)
	if why != "" {
		return "repeats an argument that no header can hold: " + why
	}
	return Compare(h[p.key], want, present, present && raw[0] != '"' && raw[0] != 't' && raw[0] != 'f')
}

// Compare says what is wrong with the values of a header that is to repeat want, or
// to be absent; "" if nothing is. A numeric value may be written otherwise (HDR-24).
func Compare(values []string, want string, present, numeric bool) (why string) {
	switch {
	case len(values) == 0 && present:
		return "is missing"
	case len(values) == 0:
		return ""
	case !present:
		return "repeats what the body does not have"
	case len(values) > 1:
		return "is there more than once"
	}
	got, err := Decode(strings.Trim(values[0], " \t")) // HDR-04, HDR-12
	if err != nil {
		return "holds characters that are not valid, or is wrongly encoded"
	}
	if got == want {
		return ""
	}
	if n, ok := decimal(got); numeric && ok {
		if m, ok := integer(want); ok && m == n {
			return ""
		}
	}
	return "does not match the body"
}

// decimal is integer for what a header says: written as a JSON number is.
func decimal(s string) (int64, bool) {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && strings.IndexByte("+-.eE", c) < 0 {
			return 0, false // ParseFloat takes more than that
		}
	}
	return integer(s)
}
