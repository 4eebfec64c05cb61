package schema

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// We and the library must give the same verdict on whatever both can do, with the plan as
// it is and with every part of it counted.
func compareVerdicts(t *testing.T, raw string, values ...string) {
	t.Helper()
	s, err := Compile([]byte(raw), nil)
	if err != nil {
		t.Fatalf("Compile(%s): %v", raw, err)
	}
	theirs, counted := oracle(t, raw), countedOf(t, raw)
	for _, value := range values {
		want := theirs(value)
		for _, s := range []*Schema{s, counted} {
			got := s.Validate([]byte(value))
			if (got == nil) != (want == nil) || got != nil && got.Error() == "" {
				t.Fatalf("schema %s\nvalue %s\ngot  %v\nwant %v", raw, value, got, want)
			}
		}
	}
}

// gen makes schemas of the common keywords, and of all if more is set, and values near them.
type gen struct {
	*rand.Rand
	more    bool
	dialect string
}

func (g gen) pick(list ...string) string { return list[g.IntN(len(list))] }

func (g gen) number() string {
	return g.pick("0", "-0", "1", "-1", "2", "3", "10", "1.0", "1.5", "0.1", "1e1", "10e-1", "100e-2", "-2.5",
		"9007199254740993", "9007199254740992", "123456789012345678901234567890", "1E+2", "0.0", "0e5", "0.10", "999999999999999999", "1e18")
}

func (g gen) text() string {
	return g.pick(`""`, `"a"`, `"ab"`, `"\u0061"`, `"aaa"`, `"ä"`, `"😀"`, `"\ud83d\ude00"`, `"\n\\\""`, `"b"`, `"A😀b"`, `"\uD83D\uDE00x"`)
}

func (g gen) scalar() string {
	return g.pick(g.number(), g.text(), "true", "false", "null")
}

func (g gen) name() string { return g.pick(`"a"`, `"b"`, `"c"`, `"\u0061"`, `"ä"`, `"k\"q"`) }

func (g gen) value(depth int) string {
	switch n := g.IntN(8); {
	case depth > 0 && n < 2:
		parts := make([]string, g.IntN(4))
		for i := range parts {
			parts[i] = g.value(depth - 1)
		}
		return "[" + strings.Join(parts, g.pick(",", " , ")) + "]"
	case depth > 0 && n < 5:
		seen := map[string]bool{}
		var parts []string
		for range g.IntN(4) {
			name := g.name()
			var plain string
			_ = json.Unmarshal([]byte(name), &plain)
			if !seen[plain] {
				seen[plain] = true
				parts = append(parts, name+g.pick(":", " : ")+g.value(depth-1))
			}
		}
		return g.pick("{", "{ ") + strings.Join(parts, ",") + "}"
	}
	return g.scalar()
}

func (g gen) values() []string {
	values := make([]string, 8)
	for i := range values {
		values[i] = g.value(3)
	}
	return values
}

