package schema

import (
	"cmp"
	"encoding/json"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// plan is a schema made ready to walk along JSON text. The zero value accepts everything.
type plan struct {
	never bool
	ref   *plan // applies as well
	types types // 0 is any
	enum  *enum

	properties []property // declared or required
	index      map[string]int
	required   uint64 // bits of properties
	extra      *plan  // for properties that are not declared; nil is any
	minProps   int
	maxProps   int // -1 is no bound, here and below

	items    *plan // nil is any
	minItems int
	maxItems int

	minLength int
	maxLength int
	pattern   *pattern
	format    *format

	minimum, maximum, above, below *bound

	more *more // nil if the keywords above are all; then there is no ref

	// What the keywords above ask of which kind of value, so that the rest is skipped unread.
	checkObject, checkArray, checkString, checkNumber bool
}

type property struct {
	name     string
	plan     *plan
	declared bool // false: only required, so additionalProperties applies to it
}

// types is a set of JSON types.
type types uint8

const (
	typeNull types = 1 << iota
	typeBoolean
	typeObject
	typeArray
	typeString
	typeInteger // a number without fraction
	typeNumber
)

type typeName struct {
	t    types
	name string
}

// typeNames are in the order that messages list them.
var typeNames = []typeName{
	{typeNull, "null"}, {typeBoolean, "boolean"}, {typeObject, "object"}, {typeArray, "array"},
	{typeString, "string"}, {typeInteger, "integer"}, {typeNumber, "number"},
}

// enum is the set of allowed values.
type enum struct {
	strings map[string]bool
	numbers map[string]bool // by decimal.appendKey
	others  map[string]bool // objects and arrays, by appendCanonical
	words   types           // null
	yes, no bool
	shown   []string // as JSON
}

type bound struct {
	value decimal
	small int64 // the value if plain
	plain bool  // it fits small
	shown string
}

type pattern struct {
	*regexp.Regexp
	size int // instructions
}

// planner makes plans of the nodes of a document, whose keywords have the form they must have.
type planner struct {
	doc     *document
	made    map[*node]*plan
	counted bool // a plan has more than the common keywords
}

// plan makes the plan of a subschema once; it may be part of itself.
func (p *planner) plan(n *node) *plan {
	if made := p.made[n]; made != nil {
		return made
	}
	made := &plan{maxProps: -1, maxItems: -1, maxLength: -1, never: n.object == nil && !n.bool}
	p.made[n] = made
	if p.doc.dialect == draft7 && len(n.refs) > 0 { // the rest does not count
		made.ref = p.plan(n.refs[0])
		return made
	}
	for key, v := range n.object {
		if p.doc.knows(key) {
			p.keyword(made, n, key, v)
			p.keywordMore(made, n, key, v)
		}
	}
	p.finish(made, n)
	return made
}

func (p *planner) keyword(to *plan, n *node, key string, v any) {
	switch key {
	case "type":
		to.types, _ = typesOf(v)
	case "properties":
		p.properties(to, n, v)
	case "additionalProperties":
		to.extra = p.sub(n, key)
	case "items":
		to.items = p.sub(n, key) // nil for a list
	case "enum":
		list, _ := v.([]any)
		to.enum = enumOf(list)
	case "minimum":
		to.minimum = boundOf(v)
	case "maximum":
		to.maximum = boundOf(v)
	case "exclusiveMinimum":
		to.above = boundOf(v)
	case "exclusiveMaximum":
		to.below = boundOf(v)
	case "minLength":
		to.minLength = countOf(v)
	case "maxLength":
		to.maxLength = countOf(v)
	case "minItems":
		to.minItems = countOf(v)
	case "maxItems":
		to.maxItems = countOf(v)
	case "minProperties":
		to.minProps = countOf(v)
	case "maxProperties":
		to.maxProps = countOf(v)
	case "pattern":
		to.pattern = patternOf(v.(string))
	case "format":
		to.format = formats[v.(string)] // nil for others, which do not constrain
	}
}

// sub is the plan of the subschema at keys below n, nil if there is none.
func (p *planner) sub(n *node, keys ...string) *plan {
	at := ""
	for _, key := range keys {
		at = appendToken(at, key)
	}
	if child := n.child[at]; child != nil {
		return p.plan(child)
	}
	return nil
}

func (p *planner) properties(to *plan, n *node, v any) {
	members, _ := v.(map[string]any)
	for name := range members {
		to.properties = append(to.properties, property{name, p.sub(n, "properties", name), true})
	}
}

// finish orders the properties and notes which kinds of value need a look.
func (p *planner) finish(to *plan, n *node) {
	list, _ := n.object["required"].([]any)
	needed := map[string]bool{}
	for _, v := range list {
		name, _ := v.(string)
		needed[name] = true
		if n.child[appendToken("/properties", name)] == nil {
			to.properties = append(to.properties, property{name: name})
		}
	}
	slices.SortFunc(to.properties, func(a, b property) int {
		return cmp.Or(-boolCompare(needed[a.name], needed[b.name]), strings.Compare(a.name, b.name))
	})
	if len(to.properties) > 8 {
		to.index = make(map[string]int, len(to.properties))
	}
	for i, q := range to.properties {
		if to.index != nil {
			to.index[q.name] = i
		}
		if needed[q.name] {
			if i < 64 {
				to.required |= 1 << i
			} else {
				x := p.more(to)
				x.required = append(x.required, q.name)
			}
		}
	}
	p.finishMore(to, n)
	to.checkObject = len(to.properties) > 0 || to.extra != nil || to.minProps > 0 || to.maxProps >= 0
	to.checkArray = to.items != nil || to.minItems > 0 || to.maxItems >= 0
	to.checkString = to.minLength > 0 || to.maxLength >= 0 || to.pattern != nil || to.format != nil
	to.checkNumber = to.minimum != nil || to.maximum != nil || to.above != nil || to.below != nil
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// typesOf reads the name of a type or a list of different ones.
func typesOf(v any) (types, bool) {
	if name, ok := v.(string); ok {
		t := typeNamed(name)
		return t, t != 0
	}
	list, _ := v.([]any)
	var set types
	for _, v := range list {
		name, _ := v.(string)
		t := typeNamed(name)
		if t == 0 || set&t != 0 {
			return 0, false
		}
		set |= t
	}
	return set, set != 0
}

func typeNamed(name string) types {
	for _, n := range typeNames {
		if n.name == name {
			return n.t
		}
	}
	return 0
}

func enumOf(values []any) *enum {
	e := &enum{strings: map[string]bool{}, numbers: map[string]bool{}, shown: literals(values)}
	for i, v := range values {
		switch v := v.(type) {
		case nil:
			e.words |= typeNull
		case bool:
			e.yes, e.no = e.yes || v, e.no || !v
		case string:
			e.strings[v] = true
		case json.Number:
			d, _ := parseDecimal([]byte(v))
			e.numbers[string(d.appendKey(nil))] = true
		default:
			if e.others == nil {
				e.others = map[string]bool{}
			}
			key, _ := appendCanonical(nil, []byte(e.shown[i]), 0)
			e.others[string(key)] = true
		}
	}
	return e
}

func boundOf(v any) *bound {
	n, _ := v.(json.Number)
	b := &bound{shown: string(n)}
	b.value, _ = parseDecimal([]byte(n))
	b.small, b.plain = plainInt([]byte(n))
	return b
}

const maxCount = 1 << 27 // more than a value may have of anything

// countOf reads a whole number from 0, which may be written with a point or an exponent.
func countOf(v any) int {
	d := boundOf(v).value
	n := 0
	for i := range d.exp {
		if n = n*10 + int(d.digit(i)-'0'); n > maxCount {
			return maxCount
		}
	}
	return n
}

// patternOf makes a pattern that the checker has parsed.
func patternOf(s string) *pattern { return &pattern{regexp.MustCompile(s), patternSize(s)} }

// patternSize is the number of instructions of a pattern that check has seen.
func patternSize(s string) int {
	re, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return maxPatternSize
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return maxPatternSize
	}
	return len(prog.Inst)
}
