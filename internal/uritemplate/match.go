package uritemplate

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

// Match returns values from which the template makes uri, and false if there are
// none, or if finding them would go beyond the bounds. They are of the types that
// [Template.Expand] takes; of several ways the one is taken in which earlier
// expressions get more. The order of named variables does not matter. A variable
// that was cut off comes as it was cut off. The time is linear in the URI's length.
func (t *Template) Match(uri string) (map[string]any, bool) {
	expressions := 0
	for _, p := range t.parts {
		if p.op != nil {
			expressions++
		}
	}
	if len(uri) > MaxURI || len(uri)*expressions > maxWork {
		return nil, false
	}
	found := t.pattern().FindStringSubmatchIndex(ascii(uri))
	if found == nil {
		return nil, false
	}
	uri = ascii(uri)
	values := map[string]any{}
	group := 0
	for _, p := range t.parts {
		if p.op == nil {
			continue
		}
		group++
		from, to := found[2*group], found[2*group+1]
		if from < 0 || from == to && !p.op.named && p.op.first == "" {
			continue // nothing is there: all undefined
		}
		if !p.match(uri[from:to], values) {
			return nil, false
		}
	}
	return values, true
}

// ascii encodes what should have been, as people write it.
func ascii(uri string) string {
	for i := range len(uri) {
		if uri[i] >= utf8.RuneSelf {
			return string(appendNonASCII(nil, uri))
		}
	}
	return uri
}

func appendNonASCII(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c >= utf8.RuneSelf {
			dst = append(dst, '%', hexDigits[c>>4], hexDigits[c&15])
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

// match takes an expression's text apart.
func (p *part) match(text string, values map[string]any) bool {
	switch {
	case p.op.named:
		return p.matchNamed(strings.Split(text, p.op.sep), values)
	case len(p.vars) == 1 && !p.vars[0].explode:
		return p.value(p.vars[0], text, values)
	}
	return p.matchOrdered(strings.Split(text, p.op.sep), values)
}

// matchOrdered hands out the items in their order; an exploded variable gets what
// the others leave.
func (p *part) matchOrdered(items []string, values map[string]any) bool {
	spare := len(items) - len(p.vars)
	if spare > 0 && !p.explodes() {
		return false
	}
	for _, v := range p.vars {
		if len(items) == 0 {
			return true
		}
		n := 1
		if v.explode {
			n += max(0, spare)
			spare = 0
			if !p.list(v, items[:n], values) {
				return false
			}
		} else if !p.value(v, items[0], values) {
			return false
		}
		items = items[n:]
	}
	return len(items) == 0
}

// matchNamed hands out pairs by their names. Those of no name belong to the exploded
// variable, if there is one: it is a map.
func (p *part) matchNamed(items []string, values map[string]any) bool {
	for _, item := range items {
		name, text, _ := strings.Cut(item, "=")
		v, ok := p.byName(name)
		switch {
		case ok && v.explode:
			s, valid := decode(text)
			old, _ := values[v.name].([]string)
			if _, other := values[v.name].(map[string]string); !valid || other {
				return false
			}
			values[v.name] = append(old, s)
		case ok:
			if !p.value(v, text, values) {
				return false
			}
		case !p.member(name, text, values):
			return false
		}
	}
	return true
}

func (p *part) byName(name string) (variable, bool) {
	for _, v := range p.vars {
		if v.name == name {
			return v, true
		}
	}
	return variable{}, false
}

// member adds to the map of the first exploded variable.
func (p *part) member(name, text string, values map[string]any) bool {
	for _, v := range p.vars {
		if !v.explode {
			continue
		}
		key, ok := decode(name)
		value, valid := decode(text)
		members, isMap := values[v.name].(map[string]string)
		if _, twice := members[key]; !ok || !valid || twice || values[v.name] != nil && !isMap {
			return false
		}
		if members == nil {
			members = map[string]string{}
			values[v.name] = members
		}
		members[key] = value
		return true
	}
	return false
}

// value sets a variable that is not exploded: commas part the items of a list,
// except where they may stand for themselves.
func (p *part) value(v variable, text string, values map[string]any) bool {
	if v.prefix == 0 && !p.op.reserved && strings.Contains(text, ",") {
		return p.list(v, strings.Split(text, ","), values)
	}
	s, ok := decode(text)
	if !ok || v.prefix > 0 && utf8.RuneCountInString(s) > v.prefix {
		return false
	}
	return set(v, values, s)
}

func (p *part) list(v variable, items []string, values map[string]any) bool {
	if v.explode && !p.op.reserved && strings.Contains(items[0], "=") { // which no value has
		for _, item := range items {
			if name, text, ok := strings.Cut(item, "="); !ok || !p.member(name, text, values) {
				return false
			}
		}
		return true
	}
	list := make([]string, len(items))
	for i, item := range items {
		var ok bool
		if list[i], ok = decode(item); !ok {
			return false
		}
	}
	return set(v, values, list)
}

// set gives a variable its value. One that stands in several places must have the
// same everywhere, but for what was cut off.
func set(v variable, values map[string]any, value any) bool {
	before, there := values[v.name]
	if !there {
		values[v.name] = value
		return true
	}
	a, textA := before.(string)
	b, textB := value.(string)
	if !textA || !textB {
		return false
	}
	if strings.HasPrefix(b, a) { // the longer one is nearer to the whole
		values[v.name] = b
		return true
	}
	return strings.HasPrefix(a, b)
}

// decode resolves triplets; what is no UTF-8 then is no text.
func decode(s string) (string, bool) {
	d, err := url.PathUnescape(s)
	return d, err == nil && utf8.ValidString(d)
}
