package schema

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/troupe-dev/troupe/internal/clip"
)

// walker holds JSON text against a plan in one pass. The quick pass stops at
// the first problem and allocates nothing; only if there is one, a second pass
// says what and where. Both take the same decisions, so there is one code.
type walker struct {
	data  []byte
	quick bool
	depth int
	allowance

	// binder decodes the members of the outermost object on the way, into a struct; nil
	// if nothing is to be decoded, or once only the codec can do it.
	binder *Binder
	into   reflect.Value

	refused  int // where the last value stands that was of a wrong type or not in an enum
	problems []Problem
	path     []string // of the value at hand; not kept in the quick pass
	max      int
	more     bool
}

// allowance is the work that a walk may still do, and why it has to end before the text is checked.
type allowance struct {
	steps  int // of patterns
	left   int // units of work
	broken string
}

// stop is the position that ends a walk.
const stop = -1

// run reports whether the text is one value that follows the plan.
func (w *walker) run(p *plan) bool {
	i := w.value(p, skipSpace(w.data, 0))
	if i != stop && skipSpace(w.data, i) != len(w.data) {
		w.malformed()
		return false
	}
	return i != stop && len(w.problems) == 0
}

// wrong notes a problem; it returns stop if the walk need not go on, else i.
// Callers build message only when the pass is not quick.
func (w *walker) wrong(i int, message string) int {
	if w.quick {
		return stop
	}
	path := ""
	for _, t := range w.path {
		path = appendToken(path, t)
	}
	switch p := (Problem{path, message}); {
	case slices.Contains(w.problems, p):
	case len(w.problems) >= w.max:
		w.more = true
		return stop
	default:
		w.problems = append(w.problems, p)
	}
	return i
}

func (a *allowance) malformed() int {
	a.broken = "the value is not valid JSON"
	return stop
}

// value checks the value that starts at i and returns the index behind it, or stop.
func (w *walker) value(p *plan, i int) int {
	end := i
	for ; p != nil; p = p.ref { // the plan and what it refers to apply to the same value
		if p.more != nil {
			return w.whole(p, i, nil)
		}
		if end = w.one(p, i); end == stop {
			return stop
		}
		if p.ref == nil {
			return end
		}
	}
	return w.skip(i)
}

func (w *walker) skip(i int) int {
	end := skipValue(w.data, i)
	if end < 0 {
		return w.malformed()
	}
	w.left -= (end - i) / bytesPerUnit
	return end
}

// bytesPerUnit are the bytes that are passed over for a unit of work. A scalar that is
// looked at takes one for each 64.
const bytesPerUnit = 256

// one checks the value at i against the common keywords of one plan.
func (w *walker) one(p *plan, i int) int {
	if w.left--; w.left < 0 {
		return w.spent()
	}
	c := at(w.data, i)
	if p.never {
		if end := w.skip(i); end == stop || w.quick {
			return stop
		} else {
			return w.wrong(end, "is not allowed")
		}
	}
	switch c {
	case '{':
		if p.unfit(typeObject) || p.enum != nil && !p.enum.hasPart(w, i) {
			return w.refuse(p, i, "object")
		}
		if !p.checkObject {
			return w.skip(i)
		}
		return w.object(p, i)
	case '[':
		if p.unfit(typeArray) || p.enum != nil && !p.enum.hasPart(w, i) {
			return w.refuse(p, i, "array")
		}
		if !p.checkArray {
			return w.skip(i)
		}
		return w.array(p, i)
	case '"':
		return w.text(p, i)
	case 't', 'f', 'n':
		return w.word(p, i)
	}
	return w.number(p, i)
}

// unfit reports whether the plan does not take values of this type.
func (p *plan) unfit(t types) bool { return p.types != 0 && p.types&t == 0 }

// refuse reports a wrong type, or a value that is not in the enum.
func (w *walker) refuse(p *plan, i int, got string) int {
	end := w.skip(i)
	if end == stop || w.quick {
		return stop
	}
	w.refused = i
	if p.enum != nil {
		return w.wrong(end, msgEnum(p.enum.shown))
	}
	return w.wrong(end, msgType(p.types.names(), got))
}