func (g gen) schema(depth int) string {
	if g.IntN(12) == 0 {
		return g.pick("true", "false", "{}")
	}
	var parts []string
	add := func(chance int, key string, value func() string) {
		if g.IntN(chance) == 0 {
			parts = append(parts, `"`+key+`":`+value())
		}
	}
	kind := func() string {
		return `"` + g.pick("null", "boolean", "object", "array", "string", "integer", "number") + `"`
	}
	sub := func() string { return g.schema(depth - 1) }
	count := func() string { return g.pick("0", "1", "2", "3") }
	if g.IntN(2) == 0 {
		add(1, "type", kind)
	} else {
		add(3, "type", func() string { return g.pick(`["string","null"]`, `["integer","object"]`, `["number","array"]`) })
	}
	add(8, "minimum", g.number)
	add(8, "maximum", g.number)
	add(8, "exclusiveMinimum", g.number)
	add(8, "exclusiveMaximum", g.number)
	add(8, "minLength", count)
	add(8, "maxLength", count)
	add(8, "pattern", func() string { return g.pick(`"^a*$"`, `"b"`, `"\\W"`, `""`) })
	add(8, "enum", func() string {
		if g.more { // draft-07 wants different values
			return "[" + g.number() + "," + g.text() + "," + g.pick("{}", `{"a":[1,{}]}`, "[]", `["a",2]`, "null") + "]"
		}
		return "[" + g.scalar() + "," + g.scalar() + "]"
	})
	if g.dialect != draft7 { // the library heeds it beside $ref there
		add(12, "const", g.scalar)
	}
	add(8, "minItems", count)
	add(8, "maxItems", count)
	add(8, "minProperties", count)
	add(8, "maxProperties", count)
	add(6, "required", func() string { return g.pick(`["a"]`, `["a","b"]`, `["ä"]`, `[]`, `["k\"q"]`) })
	add(10, "x-mine", g.scalar)
	if depth > 0 {
		add(3, "items", sub)
		add(4, "additionalProperties", sub)
		add(2, "properties", func() string {
			return `{"a":` + sub() + `,"` + g.pick("b", "ä", `k\"q`) + `":` + sub() + "}"
		})
		add(10, "$ref", func() string { return `"#/$defs/x"` })
	}
	if g.more {
		g.addMore(depth, add)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// addMore adds keywords beyond the common, of any dialect.
func (g gen) addMore(depth int, add func(int, string, func() string)) {
	if depth == 0 {
		return
	}
	sub := func() string { return g.schema(depth - 1) }
	some := func() string {
		return "[" + strings.Join(slices.Collect(func(yield func(string) bool) {
			for range 1 + g.IntN(3) {
				if !yield(sub()) {
					return
				}
			}
		}), ",") + "]"
	}
	names := func() string { return g.pick(`["a"]`, `["a","b"]`, `[]`, `["c"]`) }
	rarely, often := 14, 8
	add(often, "allOf", some)
	add(often, "anyOf", some)
	add(often, "oneOf", some)
	add(rarely, "not", sub)
	add(often, "if", sub)
	add(often, "then", sub)
	add(often, "else", sub)
	add(rarely, "patternProperties", func() string { return `{"` + g.pick("^a", "ä", "[bc]", "") + `":` + sub() + "}" })
	add(rarely, "propertyNames", sub)
	add(rarely, "dependentRequired", func() string { return `{"a":` + names() + `,"b":` + names() + "}" })
	add(rarely, "dependentSchemas", func() string { return `{"a":` + sub() + "}" })
	add(rarely, "dependencies", func() string { return `{"a":` + names() + `,"c":` + sub() + "}" })
	add(rarely, "contains", sub)
	add(rarely, "minContains", func() string { return g.pick("0", "1", "2.0") })
	add(rarely, "maxContains", func() string { return g.pick("0", "1", "2") })
	add(rarely, "uniqueItems", func() string { return g.pick("true", "false") })
	add(rarely, "multipleOf", func() string { return g.pick("2", "0.1", "1e1", "1.5", "3e-1") })
	add(rarely, "unevaluatedProperties", sub)
	add(rarely, "unevaluatedItems", sub)
	add(rarely, "additionalItems", sub)
	add(rarely, "x-enum", func() string { return "[" + g.value(2) + "]" })
	add(rarely, "format", func() string { return g.pick(`"date"`, `"email"`, `"regex"`, `"unknown"`) })
	add(often, "$dynamicRef", func() string { return `"#n"` })
	add(often, "$recursiveRef", func() string { return `"#/$defs/x"` })
	switch g.dialect {
	case draft2020:
		add(rarely, "prefixItems", some)
	default:
		add(rarely, "prefixItems", func() string { return g.pick("true", some()) })
	}
}

// root adds what $ref leads to; it refers to the root only through a property.
func (g gen) root() string {
	depth := 3
	if g.more {
		depth = 2
	}
	s := g.schema(depth)
	if s[0] != '{' {
		return s
	}
	defs := `{"$defs":{"x":{"type":` + g.pick(`"object"`, `["integer","string"]`, `"array"`) + `,"properties":{"a":{"$ref":"#"}}}}`
	if g.more {
		defs = `{"$schema":"https://` + g.dialect + `","$defs":{"n":{"$anchor":"n","$dynamicAnchor":"n","maxItems":2,"items":{"$ref":"#"}},"x":{"type":` +
			g.pick(`"object"`, `["integer","string"]`, `"array"`) + `,"properties":{"a":{"$ref":"#"}}}}`
	}
	if s == "{}" {
		return defs + "}"
	}
	return defs + "," + s[1:]
}

func FuzzVerdict(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		g := gen{Rand: rand.New(rand.NewPCG(seed, 1))}
		raw := g.root()
		compareVerdicts(t, raw, g.values()...)
	})
}

