package schema

import (
	"cmp"
	"encoding/json"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
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

	minimum, maximum, above, below *bound

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

// enum is the set of allowed scalars.
type enum struct {
	strings map[string]bool
	numbers map[string]bool // by decimal.appendKey
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

// others are the constraining keywords of all dialects that a plan cannot have. Any other
// name is not a keyword and is ignored, as the standard says.
var others = map[string]bool{
	"allOf": true, "anyOf": true, "oneOf": true, "not": true, "if": true, "then": true, "else": true,
	"patternProperties": true, "propertyNames": true, "dependencies": true, "dependentSchemas": true,
	"dependentRequired": true, "unevaluatedProperties": true, "unevaluatedItems": true, "prefixItems": true,
	"additionalItems": true, "contains": true, "minContains": true, "maxContains": true, "uniqueItems": true,
	"multipleOf": true, "contentSchema": true, "$dynamicRef": true, "$dynamicAnchor": true,
	"$recursiveRef": true, "$recursiveAnchor": true, "$vocabulary": true,
}

// formats are those that the general validator asserts.
var formats = []string{
	"regex", "json-pointer", "relative-json-pointer", "uuid", "duration", "period", "ipv4", "ipv6", "hostname",
	"email", "date", "time", "date-time", "uri", "iri", "uri-reference", "iri-reference", "uri-template", "semver",
}

// planOf returns nil if the schema uses more than a plan can do, or is wrong in
// a way that the general validator will put into words.
func planOf(doc *document) *plan {
	p := planner{doc: doc, made: map[*node]*plan{}}
	root := p.plan(doc.root)
	if p.cannot {
		return nil
	}
	return root
}

type planner struct {
	doc    *document
	made   map[*node]*plan
	cannot bool
}

// plan makes the plan of a subschema once; it may be part of itself.
func (p *planner) plan(n *node) *plan {
	if made := p.made[n]; made != nil || p.cannot {
		return made
	}
	made := &plan{maxProps: -1, maxItems: -1, maxLength: -1, never: n.object == nil && !n.bool}
	p.made[n] = made
	if n.ref != nil {
		made.ref = p.plan(n.ref)
		if p.doc.dialect == draft7 { // the rest does not count
			return made
		}
	}
	for key, v := range n.object {
		if p.keyword(made, n, key, v); p.cannot {
			return nil
		}
	}
	p.finish(made, n)
	return made
}

func (p *planner) keyword(to *plan, n *node, key string, v any) {
	ok := true
	switch key {
	case "type":
		to.types, ok = typesOf(v)
	case "properties":
		ok = p.properties(to, n, v)
	case "required":
		ok = stringList(v)
	case "additionalProperties":
		to.extra, ok = p.sub(n, "/"+key)
	case "items":
		to.items, ok = p.sub(n, "/"+key)
	case "enum":
		list, isList := v.([]any)
		if ok = isList && len(list) > 0 && n.object["const"] == nil; ok {
			to.enum = enumOf(list)
			ok = to.enum != nil
		}
	case "const":
		to.enum = enumOf([]any{v})
		_, both := n.object["enum"]
		ok = to.enum != nil && !both
	case "minimum":
		to.minimum, ok = boundOf(v)
	case "maximum":
		to.maximum, ok = boundOf(v)
	case "exclusiveMinimum":
		to.above, ok = boundOf(v)
	case "exclusiveMaximum":
		to.below, ok = boundOf(v)
	case "minLength":
		to.minLength, ok = countOf(v)
	case "maxLength":
		to.maxLength, ok = countOf(v)
	case "minItems":
		to.minItems, ok = countOf(v)
	case "maxItems":
		to.maxItems, ok = countOf(v)
	case "minProperties":
		to.minProps, ok = countOf(v)
	case "maxProperties":
		to.maxProps, ok = countOf(v)
	case "pattern":
		to.pattern, ok = patternOf(v)
	case "format":
		s, isString := v.(string)
		ok = isString && !slices.Contains(formats, s)
	case "$ref":
	default:
		ok = annotation(key, v)
	}
	p.cannot = p.cannot || !ok
}

// annotation reports whether a keyword does not constrain and has the form it must have.
func annotation(key string, v any) bool {
	switch key {
	case "title", "description", "$comment", "$schema", "$id", "$anchor", "contentEncoding", "contentMediaType":
		_, ok := v.(string)
		return ok
	case "readOnly", "writeOnly", "deprecated":
		_, ok := v.(bool)
		return ok
	case "examples":
		_, ok := v.([]any)
		return ok
	case "$defs", "definitions":
		m, ok := v.(map[string]any)
		for _, sub := range m {
			switch sub.(type) {
			case map[string]any, bool:
			default:
				return false
			}
		}
		return ok
	}
	return !others[key]
}

// sub is the plan of the one subschema of a keyword.
func (p *planner) sub(n *node, at string) (*plan, bool) {
	child := n.child[at]
	if child == nil {
		return nil, false // a list, or not a schema at all
	}
	made := p.plan(child)
	return made, made != nil
}

func (p *planner) properties(to *plan, n *node, v any) bool {
	members, ok := v.(map[string]any)
	for name := range members {
		sub, fits := p.sub(n, appendToken("/properties", name))
		if !fits {
			return false
		}
		to.properties = append(to.properties, property{name, sub, true})
	}
	return ok
}

// finish orders the properties and notes which kinds of value need a look.
func (p *planner) finish(to *plan, n *node) {
	list, _ := n.object["required"].([]any)
	needed := map[string]bool{}
	for _, v := range list {
		name, _ := v.(string) // stringList has seen it
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
			if i >= 64 {
				p.cannot = true
				return
			}
			to.required |= 1 << i
		}
	}
	to.checkObject = len(to.properties) > 0 || to.extra != nil || to.minProps > 0 || to.maxProps >= 0
	to.checkArray = to.items != nil || to.minItems > 0 || to.maxItems >= 0
	to.checkString = to.minLength > 0 || to.maxLength >= 0 || to.pattern != nil
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

func typesOf(v any) (types, bool) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	var set types
	for _, v := range list {
		i := slices.IndexFunc(typeNames, func(n typeName) bool { return n.name == v })
		if i < 0 || set&typeNames[i].t != 0 {
			return 0, false
		}
		set |= typeNames[i].t
	}
	return set, set != 0
}

func stringList(v any) bool {
	list, ok := v.([]any)
	seen := map[any]bool{}
	for _, v := range list {
		if _, text := v.(string); !text || seen[v] {
			return false
		}
		seen[v] = true
	}
	return ok
}

// enumOf returns nil if a value is an object or an array.
func enumOf(values []any) *enum {
	e := &enum{strings: map[string]bool{}, numbers: map[string]bool{}, shown: literals(values)}
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			e.words |= typeNull
		case bool:
			e.yes, e.no = e.yes || v, e.no || !v
		case string:
			e.strings[v] = true
		case json.Number:
			d, ok := parseDecimal([]byte(v))
			if !ok {
				return nil
			}
			e.numbers[string(d.appendKey(nil))] = true
		default:
			return nil
		}
	}
	return e
}

func boundOf(v any) (*bound, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return nil, false
	}
	d, ok := parseDecimal([]byte(n))
	b := &bound{value: d, shown: string(n)}
	b.small, b.plain = plainInt([]byte(n))
	return b, ok
}

// countOf reads a bound that must be a plain number from 0.
func countOf(v any) (int, bool) {
	n, _ := v.(json.Number)
	i, err := strconv.ParseUint(string(n), 10, 31)
	return int(i), err == nil
}

func patternOf(v any) (*pattern, bool) {
	s, ok := v.(string)
	if !ok {
		return nil, false
	}
	re, err := regexp.Compile(s)
	if err != nil {
		return nil, false
	}
	return &pattern{re, patternSize(s)}, true
}

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
