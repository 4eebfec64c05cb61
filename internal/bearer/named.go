package bearer

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Named are tokens by whom they are for: NAME=TOKEN, or one TOKEN without a name.
type Named struct{ all []named }

type named struct {
	name  string // "" for none
	token Token
	text  string
}

var errName = errors.New("a name before a token has 1 to 64 letters, digits and any of - . _ @")

// ParseNamed reads tokens: one in each text, or on each line of one. Names and tokens come
// once.
func ParseNamed(texts ...string) (*Named, error) {
	n := new(Named)
	for _, text := range texts {
		for line := range strings.FieldsSeq(text) {
			name, token := "", line
			if first, rest, ok := strings.Cut(line, "="); ok && strings.Trim(rest, "=") != "" { // else it is padding
				if name, token = first, rest; !isName(name) {
					return nil, errName
				}
			}
			if err := Check(token); err != nil {
				if name != "" {
					err = fmt.Errorf("of %s: %w", name, err)
				}
				return nil, err
			}
			for _, other := range n.all {
				if other.name == name || other.text == token {
					return nil, fmt.Errorf("two tokens have the same name, or no name, or are the same: want NAME=TOKEN for each, such as alice=…")
				}
			}
			n.all = append(n.all, named{name, New(token), token})
		}
	}
	return n, nil
}

func isName(name string) bool {
	return name != "" && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool { return !allowed(r) && r != '@' || strings.ContainsRune("~+/", r) })
}

// Empty reports whether there are none. Nil has none.
func (n *Named) Empty() bool { return n == nil || len(n.all) == 0 }

// Of returns the name of the token that a request has, and whether it has one. It takes as
// long for any.
func (n *Named) Of(r *http.Request) (name string, ok bool) {
	for _, one := range n.all {
		if one.token.In(r) {
			name, ok = one.name, true
		}
	}
	return name, ok
}
