package schema

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The plan and the library must give the same verdict on whatever both can do.
// The library is used as it comes here, without our counting formats.
func compareVerdicts(t *testing.T, raw, value string) {
	t.Helper()
	s, err := Compile([]byte(raw), nil)
	if err != nil {
		t.Fatalf("Compile(%s): %v", raw, err)
	}
	schemaDoc, err := jsonschema.UnmarshalJSON(strings.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	lib := jsonschema.NewCompiler()
	lib.UseLoader(noLoader{})
	if err := lib.AddResource(location, schemaDoc); err != nil {
		t.Fatal(err)
	}
	want, err := lib.Compile(location)
	if err != nil {
		t.Fatalf("the library does not compile %s: %v", raw, err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
	if err != nil {
		t.Fatal(err)
	}
	mine, theirs := s.Validate([]byte(value)), want.Validate(doc)
	if (mine == nil) != (theirs == nil) {
		t.Fatalf("schema %s\nvalue %s\ngot  %v\nwant %v", raw, value, mine, theirs)
	}
	counted := generalOf(t, raw).Validate([]byte(value))
	if (counted == nil) != (theirs == nil) {
		t.Fatalf("schema %s\nvalue %s\ncounted %v\nwant %v", raw, value, counted, theirs)
	}
}

// gen makes schemas of the plan's keywords, and values near them.
type gen struct{ *rand.Rand }

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
	add(8, "enum", func() string { return "[" + g.scalar() + "," + g.scalar() + "]" })
	add(12, "const", g.scalar)
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
	return "{" + strings.Join(parts, ",") + "}"
}

// root adds what $ref leads to; it refers to the root only through a property.
func (g gen) root() string {
	s := g.schema(3)
	if s[0] != '{' {
		return s
	}
	defs := `{"$defs":{"x":{"type":` + g.pick(`"object"`, `["integer","string"]`, `"array"`) + `,"properties":{"a":{"$ref":"#"}}}}`
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
		g := gen{rand.New(rand.NewPCG(seed, 1))}
		raw := g.root()
		for range 8 {
			compareVerdicts(t, raw, g.value(3))
		}
	})
}

// The generator must produce what it is for: plans, and both verdicts.
func TestGeneratorIsUseful(t *testing.T) {
	plans, good, bad := 0, 0, 0
	for seed := range uint64(300) {
		g := gen{rand.New(rand.NewPCG(seed, 1))}
		s, err := Compile([]byte(g.root()), nil)
		if err != nil {
			t.Fatal(err)
		}
		if s.plan != nil {
			plans++
		}
		for range 8 {
			if s.Validate([]byte(g.value(3))) == nil {
				good++
			} else {
				bad++
			}
		}
	}
	if plans < 200 || good < 300 || bad < 300 {
		t.Errorf("of 300 schemas and 2400 values: got %d plans, %d good and %d bad", plans, good, bad)
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
		w := walker{data: value, steps: maxPatternSteps, max: 10}
		if w.run(s.plan) != (err == nil) {
			t.Fatalf("Validate(%q): got %v and the other pass differs", value, err)
		}
	})
}
