package schema

import (
	"fmt"
	"iter"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/internal/clip"
)

// marks are the members or items of a value that a schema has evaluated, by their number.
// The zero value is none.
type marks struct {
	all  bool
	some []bool
}

func (m *marks) set(k int) {
	for len(m.some) <= k {
		m.some = append(m.some, false)
	}
	m.some[k] = true
}

func (m *marks) has(k int) bool { return m.all || k < len(m.some) && m.some[k] }

func (m *marks) merge(other *marks) {
	m.all = m.all || other.all
	for k, set := range other.some {
		if set {
			m.set(k)
		}
	}
}

// spent ends a walk whose budget of work is used up.
func (a *allowance) spent() int {
	a.broken = "the value is too large or the schema too complex to be checked"
	return stop
}

// fail notes a problem; it reports whether the walk goes on.
func (w *walker) fail(format string, args ...any) bool {
	return !w.quick && w.wrong(0, fmt.Sprintf(format, args...)) != stop
}

// whole checks the value at i against a plan with more than the common keywords. The text
// is valid JSON. What was evaluated is added to seen, unless that is nil.
func (w *walker) whole(p *plan, i int, seen *marks) int {
	own := seen
	if p.more.openProperties != nil || p.more.openItems != nil {
		own = new(marks)
	}
	w.refused = stop
	end := w.one(p, i)
	if end == stop || w.refused == i {
		return end
	}
	goesOn := w.parts(p, i, own) && w.combined(p.more, i, own)
	switch {
	case w.left < 0:
		return w.spent()
	case w.broken != "" || !goesOn:
		return stop
	}
	if seen != nil && own != seen {
		seen.merge(own)
	}
	return end
}

// inPlace checks the value at i against a plan that applies to it beside another one.
func (w *walker) inPlace(p *plan, i int, seen *marks) bool {
	for ; p != nil; p = p.ref {
		if p.more != nil {
			return w.whole(p, i, seen) != stop
		}
		if w.one(p, i) == stop {
			return false
		}
		w.mark(p, i, seen)
	}
	return true
}

// mark adds to seen what the common keywords evaluate.
func (w *walker) mark(p *plan, i int, seen *marks) {
	if seen == nil || seen.all {
		return
	}
	switch at(w.data, i) {
	case '{':
		if seen.all = p.extra != nil; seen.all || len(p.properties) == 0 {
			return
		}
		for k, m := range w.members(i) {
			if p.declares(m.name) {
				seen.set(k)
			}
		}
	case '[':
		seen.all = p.items != nil
	}
}

func (p *plan) declares(name []byte) bool {
	k := p.find(name)
	return k >= 0 && p.properties[k].declared
}

// fits reports whether the value at i follows the plan, and looks no further than it must.
func (w *walker) fits(p *plan, i int, seen *marks) bool {
	quick, depth := w.quick, w.depth
	w.quick = true
	var found *marks
	if seen != nil {
		found = new(marks)
	}
	ok := w.inPlace(p, i, found)
	w.quick, w.depth = quick, depth
	if ok && seen != nil {
		seen.merge(found)
	}
	return ok
}

// combined checks the keywords that apply other subschemas to the same value, and then
// those for what none of them has evaluated. It reports whether the walk goes on.
func (w *walker) combined(x *more, i int, seen *marks) bool {
	before := len(w.problems)
	for _, p := range x.all {
		if !w.inPlace(p, i, seen) {
			return false
		}
	}
	if x.any != nil {
		enough := 1
		if seen != nil {
			enough = len(x.any) // each may have evaluated something
		}
		if w.count(x.any, i, seen, enough) == 0 && !w.none(x.any, i) {
			return false
		}
	}
	if x.one != nil {
		switch n := w.count(x.one, i, seen, 2); {
		case n == 0 && !w.none(x.one, i):
			return false
		case n > 1 && !w.fail("matches more than one of the forms of which exactly one is allowed"):
			return false
		}
	}
	if x.not != nil && w.fits(x.not, i, nil) && !w.fail("has a form that is not allowed") {
		return false
	}
	if x.test != nil {
		next := x.otherwise
		if w.fits(x.test, i, seen) {
			next = x.then
		}
		if !w.inPlace(next, i, seen) {
			return false
		}
	}
	if len(w.problems) > before {
		return true // what is evaluated is not known
	}
	return w.unevaluated(x, i, seen)
}

// count returns how many plans the value at i follows, up to enough.
func (w *walker) count(plans []*plan, i int, seen *marks, enough int) int {
	n := 0
	for _, p := range plans {
		if w.fits(p, i, seen) {
			n++
		}
		if n == enough {
			break
		}
	}
	return n
}

