// Package uritemplate expands and matches URI templates of RFC 6570, all four
// levels, within bounds: templates and URIs come from peers (SECA-10).
//
// It takes the place of github.com/yosida95/uritemplate, against which it is tested:
// that one writes characters beyond ASCII by their number instead of their UTF-8, has
// no bounds, and takes time and memory with the square of the URI's length to match
// an exploded variable.
package uritemplate

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// Bounds.
const (
	MaxTemplate = 4 << 10  // bytes of a template
	MaxURI      = 16 << 10 // bytes of a URI, made or matched
	maxParts    = 32       // expressions of a template
	maxVars     = 64       // variables of a template
	maxWork     = 64 << 10 // bytes of a URI to match times expressions
)

// ErrTooLong is a template, a value or a URI beyond a bound.
var ErrTooLong = errors.New("beyond the bounds of URI templates")

// Template is a parsed template. It may be used from any goroutine.
type Template struct {
	parts   []part
	pattern func() *regexp.Regexp // made when it is first needed
}

// part is a literal, already encoded, or an expression.
type part struct {
	literal string
	op      *operator // nil for a literal
	vars    []variable
}

type variable struct {
	name    string
	prefix  int // characters; 0 is all
	explode bool
}

// operator is a row of the table in RFC 6570, appendix A.
type operator struct {
	first, sep string
	named      bool
	ifEmpty    string // behind the name of an empty value
	reserved   bool   // reserved characters stay
}

var (
	simple    = &operator{sep: ","}
	operators = map[byte]*operator{
		'+': {sep: ",", reserved: true},
		'#': {first: "#", sep: ",", reserved: true},
		'.': {first: ".", sep: "."},
		'/': {first: "/", sep: "/"},
		';': {first: ";", sep: ";", named: true},
		'?': {first: "?", sep: "&", named: true, ifEmpty: "="},
		'&': {first: "&", sep: "&", named: true, ifEmpty: "="},
	}
)

// Parse reads a template.
func Parse(template string) (*Template, error) {
	if len(template) > MaxTemplate {
		return nil, fmt.Errorf("a URI template of %d bytes: %w", len(template), ErrTooLong)
	}
	if !utf8.ValidString(template) {
		return nil, errors.New("the URI template is not valid UTF-8")
	}
	t := new(Template)
	expressions, vars := 0, 0
	for rest := template; rest != ""; {
		i := strings.IndexAny(rest, "{}")
		if i < 0 {
			i = len(rest)
		}
		if i > 0 {
			literal, err := parseLiteral(rest[:i])
			if err != nil {
				return nil, err
			}
			t.parts = append(t.parts, part{literal: literal})
			rest = rest[i:]
			continue
		}
		end := strings.IndexByte(rest, '}')
		if rest[0] == '}' || end < 0 {
			return nil, fmt.Errorf("the URI template %.100q has a brace without its other", template)
		}
		p, err := parseExpression(rest[1:end])
		if err != nil {
			return nil, err
		}
		t.parts = append(t.parts, p)
		expressions++
		vars += len(p.vars)
		rest = rest[end+1:]
	}
	if expressions > maxParts || vars > maxVars {
		return nil, fmt.Errorf("%d expressions with %d variables: %w", expressions, vars, ErrTooLong)
	}
	t.pattern = sync.OnceValue(t.compile)
	return t, nil
}

// parseLiteral encodes the characters that a URI cannot hold (RFC 6570, 3.1).
func parseLiteral(s string) (string, error) {
	for i := range len(s) {
		switch c := s[i]; {
		case c == '%':
			if !isTriplet(s[i:]) {
				return "", fmt.Errorf("the URI template has a %% that encodes nothing: %.100q", s)
			}
		case c <= ' ' || c == 0x7f || strings.IndexByte("\"'<>\\^`|", c) >= 0 && c != '\'':
			return "", fmt.Errorf("the URI template has a character that no URI may have: %.100q", s)
		}
	}
	return string(appendEncoded(nil, s, true)), nil
}