// moreOf generates all keywords, in one of the three dialects.
func moreOf(seed uint64) gen {
	return gen{rand.New(rand.NewPCG(seed, 2)), true, []string{draft2020, draft2019, draft7}[seed%3]}
}

// The same for all keywords of the three dialects.
func FuzzMoreVerdict(f *testing.F) {
	for seed := range uint64(120) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		g := moreOf(seed)
		compareVerdicts(t, g.root(), g.values()...)
	})
}

// The generators must produce what they are for: plans of either kind, and both verdicts.
func TestGeneratorIsUseful(t *testing.T) {
	for _, more := range []bool{false, true} {
		counted, good, bad := 0, 0, 0
		for seed := range uint64(300) {
			g := gen{Rand: rand.New(rand.NewPCG(seed, 1))}
			if more {
				g = moreOf(seed)
			}
			s, err := Compile([]byte(g.root()), nil)
			if err != nil {
				t.Fatal(err)
			}
			if s.counted {
				counted++
			}
			for _, v := range g.values() {
				if s.Validate([]byte(v)) == nil {
					good++
				} else {
					bad++
				}
			}
		}
		if good < 300 || bad < 300 || more && counted < 200 || !more && counted > 100 {
			t.Errorf("of 300 schemas and 2400 values: got %d counted, %d good and %d bad", counted, good, bad)
		}
	}
}

// The quick pass and the explaining pass must agree on any bytes at all.
func FuzzWalk(f *testing.F) {
	f.Add([]byte(callValue))
	f.Add([]byte(`{"message":5,"tags":[1e400,"\ud83d\ude00"],"count":-0.0}`))
	f.Add([]byte("{\"a\\\":[}"))
	s, err := Compile([]byte(callSchema), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		err := s.Validate(value)
		if err != nil && err.Error() == "" {
			t.Fatalf("Validate(%q): refused without a reason", value)
		}
		w := s.walk(value, false)
		w.max = 10
		if w.run(s.plan) != (err == nil) {
			t.Fatalf("Validate(%q): got %v and the other pass differs", value, err)
		}
	})
}

// A keyword whose value has not the form that its dialect asks for makes a schema malformed
// for us if and only if it does for the library's metaschemas. An enum of draft-07 may
// be empty or have equal values all the same; references are another matter.
func TestFormsAreThoseOfTheMetaschemas(t *testing.T) {
	keywords := slices.Sorted(maps.Keys(forms))
	for key := range partial {
		if forms[key] == nil {
			keywords = append(keywords, key)
		}
	}
	junk := []string{`null`, `true`, `1`, `0`, `-1`, `1.5`, `2.0`, `"a"`, `"string"`, `[]`, `["a"]`, `["a","a"]`, `["string"]`, `["string","string"]`, `[1]`, `[{}]`, `[true,{}]`,
		`{}`, `{"a":1}`, `{"a":{}}`, `{"a":["b"]}`, `{"a":["b","b"]}`, `{"a":[1]}`, `{"a":{"type":"x"}}`, `[{"type":"x"}]`, `{"type":"x"}`}
	for _, dialect := range []string{draft7, draft2019, draft2020} {
		for _, key := range append(keywords, "const", "default", "x-mine") {
			for _, v := range junk {
				raw := `{"$schema":"https://` + dialect + `","` + key + `":` + v + `}`
				_, mine := Compile([]byte(raw), nil)
				_, theirs := oracleCompiles(raw)
				loose := key == "enum" && mine == nil || slices.Contains(references, key) && mine != nil
				if (mine == nil) != (theirs == nil) && !loose {
					t.Errorf("%s: got %v, want %v", raw, mine, theirs)
				}
			}
		}
	}
}
