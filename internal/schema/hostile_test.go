package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// SECA 48, JSCH-01, JSCH-02, JSCH-03, ROB-5: hostile schemas are refused, with
// a reason, and without work beyond their size.
func TestHostileSchemas(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret.json")
	if err := os.WriteFile(secret, []byte(`{"type":"string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	doubling := func(levels int, last string) string {
		var b strings.Builder
		b.WriteString(`{"$ref":"#/$defs/l0","$defs":{`)
		for i := range levels {
			fmt.Fprintf(&b, `"l%d":{"allOf":[{"$ref":"#/$defs/l%d"},{"$ref":"#/$defs/l%d"}]},`, i, i+1, i+1)
		}
		fmt.Fprintf(&b, `"l%d":%s}}`, levels, last)
		return b.String()
	}
	chain := func(n int) string {
		var b strings.Builder
		b.WriteString(`{"$ref":"#/$defs/l0","$defs":{`)
		for i := range n {
			fmt.Fprintf(&b, `"l%d":{"$ref":"#/$defs/l%d"},`, i, i+1)
		}
		fmt.Fprintf(&b, `"l%d":{}}}`, n)
		return b.String()
	}
	nested := func(n int) string { return strings.Repeat(`{"items":`, n) + "{}" + strings.Repeat("}", n) }
	tests := []struct {
		name, schema string
		want         error
		text         string // part of the message
	}{
		{"self reference", `{"$ref":"#"}`, ErrReference, "refers to itself"},
		{"cycle of two", `{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}}}`, ErrReference, "refers to itself"},
		{"dynamic self reference", `{"$dynamicAnchor":"x","anyOf":[{"$dynamicRef":"#x"}]}`, ErrReference, "refers to itself"},
		{"recursive self reference", `{"$schema":"https://json-schema.org/draft/2019-09/schema","anyOf":[{"$recursiveRef":"#"}]}`, ErrReference, "refers to itself"},
		{"doubling allOf", doubling(20, `{"type":"string"}`), ErrTooLarge, "ways to evaluate"},
		{"doubling allOf of 1000 levels", doubling(1000, `{}`), ErrTooLarge, "one value"},
		{"long chain", chain(1000), ErrTooLarge, "in a row"},
		{"file", `{"$ref":"file://` + secret + `"}`, ErrReference, "leads out of the schema"},
		{"network", `{"$ref":"http://127.0.0.1:1/s"}`, ErrReference, "nothing is ever fetched"},
		{"relative file", `{"items":{"$ref":"other.json#/x"}}`, ErrReference, "leads out"},
		{"network below an id", `{"$id":"https://example.org/a","$ref":"https://example.org/ab"}`, ErrReference, "leads out"},
		{"dynamic network", `{"$dynamicRef":"https://example.org/s#x"}`, ErrReference, "leads out"},
		{"embedded id", `{"items":{"$id":"https://example.org/b","$ref":"#"}}`, ErrReference, "embedded"},
		{"nowhere", `{"$ref":"#/$defs/none"}`, ErrReference, "there is nothing"},
		{"no anchor", `{"$ref":"#none"}`, ErrReference, "no anchor"},
		{"into data", `{"const":{"type":"string"},"items":{"$ref":"#/const"}}`, ErrReference, "is data"},
		{"into a number", `{"minimum":1,"items":{"$ref":"#/minimum"}}`, ErrReference, "is not a schema"},
		{"reference to a number", `{"$ref":1}`, ErrMalformed, "must be a string"},
		{"bytes", `{"description":"` + strings.Repeat("x", 256<<10) + `"}`, ErrTooLarge, "bytes"},
		{"depth", nested(100), ErrTooLarge, "nested too deeply"},
		{"20,000 deep", nested(20_000), ErrMalformed, "not valid JSON"},
		{"subschemas", `{"allOf":[` + strings.Repeat("{},", 6000) + `{}]}`, ErrTooLarge, "subschemas"},
		{"giant enum", `{"enum":[` + strings.Repeat("1,", 120_000) + `1]}`, ErrTooLarge, "too many values"},
		{"giant exponent", `{"minimum":1e1000000000}`, ErrTooLarge, "exponent"},
		{"giant number", `{"minimum":` + strings.Repeat("1", 5000) + `}`, ErrTooLarge, "too long"},
		{"look-ahead", `{"pattern":"(?=a)b"}`, ErrPattern, "cannot be checked"},
		{"back-reference", `{"patternProperties":{"(a)\\1":{}}}`, ErrPattern, "cannot be checked"},
		{"broken pattern", `{"properties":{"a":{"pattern":"("}}}`, ErrPattern, "/properties/a/pattern"},
		{"nested repeats", `{"pattern":"((a{100}){100}){100}"}`, ErrPattern, "cannot be checked"},
		{"large pattern", `{"pattern":"[ab]{1000}[cd]{1000}(e?f?){999}(x|y|z){900}"}`, ErrTooLarge, "too large a pattern"},
		{"many patterns", `{"allOf":[` + strings.Repeat(`{"pattern":"a{1000}"},`, 100) + `{}]}`, ErrTooLarge, "too many"},
		{"draft-04", `{"$schema":"http://json-schema.org/draft-04/schema#"}`, ErrDialect, "draft-07"},
		{"own dialect", `{"$schema":"https://example.org/mine"}`, ErrDialect, "example.org/mine"},
		{"dialect of a wrong type", `{"$schema":5}`, ErrDialect, ""},
		{"mixed dialects", `{"items":{"$schema":"http://json-schema.org/draft-07/schema#"}}`, ErrDialect, "another dialect"},
		{"not JSON", `{"type":`, ErrMalformed, "not valid JSON"},
		{"nothing", ``, ErrMalformed, "not valid JSON"},
		{"duplicate name", `{"type":"string","type":"number"}`, ErrMalformed, "not valid JSON"},
		{"a number", `5`, ErrMalformed, "must be an object"},
		{"null", `null`, ErrMalformed, "must be an object"},
		{"unknown type", `{"type":"text"}`, ErrMalformed, "/type"},
		{"wrong properties", `{"properties":[]}`, ErrMalformed, "/properties: must be object"},
		{"wrong required", `{"required":"a"}`, ErrMalformed, "/required: must be array"},
		{"null property", `{"properties":{"a":null}}`, ErrMalformed, "/properties/a"},
		{"negative length", `{"minLength":-1}`, ErrMalformed, "/minLength: must be at least 0"},
		{"description of a wrong type", `{"description":5}`, ErrMalformed, "/description"},
	}
	for _, tt := range tests {
		_, err := Compile([]byte(tt.schema), nil)
		if !errors.Is(err, tt.want) || !strings.Contains(fmt.Sprint(err), tt.text) {
			t.Errorf("%s: got %v, want %v with %q", tt.name, err, tt.want, tt.text)
		}
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("%s: the message has %d bytes", tt.name, len(err.Error()))
		}
		c := &checker{}
		_ = c.run([]byte(tt.schema))
		if c.steps > 4*len(tt.schema)+10 || c.steps > 50_000 {
			t.Errorf("%s: %d steps for %d bytes", tt.name, c.steps, len(tt.schema))
		}
	}
}

// What only an instance can blow up is stopped by the budget, counted in
// evaluations: a doubling for each level of the instance, and arrays made to
// be compared with each other.
func TestHostileWork(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	collide := func(n int) string {
		items := make([]string, n)
		for i := range items { // strings whose hashes the library feeds alike, split elsewhere
			items[i] = `["` + strings.Repeat(`x`, i) + `\u0004` + strings.Repeat("y", n-i) + `",""]`
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	alt := func(kind string) string {
		return `{"` + kind + `":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}},"minProperties":0}]}`
	}
	tests := []struct{ name, schema, value string }{
		{"doubling by allOf", alt("allOf"), deep(60)},
		{"doubling by oneOf", alt("oneOf"), deep(60)},
		{"doubling under not", `{"not":` + strings.ReplaceAll(alt("allOf"), `"#"`, `"#/not"`) + `}`, deep(60)},
		{"failing doubling under not", `{"not":{"anyOf":[{"properties":{"a":{"$ref":"#/not"}},"allOf":[{"required":["b"]}]},{"properties":{"a":{"$ref":"#/not"}},"allOf":[{"required":["c"]}]}]}}`, deep(60)},
		{"doubling in draft-07", `{"$schema":"http://json-schema.org/draft-07/schema#",` + alt("allOf")[1:], deep(60)},
		{"wide anyOf over many items", `{"items":{"anyOf":[` + strings.Repeat(`{"type":"string"},`, 1000) + `{"type":"null"}]}}`, "[" + strings.Repeat("1,", 5000) + "1]"},
		{"uniqueItems", `{"uniqueItems":true}`, collide(3000)},
		{"many patternProperties", `{"patternProperties":{` + manyPatterns(500) + `}}`, manyMembers(2000)},
		{"long text, large pattern", `{"anyOf":[{"pattern":"(a|b|c|d){500}x"}]}`, `"` + strings.Repeat("a", 100_000) + `"`},
		{"long text, large pattern, planned", `{"pattern":"(a|b|c|d){500}x"}`, `"` + strings.Repeat("a", 100_000) + `"`},
		{"many values", `{"anyOf":[{}]}`, "[" + strings.Repeat("[],", 200_000) + "[]]"},
		{"deep value", `{"anyOf":[{}]}`, strings.Repeat("[", 5000) + strings.Repeat("]", 5000)},
		{"deep value, planned", `{"items":{"$ref":"#"}}`, strings.Repeat("[", 5000) + strings.Repeat("]", 5000)},
		{"costly numbers", `{"items":{"multipleOf":0.01}}`, "[" + strings.Repeat("1e-999,", 5000) + "1]"},
		{"long text, many subschemas", `{"allOf":[` + strings.Repeat(`{"minLength":1},`, 4000) + `{}]}`, `"` + strings.Repeat("a", 1<<20) + `"`},
		{"long number, many subschemas", `{"allOf":[` + strings.Repeat(`{"minimum":1},`, 4000) + `{}]}`, strings.Repeat("1", 1<<20)},
		{"much space, many subschemas", `{"allOf":[` + strings.Repeat(`{"maxProperties":1},`, 4000) + `{}]}`, "{" + strings.Repeat(" ", 1<<20) + "}"},
		{"long name, many subschemas", `{"allOf":[` + strings.Repeat(`{"dependentRequired":{"a":["b"]}},`, 4000) + `{}]}`, `{"` + strings.Repeat("a", 1<<20) + `":1}`},
		{"long pattern in a value", `{"format":"regex"}`, `"` + strings.Repeat("(", 2<<20) + `"`},
		{"impossible number", `{"multipleOf":0.01}`, "1e1000000000"},
		{"impossible number, planned", `{"minimum":1}`, "1e99999999999999999999"},
	}
	for _, tt := range tests {
		err := compile(t, tt.schema).Validate([]byte(tt.value))
		if _, ok := errors.AsType[*ValidationError](err); !ok {
			t.Errorf("%s: got %v, want a refusal", tt.name, err)
		}
	}
	// The longest ways through a schema, for the deepest value, end, and not by the stack.
	longest, links := `{"$ref":"#/$defs/l0","$defs":{`, maxChain/2-3
	for i := range links {
		longest += fmt.Sprintf(`"l%d":{"anyOf":[{"$ref":"#/$defs/l%d"}]},`, i, i+1)
	}
	longest += fmt.Sprintf(`"l%d":{"not":{"not":{"properties":{"a":{"$ref":"#"}}}}}}}`, links)
	if err := compile(t, longest).Validate([]byte(deep(maxInstanceDepth))); err != nil {
		t.Errorf("the longest ways: got %v", err)
	}
	// The same schemas are no trouble with a value of a usual size.
	if err := compile(t, alt("allOf")).Validate([]byte(deep(8))); err != nil {
		t.Errorf("8 levels: got %v", err)
	}
}

func manyPatterns(n int) string {
	p := make([]string, n)
	for i := range p {
		p[i] = fmt.Sprintf(`"^k%dx":{}`, i)
	}
	return strings.Join(p, ",")
}

func manyMembers(n int) string {
	p := make([]string, n)
	for i := range p {
		p[i] = fmt.Sprintf(`"m%d":1`, i)
	}
	return "{" + strings.Join(p, ",") + "}"
}

// The budget counts what is evaluated: doubling the levels of a doubling schema squares
// the work until it is cut off.
func TestBudgetCounts(t *testing.T) {
	s := compile(t, `{"allOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`)
	used := func(levels int) int {
		w := s.walk([]byte(strings.Repeat(`{"a":`, levels)+"1"+strings.Repeat("}", levels)), true)
		w.run(s.plan)
		return s.opts.MaxWork - w.left
	}
	if a, b := used(3), used(6); b < 6*a {
		t.Errorf("work for 3 and 6 levels: got %d and %d, want 8 times as much", a, b)
	}
	// Cut off, it ends soon: what is left after the last unit is the way out.
	if n, limit := used(60), s.opts.MaxWork; n < limit || n > limit+limit/10 {
		t.Errorf("work for 60 levels: got %d, want little more than %d", n, limit)
	}
}

// No schema and no value may crash, hang or be both refused and accepted.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{callSchema, `{"$ref":"#"}`, `{"anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"pattern":"a+"}}}`, `{"$id":"x","$ref":"x#/a","a":{}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"$ref":"#a"}],"definitions":{"a":{"$id":"#a"}}}`, `{"format":"date","uniqueItems":true,"unevaluatedItems":false}`,
		`{"$dynamicAnchor":"a","not":{"properties":{"x":{"$dynamicRef":"#a"}}}}`} {
		f.Add(s, `{"message":"x","tags":[1,1],"x":{}}`)
	}
	f.Fuzz(func(t *testing.T, raw, value string) {
		s, err := Compile(json.RawMessage(raw), &Options{MaxWork: 10_000})
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Fatalf("Compile(%q): got %T %v", raw, err, err)
			}
			return
		}
		for range 2 {
			err = s.Validate([]byte(value))
			if failed, ok := errors.AsType[*ValidationError](err); err != nil && (!ok || len(failed.Problems) == 0) {
				t.Fatalf("Validate(%q, %q): got %T %v", raw, value, err, err)
			}
		}
	})
}