func parseExpression(s string) (part, error) {
	p := part{op: simple}
	if s != "" {
		if op := operators[s[0]]; op != nil {
			p.op, s = op, s[1:]
		}
	}
	for spec := range strings.SplitSeq(s, ",") {
		v := variable{name: spec}
		if name, ok := strings.CutSuffix(spec, "*"); ok {
			v.name, v.explode = name, true
		} else if name, length, ok := strings.Cut(spec, ":"); ok {
			n, err := strconv.Atoi(length)
			if err != nil || n < 1 || n > 9999 || length[0] == '+' || length[0] == '0' {
				return p, fmt.Errorf("the URI template has the length %.20q: want 1 to 9999", length)
			}
			v.name, v.prefix = name, n
		}
		if !isName(v.name) {
			return p, fmt.Errorf("the URI template has an expression {%.100s} with a name that is none", s)
		}
		p.vars = append(p.vars, v)
	}
	return p, nil
}

// isName reports whether s is a varname: letters, digits, underscores and triplets,
// with single dots between them.
func isName(s string) bool {
	dot := true // one must not be first
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '.' && !dot:
			dot = true
			continue
		case c == '%' && isTriplet(s[i:]):
			i += 2
		case !isAlnum(c) && c != '_':
			return false
		}
		dot = false
	}
	return !dot
}

// Names returns the names of the variables, each once, in their order.
func (t *Template) Names() []string {
	var names []string
	seen := map[string]bool{}
	for _, p := range t.parts {
		for _, v := range p.vars {
			if !seen[v.name] {
				seen[v.name] = true
				names = append(names, v.name)
			}
		}
	}
	return names
}

func isAlnum(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' }

func isTriplet(s string) bool { return len(s) >= 3 && s[0] == '%' && isHex(s[1]) && isHex(s[2]) }

// appendEncoded appends s with what is not unreserved as its UTF-8 in percent
// triplets. With reserved, reserved characters and triplets stay.
func appendEncoded(dst []byte, s string, reserved bool) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	for i := range len(s) {
		c := s[i]
		if isUnreserved(c) || reserved && (strings.IndexByte(reservedChars, c) >= 0 || isTriplet(s[i:])) {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return dst
}

const hexDigits = "0123456789ABCDEF"

func isUnreserved(c byte) bool {
	return isAlnum(c) || c == '-' || c == '.' || c == '_' || c == '~'
}

const reservedChars = ":/?#[]@!$&'()*+,;="

// compile makes an expression that has a group for each part that is one.
func (t *Template) compile() *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`^`)
	for _, p := range t.parts {
		if p.op == nil {
			b.WriteString(regexp.QuoteMeta(p.literal))
			continue
		}
		b.WriteString("(?:" + regexp.QuoteMeta(p.op.first) + "(" + p.class() + p.times() + "))?")
	}
	b.WriteString(`$`)
	return regexp.MustCompile(b.String())
}

// class is what the values of an expression, and what stands between them, are made of.
func (p *part) class() string {
	chars := `A-Za-z0-9\-._~,`
	if p.op.reserved {
		chars += `:/?#\[\]@!$&'()*+;=`
	} else {
		if p.op.named || p.explodes() {
			chars += "="
		}
		if len(p.vars) > 1 || p.explodes() {
			chars += p.op.sep
		}
	}
	return "(?:[" + chars + "]|%[0-9A-Fa-f]{2})"
}

func (p *part) explodes() bool {
	for _, v := range p.vars {
		if v.explode {
			return true
		}
	}
	return false
}

// shortPrefix is how long a prefix may be that is part of the pattern: repetition
// makes the pattern longer. Longer ones are looked at afterwards.
const shortPrefix = 64

func (p *part) times() string {
	if n := p.vars[0].prefix; n > 0 && n <= shortPrefix && len(p.vars) == 1 && !p.op.named {
		return "{0," + strconv.Itoa(n) + "}"
	}
	return "*"
}