// none says why the value at i follows none of the plans, in short for each.
func (w *walker) none(plans []*plan, i int) bool {
	if w.quick {
		return false
	}
	var reasons []string
	for _, p := range plans {
		part := walker{data: w.data, depth: w.depth, allowance: w.allowance, refused: stop, max: 2}
		part.inPlace(p, i, nil)
		if w.allowance = part.allowance; w.broken != "" {
			return false
		}
		reason := (&ValidationError{Problems: part.problems, More: part.more}).Error()
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
		if len(reasons) == 5 {
			break
		}
	}
	return w.fail("matches none of the allowed forms: %s", clip.Text(strings.Join(reasons, " | "), 500))
}

func (w *walker) unevaluated(x *more, i int, seen *marks) bool {
	switch c := at(w.data, i); {
	case c == '{' && x.openProperties != nil:
		for k, m := range w.members(i) {
			if !seen.has(k) && !w.ofMember(x.openProperties, m) {
				return false
			}
		}
		seen.all = true
	case c == '[' && x.openItems != nil:
		for k, at := range w.items(i) {
			if !seen.has(k) && w.item(x.openItems, k, at) == stop {
				return false
			}
		}
		seen.all = true
	}
	return true
}

// ofMember checks a member of the object at hand.
func (w *walker) ofMember(p *plan, m member) bool {
	if w.quick {
		return w.value(p, m.at) != stop
	}
	w.path = append(w.path, string(m.name))
	end := w.value(p, m.at)
	w.path = w.path[:len(w.path)-1]
	return end != stop
}

// parts checks what a plan asks of members, items and numbers beyond the common keywords.
func (w *walker) parts(p *plan, i int, seen *marks) bool {
	w.mark(p, i, seen)
	switch c := at(w.data, i); {
	case c == '{':
		return w.moreMembers(p, i, seen)
	case c == '[':
		return w.moreItems(p.more, i, seen)
	case p.more.step != nil && (c == '-' || '0' <= c && c <= '9'):
		return w.multiple(p.more.step, string(w.data[i:scalarEnd(w.data, i)]))
	}
	return true
}

// multiple checks a number against multipleOf, exactly.
func (w *walker) multiple(step *bound, lit string) bool {
	cost := numberCost(lit)
	if cost < 0 {
		w.broken = fmt.Sprintf("the number %s cannot be checked", clip.Text(lit, maxShown))
		return false
	}
	w.left -= cost
	n, ok := new(big.Rat).SetString(lit)
	by, okBy := new(big.Rat).SetString(step.shown)
	if ok && okBy && n.Quo(n, by).IsInt() {
		return true
	}
	return w.fail("must be a multiple of %s", clip.Text(step.shown, maxShown))
}

// moreMembers checks the names of an object, the members that patterns apply to, and what
// a member asks of the object.
func (w *walker) moreMembers(p *plan, i int, seen *marks) bool {
	x := p.more
	if x.names == nil && x.patterns == nil && x.dependents == nil && x.required == nil {
		return true
	}
	present := map[string]bool{}
	for k, m := range w.members(i) {
		name := string(m.name)
		present[name] = true
		if x.names != nil && !w.fits(x.names, m.key, nil) && !w.fail("property name %q is not allowed", clip.Text(name, maxShown)) {
			return false
		}
		if x.patterns == nil {
			continue
		}
		known, goesOn := w.patterned(p, m)
		if !goesOn {
			return false
		}
		if known && seen != nil {
			seen.set(k)
		}
	}
	for _, name := range x.required {
		if !present[name] && !w.fail("%s", msgMissing(name)) {
			return false
		}
	}
	for _, d := range x.dependents {
		if present[d.name] && !w.dependent(d, i, present, seen) {
			return false
		}
	}
	return true
}

// patterned checks a member of an object with patternProperties. It reports whether a
// keyword has evaluated it, and whether the walk goes on.
func (w *walker) patterned(p *plan, m member) (known, goesOn bool) {
	known = p.declares(m.name)
	for _, q := range p.more.patterns {
		if w.left--; !w.matches(q.pattern, m.name) {
			continue
		}
		known = true
		if !w.ofMember(q.plan, m) {
			return known, false
		}
	}
	extra := p.more.extra
	switch {
	case known || extra == nil:
		return known, true
	case extra.never:
		return true, w.fail("unknown property %q", clip.Text(string(m.name), maxShown))
	}
	return true, w.ofMember(extra, m)
}