func (t types) names() (names []string) {
	for _, n := range typeNames {
		if t&n.t != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

// object checks the members of the object that opens at i.
func (w *walker) object(p *plan, i int) int {
	first := i
	if i = w.open(i); i == stop {
		return stop
	}
	var seen uint64
	count := 0
	if at(w.data, i) == '}' {
		return w.closeObject(p, first, i, seen, count)
	}
	for {
		if at(w.data, i) != '"' {
			return w.malformed()
		}
		end := stringEnd(w.data, i)
		if end < 0 {
			return w.malformed()
		}
		name := w.data[i+1 : end-1]
		if escaped(name) {
			name = unquote(w.data[i:end])
		}
		if i = skipSpace(w.data, end); at(w.data, i) != ':' {
			return w.malformed()
		}
		i = skipSpace(w.data, i+1)
		count++
		k := p.find(name)
		if k >= 0 && k < 64 {
			seen |= 1 << k
		}
		start := i
		if i = w.member(p, k, name, i); i == stop {
			return stop
		}
		if w.binder != nil && w.depth == 1 && !w.binder.member(w.into, name, count-1, w.data[start:i]) {
			w.binder = nil
		}
		i = skipSpace(w.data, i)
		switch at(w.data, i) {
		case ',':
			i = skipSpace(w.data, i+1)
		case '}':
			return w.closeObject(p, first, i, seen, count)
		default:
			return w.malformed()
		}
	}
}

// member checks the value at i of the property name, which is p.properties[k] or unknown.
func (w *walker) member(p *plan, k int, name []byte, i int) int {
	to := p.extra
	if k >= 0 && p.properties[k].declared {
		to = p.properties[k].plan
	} else if to != nil && to.never && to.ref == nil {
		if w.quick {
			return stop
		}
		if i = w.skip(i); i == stop {
			return stop
		}
		return w.wrong(i, msgUnknown(string(name), p.names()))
	}
	if to == nil {
		return w.skip(i)
	}
	if w.quick {
		return w.value(to, i)
	}
	w.path = append(w.path, string(name))
	i = w.value(to, i)
	w.path = w.path[:len(w.path)-1]
	return i
}

// closeObject checks what can be said at the brace at i that closes the one at first.
func (w *walker) closeObject(p *plan, first, i int, seen uint64, count int) int {
	w.left -= count/4 + (i-first)/bytesPerUnit
	w.depth--
	i++
	if missing := p.required &^ seen; missing != 0 {
		if w.quick {
			return stop
		}
		for k, q := range p.properties {
			if k < 64 && missing&(1<<k) != 0 && i != stop {
				i = w.wrong(i, msgMissing(q.name))
			}
		}
	}
	if i != stop && (count < p.minProps || p.maxProps >= 0 && count > p.maxProps) {
		if w.quick {
			return stop
		}
		return w.wrongCount(i, "properties", count, p.minProps, p.maxProps)
	}
	return i
}

func (w *walker) wrongCount(i int, of string, got, least, most int) int {
	if got < least {
		return w.wrong(i, msgCount(of, "at least", least, got))
	}
	return w.wrong(i, msgCount(of, "at most", most, got))
}

// find returns the index of a property, or -1.
func (p *plan) find(name []byte) int {
	if p.index != nil {
		if k, ok := p.index[string(name)]; ok {
			return k
		}
		return -1
	}
	for k := range p.properties {
		if p.properties[k].name == string(name) {
			return k
		}
	}
	return -1
}

func (p *plan) names() (names []string) {
	for _, q := range p.properties {
		if q.declared {
			names = append(names, q.name)
		}
	}
	return names
}

// open moves behind the bracket at i, one level deeper.
func (w *walker) open(i int) int {
	if w.depth++; w.depth > maxInstanceDepth {
		w.broken = "the value is nested too deeply"
		return stop
	}
	return skipSpace(w.data, i+1)
}

// array checks the items of the array that opens at i.
func (w *walker) array(p *plan, i int) int {
	first := i
	if i = w.open(i); i == stop {
		return stop
	}
	count := 0
	for at(w.data, i) != ']' {
		if i = w.item(p.items, count, i); i == stop {
			return stop
		}
		count++
		i = skipSpace(w.data, i)
		switch at(w.data, i) {
		case ',':
			if i = skipSpace(w.data, i+1); at(w.data, i) == ']' {
				return w.malformed()
			}
		case ']':
		default:
			return w.malformed()
		}
	}
	w.left -= count/4 + (i-first)/bytesPerUnit
	w.depth--
	i++
	if count < p.minItems || p.maxItems >= 0 && count > p.maxItems {
		if w.quick {
			return stop
		}
		return w.wrongCount(i, "items", count, p.minItems, p.maxItems)
	}
	return i
}

// item checks item k at i.
func (w *walker) item(p *plan, k, i int) int {
	if p == nil || w.quick {
		return w.value(p, i)
	}
	w.path = append(w.path, strconv.Itoa(k))
	i = w.value(p, i)
	w.path = w.path[:len(w.path)-1]
	return i
}

// text checks the string that opens at i.
func (w *walker) text(p *plan, i int) int {
	end := stringEnd(w.data, i)
	if end < 0 {
		return w.malformed()
	}
	if w.left -= (end - i) / 64; p.unfit(typeString) {
		return w.refuse(p, i, "string")
	}
	if p.enum != nil && !p.enum.hasString(w.data[i:end]) {
		if w.quick {
			return stop
		}
		w.refused = i
		if end = w.wrong(end, msgEnum(p.enum.shown)); end == stop {
			return stop
		}
	}
	if p.checkString {
		return w.stringBounds(p, i, end)
	}
	return end
}

func (e *enum) hasString(lit []byte) bool {
	inside := lit[1 : len(lit)-1]
	if escaped(inside) {
		inside = unquote(lit)
	}
	return e.strings[string(inside)]
}

func (w *walker) stringBounds(p *plan, start, end int) int {
	inside := w.data[start+1 : end-1]
	// A code point is 1 to 4 bytes, or up to 12 as an escape: often the size tells enough.
	if p.minLength > 0 && len(inside) < 12*p.minLength || p.maxLength >= 0 && len(inside) > p.maxLength {
		if n := runes(inside); n < p.minLength || p.maxLength >= 0 && n > p.maxLength {
			if w.quick {
				return stop
			}
			if end = w.wrongCount(end, "characters", n, p.minLength, p.maxLength); end == stop {
				return stop
			}
		}
	}
	if p.pattern != nil && !w.matches(p.pattern, plain(w.data, start, end)) {
		if w.quick || w.broken != "" {
			return stop
		}
		if end = w.wrong(end, msgPattern(p.pattern.String())); end == stop {
			return stop
		}
	}
	if p.format != nil && !w.has(p.format, plain(w.data, start, end)) {
		if w.quick || w.broken != "" {
			return stop
		}
		return w.wrong(end, "must be a valid "+p.format.name)
	}
	return end
}

// plain is the text of the string literal from start to end of data.
func plain(data []byte, start, end int) []byte {
	if inside := data[start+1 : end-1]; !escaped(inside) {
		return inside
	}
	return unquote(data[start:end])
}

// matches reports whether a text matches, within the steps that are left.
func (a *allowance) matches(p *pattern, text []byte) bool {
	return a.step(p.size*(1+len(text))) && p.Match(text)
}

// has reports whether a text has a format, within the steps that are left.
func (a *allowance) has(f *format, text []byte) bool {
	return a.step(f.steps*len(text)) && f.fits(string(text))
}

func (a *allowance) step(n int) bool {
	if a.steps -= n; a.steps < 0 {
		a.broken = "the text is too long to be held against its pattern"
		return false
	}
	return true
}

// word checks true, false or null.
func (w *walker) word(p *plan, i int) int {
	end := scalarEnd(w.data, i)
	t, name, in := typeBoolean, "boolean", false
	switch string(w.data[i:end]) {
	case "true":
		in = p.enum == nil || p.enum.yes
	case "false":
		in = p.enum == nil || p.enum.no
	case "null":
		t, name = typeNull, "null"
		in = p.enum == nil || p.enum.words&typeNull != 0
	default:
		return w.malformed()
	}
	if !in || p.unfit(t) {
		return w.refuse(p, i, name)
	}
	return end
}

// number checks the number that starts at i.
func (w *walker) number(p *plan, i int) int {
	end := scalarEnd(w.data, i)
	if i >= len(w.data) {
		return w.malformed()
	}
	w.left -= (end - i) / 64
	small, plain := plainInt(w.data[i:end])
	if plain && p.enum == nil && (p.types == 0 || p.types&(typeInteger|typeNumber) != 0) && (!p.checkNumber || p.inPlain(small)) {
		return end
	}
	return w.exactNumber(p, i, end)
}

// exactNumber checks a number that is no small integer, or may be wrong. Its frame is large: where a call is small, its
// goroutine's stack is too.
func (w *walker) exactNumber(p *plan, i, end int) int {
	lit := w.data[i:end]
	d, ok := parseDecimal(lit)
	if !ok {
		w.broken = fmt.Sprintf("the number %s cannot be checked", clip.Text(string(lit), maxShown))
		return stop
	}
	if p.types != 0 && p.types&typeNumber == 0 && (p.types&typeInteger == 0 || !d.integral()) {
		if p.types&typeInteger != 0 {
			return w.refuse(p, i, "a number with a fraction")
		}
		return w.refuse(p, i, "number")
	}
	if p.enum != nil {
		var buf [64]byte
		if !p.enum.numbers[string(d.appendKey(buf[:0]))] {
			return w.refuse(p, i, "number")
		}
	}
	return w.numberBounds(p, d, end)
}

// inPlain reports whether a small integer is certainly within the bounds.
func (p *plan) inPlain(n int64) bool {
	return (p.minimum == nil || p.minimum.plain && n >= p.minimum.small) &&
		(p.maximum == nil || p.maximum.plain && n <= p.maximum.small) &&
		(p.above == nil || p.above.plain && n > p.above.small) &&
		(p.below == nil || p.below.plain && n < p.below.small)
}

func (w *walker) numberBounds(p *plan, d decimal, end int) int {
	checks := [4]struct {
		b    *bound
		ok   func(int) bool
		text string
	}{
		{p.minimum, func(c int) bool { return c >= 0 }, "must be at least "},
		{p.maximum, func(c int) bool { return c <= 0 }, "must be at most "},
		{p.above, func(c int) bool { return c > 0 }, "must be more than "},
		{p.below, func(c int) bool { return c < 0 }, "must be less than "},
	}
	for _, c := range checks {
		if c.b == nil || c.ok(d.compare(c.b.value)) {
			continue
		}
		if w.quick {
			return stop
		}
		if end = w.wrong(end, c.text+clip.Text(c.b.shown, maxShown)); end == stop {
			return stop
		}
	}
	return end
}