func (w *walker) dependent(d dependent, i int, present map[string]bool, seen *marks) bool {
	var missing []string
	for _, name := range d.required {
		if !present[name] {
			missing = append(missing, quoted(name))
		}
	}
	if missing != nil && !w.fail("properties %s required, if %s exists", list(missing), quoted(d.name)) {
		return false
	}
	return w.inPlace(d.plan, i, seen)
}

// quoted is a name in single quotes, on one line.
func quoted(name string) string {
	s := strconv.Quote(clip.Text(name, maxShown-2))
	return "'" + s[1:len(s)-1] + "'"
}

// moreItems checks the items of a tuple, and what an array must or must not contain.
func (w *walker) moreItems(x *more, i int, seen *marks) bool {
	if x.prefix == nil && x.contains == nil && !x.unique {
		return true
	}
	places := map[string]int{} // of items, by their canonical text
	var found []string         // places of those that contains wants
	equal, behind := "", 0
	for k, at := range w.items(i) {
		if !w.tuple(x, k, at, &behind) {
			return false
		}
		if seen != nil && (k < len(x.prefix) || x.rest != nil) {
			seen.set(k)
		}
		if x.contains != nil && w.fits(x.contains, at, nil) {
			found = append(found, strconv.Itoa(k))
			if seen != nil && x.marks {
				seen.set(k)
			}
		}
		if x.unique && equal == "" {
			key := w.canonical(w.data, at)
			if first, ok := places[key]; ok {
				equal = fmt.Sprintf("must have no equal items, but %d and %d are", first, k)
			}
			places[key] = k
		}
	}
	return (behind == 0 || w.fail("last %d additionalItem(s) not allowed", behind)) &&
		(equal == "" || w.fail("%s", equal)) &&
		(x.contains == nil || w.contained(x, found))
}

// tuple checks item k against its place in the prefix, or as one behind it.
func (w *walker) tuple(x *more, k, i int, behind *int) bool {
	switch {
	case k < len(x.prefix):
		return w.item(x.prefix[k], k, i) != stop
	case x.rest == nil || x.prefix == nil:
		return true
	case x.counts:
		*behind++
		return !w.quick
	}
	return w.item(x.rest, k, i) != stop
}

func (w *walker) contained(x *more, found []string) bool {
	switch n := len(found); {
	case n == 0 && x.atLeast == 1:
		return w.fail("no items match contains schema")
	case n == 0 && x.atLeast > 0:
		return w.fail("must have at least %d items that match the contains schema, has none", x.atLeast)
	case n < x.atLeast:
		return w.fail("must have at least %d items that match the contains schema, has %d: at %s", x.atLeast, n, list(found))
	case x.atMost >= 0 && n > x.atMost:
		return w.fail("must have at most %d items that match the contains schema, has %d: at %s", x.atMost, n, list(found))
	}
	return true
}

// hasPart reports whether the object or array at i is one of the enum.
func (e *enum) hasPart(w *walker, i int) bool {
	return e.others != nil && e.others[w.canonical(w.data, i)]
}

// canonical is the text of the value at i by which equal values are known.
func (a *allowance) canonical(data []byte, i int) string {
	key, end := appendCanonical(nil, data, i)
	if end == stop {
		a.broken = "the value has a number that cannot be checked"
	}
	a.left -= (end - i) / 32
	return string(key)
}

// member is a member of an object in JSON text.
type member struct {
	name    []byte
	key, at int // where its name and its value stand
}

// members goes through the object at start until the work is spent.
func (w *walker) members(start int) iter.Seq2[int, member] {
	return func(yield func(int, member) bool) {
		for k, i := 0, skipSpace(w.data, start+1); at(w.data, i) == '"'; k++ {
			end := stringEnd(w.data, i)
			if end < 0 {
				return
			}
			m := member{plain(w.data, i, end), i, skipSpace(w.data, skipSpace(w.data, end)+1)}
			if i = w.pass(i, m.at); i == stop || !yield(k, m) {
				return
			}
		}
	}
}

// items goes through the array at start until the work is spent.
func (w *walker) items(start int) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for k, i := 0, skipSpace(w.data, start+1); i < len(w.data) && w.data[i] != ']'; k++ {
			item := i
			if i = w.pass(i, i); i == stop || !yield(k, item) {
				return
			}
		}
	}
}

// pass returns where the element behind the one from start begins, whose value is at i, or
// the closing bracket.
func (w *walker) pass(start, i int) int {
	if i = skipValue(w.data, i); i < 0 {
		return stop
	}
	if i = skipSpace(w.data, i); at(w.data, i) == ',' {
		i = skipSpace(w.data, i+1)
	}
	if w.left -= 1 + (i-start)/bytesPerUnit; w.left < 0 {
		return stop
	}
	return i
}
