package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/clip"
)

func compile(t testing.TB, raw string) *Schema {
	t.Helper()
	s, err := Compile(json.RawMessage(raw), nil)
	if err != nil {
		t.Fatalf("Compile(%s): %v", clip.Text(raw, 200), err)
	}
	return s
}

const callSchema = `{"type":"object","properties":{
	"message":{"type":"string","minLength":1},
	"count":{"type":"integer","minimum":1,"maximum":10},
	"tags":{"type":"array","items":{"type":"string"},"maxItems":5}},
	"required":["message","count"],"additionalProperties":false}`

// The common keywords, and the text of their problems. The library must agree on the verdict.
func TestValidate(t *testing.T) {
	tests := []struct{ schema, value, want string }{
		{callSchema, `{"message":"hi","count":3,"tags":["a","b"]}`, ""},
		{callSchema, `{"message":"hi"}`, `missing property "count"`},
		{callSchema, `{}`, `missing property "count"; missing property "message"`},
		{callSchema, `{"message":"","count":0}`, "/message: must have at least 1 characters, has 0; /count: must be at least 1"},
		{callSchema, `{"message":"x","count":3,"nr":1}`, `unknown property "nr"; allowed: count, message, tags`},
		{callSchema, `{"message":5,"count":"3","tags":[1,"a",null]}`,
			"/message: must be string, is number; /count: must be integer, is string; /tags/0: must be string, is number; /tags/2: must be string, is null"},
		{callSchema, `[]`, "must be object, is array"},
		{callSchema, `{"me\u0073sage":"x","count":1}`, ""},
		{`true`, `{"a":[1]}`, ""},
		{`false`, `1`, "is not allowed"},
		{`{}`, `null`, ""},
		{`{"properties":{"a":false}}`, `{"a":1}`, "/a: is not allowed"},
		{`{"properties":{"a/b~c":{"type":"null"}}}`, `{"a/b~c":1}`, "/a~1b~0c: must be null, is number"},
		{`{"required":["a"],"additionalProperties":false}`, `{"a":1}`, `unknown property "a"; none is allowed`},
		{`{"additionalProperties":{"type":"integer"}}`, `{"a":1,"b":"x"}`, "/b: must be integer, is string"},
		{`{"minProperties":1,"maxProperties":2}`, `{}`, "must have at least 1 properties, has 0"},
		{`{"minProperties":1,"maxProperties":2}`, `{"a":1,"b":2,"c":3}`, "must have at most 2 properties, has 3"},
		{`{"type":["string","null"]}`, `null`, ""},
		{`{"type":["string","null"]}`, `1`, "must be null or string, is number"},
		// integer means integral, however it is written
		{`{"type":"integer"}`, `1.0`, ""},
		{`{"type":"integer"}`, `10e-1`, ""},
		{`{"type":"integer"}`, `1.5`, "must be integer, is a number with a fraction"},
		{`{"type":"integer"}`, `123456789012345678901234567890`, ""},
		{`{"type":"number"}`, `-0`, ""},
		{`{"type":"number"}`, `"1"`, "must be number, is string"},
		{`{"maximum":9007199254740993}`, `9007199254740994`, "must be at most 9007199254740993"},
		{`{"maximum":9007199254740993}`, `9007199254740993.0`, ""},
		{`{"minimum":0.1}`, `0.1`, ""},
		{`{"minimum":0.1}`, `0.09999999999999999999999`, "must be at least 0.1"},
		{`{"minimum":-5}`, `-5.1`, "must be at least -5"},
		{`{"exclusiveMinimum":5}`, `5`, "must be more than 5"},
		{`{"exclusiveMaximum":5}`, `5.0`, "must be less than 5"},
		{`{"exclusiveMaximum":1e3}`, `999`, ""},
		// lengths are code points
		{`{"maxLength":1}`, `"\ud83d\ude00"`, ""},
		{`{"maxLength":1}`, `"😀"`, ""},
		{`{"maxLength":1}`, `"ab"`, "must have at most 1 characters, has 2"},
		{`{"minLength":2}`, `"\ud83d\ude00"`, "must have at least 2 characters, has 1"},
		{`{"minLength":3}`, `"\n\u0041b"`, ""},
		{`{"pattern":"^a+$"}`, `"aaa"`, ""},
		{`{"pattern":"^a+$"}`, `"\u0061a"`, ""},
		{`{"pattern":"^a+$"}`, `"ab"`, "must match the pattern ^a+$"},
		{`{"pattern":"^a+$"}`, `1`, ""},
		{`{"minItems":1}`, `[]`, "must have at least 1 items, has 0"},
		{`{"maxItems":1}`, `[{"a":[]},2]`, "must have at most 1 items, has 2"},
		{`{"items":{"items":{"type":"boolean"}}}`, `[[true],[false,"x"]]`, "/1/1: must be boolean, is string"},
		// enum and const compare values, not texts
		{`{"enum":["a","b",1,null]}`, `"\u0061"`, ""},
		{`{"enum":["a","b",1,null]}`, `1.0`, ""},
		{`{"enum":["a","b",1,null]}`, `null`, ""},
		{`{"enum":["a","b",1,null]}`, `"c"`, `must be one of "a", "b", 1, null`},
		{`{"enum":["a","b",1,null]}`, `false`, `must be one of "a", "b", 1, null`},
		{`{"enum":["a"]}`, `{}`, `must be "a"`},
		{`{"const":100}`, `1e2`, ""},
		{`{"const":true}`, `false`, "must be true"},
		{`{"type":"string","enum":[1]}`, `"x"`, "must be 1"},
		// references, also through themselves
		{`{"$defs":{"n":{"type":"integer"}},"items":{"$ref":"#/$defs/n"}}`, `[1,"a"]`, "/1: must be integer, is string"},
		{`{"$ref":"#/$defs/a","minLength":2,"$defs":{"a":{"type":"string"}}}`, `"x"`, "must have at least 2 characters, has 1"},
		{`{"properties":{"next":{"$ref":"#"},"v":{"type":"integer"}},"additionalProperties":false}`, `{"v":1,"next":{"next":{"v":"x"}}}`, "/next/next/v: must be integer, is string"},
		{`{"$id":"https://example.org/s","items":{"$ref":"https://example.org/s#/$defs/a"},"$defs":{"a":{"type":"string"}}}`, `[1]`, "/0: must be string, is number"},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","items":{"$ref":"#/definitions/a","maxLength":1},"definitions":{"a":{"type":"string"}}}`, `["abc"]`, ""},
		// formats are asserted
		{`{"type":"string","format":"email"}`, `"nobody"`, "must be a valid email"},
		{`{"type":"string","format":"date-time"}`, `"2026-01-02T03:04:05Z"`, ""},
		// unknown keywords and formats do not constrain (JSCH-04)
		{`{"x-mcp-header":"A","format":"int32","nullable":true}`, `1`, ""},
	}
	for _, tt := range tests {
		s := compile(t, tt.schema)
		if s.counted {
			t.Errorf("%s: got more than the common keywords", tt.schema)
		}
		text := ""
		if err := s.Validate([]byte(tt.value)); err != nil {
			text = err.Error()
		}
		if text != tt.want {
			t.Errorf("%s of %s:\n got %q\nwant %q", tt.schema, tt.value, text, tt.want)
		}
		if err := countedOf(t, tt.schema).Validate([]byte(tt.value)); (err == nil) != (tt.want == "") {
			t.Errorf("%s of %s: counted, got %v, want %q", tt.schema, tt.value, err, tt.want)
		}
		if err := oracle(t, tt.schema)(tt.value); (err == nil) != (tt.want == "") {
			t.Errorf("%s of %s: the library says %v, want %q", tt.schema, tt.value, err, tt.want)
		}
	}
}

// Schemas with more than the common keywords.
func TestValidateMore(t *testing.T) {
	tests := []struct{ schema, value, want string }{
		{`{"anyOf":[{"type":"string"},{"type":"null"}]}`, `null`, ""},
		{`{"anyOf":[{"type":"string"},{"type":"null"}]}`, `1`, "matches none of the allowed forms: must be string, is number | must be null, is number"},
		{`{"properties":{"a":{"oneOf":[{"required":["x"]},{"required":["y"]}]}}}`, `{"a":{}}`,
			`/a: matches none of the allowed forms: missing property "x" | missing property "y"`},
		{`{"oneOf":[{"minimum":1},{"minimum":2}]}`, `3`, "matches more than one of the forms of which exactly one is allowed"},
		{`{"allOf":[{"minimum":5},{"type":"string"}]}`, `3`, "must be at least 5; must be string, is number"},
		{`{"not":{"type":"string"}}`, `"x"`, "has a form that is not allowed"},
		{`{"if":{"type":"string"},"then":{"minLength":2}}`, `"x"`, "must have at least 2 characters, has 1"},
		{`{"multipleOf":0.1}`, `0.3`, ""},
		{`{"multipleOf":0.1}`, `0.35`, "must be a multiple of 0.1"},
		{`{"uniqueItems":true}`, `[1,1.0]`, "must have no equal items, but 0 and 1 are"},
		{`{"allOf":[{"format":"uri"}],"format":"email"}`, `"a@example.org"`, "must be a valid uri"},
		{`{"prefixItems":[{"type":"string"}],"items":false}`, `["a",1]`, "/1: is not allowed"},
		{`{"patternProperties":{"^x":{"type":"string"}},"additionalProperties":false}`, `{"x1":1,"y":2}`, `unknown property "y"; /x1: must be string, is number`},
		{`{"propertyNames":{"maxLength":2}}`, `{"abc":1}`, `property name "abc" is not allowed`},
		{`{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, "properties 'b' required, if 'a' exists"},
		{`{"contains":{"type":"string"}}`, `[1]`, "no items match contains schema"},
		{`{"contains":{"type":"string"},"minContains":2}`, `[1]`, "must have at least 2 items that match the contains schema, has none"},
		{`{"contains":{"type":"string"},"minContains":2}`, `[1,"a"]`, "must have at least 2 items that match the contains schema, has 1: at 1"},
		{`{"contains":{"type":"string"},"minContains":0,"maxContains":1}`, `["a",1,"b"]`, "must have at most 1 items that match the contains schema, has 2: at 0, 2"},
		{`{"dependentSchemas":{"a":{"required":["b"]}}}`, `{"a":1}`, `missing property "b"`},
		{`{"enum":[1,2],"const":2}`, `1`, "must be 2"},
		{`{"uniqueItems":true}`, `[{"a":1,"b":[2]},3,{"b":[2.0],"\u0061":1}]`, "must have no equal items, but 0 and 2 are"},
		{`{"properties":{"a":true},"unevaluatedProperties":false}`, `{"b":1}`, "/b: is not allowed"},
		// what a form that failed has evaluated is not known, so that it alone is named
		{`{"oneOf":[{"required":["a"],"properties":{"a":{}}},{"required":["b"]}],"unevaluatedProperties":false}`, `{"c":1}`, `matches none of the allowed forms: missing property "a" | missing property "b"`},
		{`{"properties":{"a":{"type":"string"}},"allOf":[true],"additionalProperties":false}`, `{"b":1,"a":2}`, `unknown property "b"; allowed: a; /a: must be string, is number`},
		{`{"anyOf":[{"required":["a"]},{"properties":{"b":true}}],"unevaluatedProperties":false}`, `{"b":1}`, ""},
		{`{"prefixItems":[true],"contains":{"const":2},"unevaluatedItems":false}`, `[1,2,3]`, "/2: is not allowed"},
		// what a dialect does not know does not constrain
		{`{"$schema":"http://json-schema.org/draft-07/schema#","not":false,"prefixItems":[false],"dependentRequired":{"a":["b"]},"unevaluatedItems":false,"minContains":"x","contains":true}`, `[1]`, ""},
		{`{"$schema":"https://json-schema.org/draft/2019-09/schema","items":[true,{"type":"string"}],"additionalItems":{"type":"null"}}`, `[1,2,3]`, "/1: must be string, is number; /2: must be null, is number"},
		{`{"enum":[{"a":1},[2]]}`, `{"a":1.0}`, ""},
		{`{"enum":[{"a":1},[2]]}`, `{"a":2}`, `must be one of {"a":1}, [2]`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],"additionalItems":false}`, `["a",1]`, "last 1 additionalItem(s) not allowed"},
		{`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"properties":{"a":{"$recursiveRef":"#"}},"unevaluatedProperties":false}`, `{"a":{"a":{"b":1}}}`, "/a/a/b: is not allowed"},
		{`{"$dynamicAnchor":"n","properties":{"a":{"$dynamicRef":"#n"}},"unevaluatedProperties":false}`, `{"a":{"b":1}}`, "/a/b: is not allowed"},
		{`{"$id":"https://example.org/s","anyOf":[{"$ref":"https://example.org/s#/$defs/a"}],"$defs":{"a":{"type":"string"}}}`, `"x"`, ""},
	}
	for _, tt := range tests {
		s := compile(t, tt.schema)
		if !s.counted {
			t.Errorf("%s: is not counted", tt.schema)
		}
		for range 2 { // the second time with a used budget
			text := ""
			if err := s.Validate([]byte(tt.value)); err != nil {
				text = err.Error()
			}
			if text != tt.want {
				t.Errorf("%s of %s:\n got %q\nwant %q", tt.schema, tt.value, text, tt.want)
			}
		}
	}
}

// More properties may be required than a plan has bits for.
func TestManyRequired(t *testing.T) {
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprintf(`"p%02d"`, i)
	}
	value := "{" + strings.Join(names, ":1,") + ":1}"
	s := compile(t, `{"required":[`+strings.Join(names, ",")+"]}")
	if err := s.Validate([]byte(value)); err != nil {
		t.Errorf("all: got %v", err)
	}
	for _, gone := range []string{"p03", "p63", "p64", "p99"} {
		err := s.Validate([]byte(strings.Replace(value, gone, "x", 1)))
		if want := fmt.Sprintf("missing property %q", gone); err == nil || err.Error() != want {
			t.Errorf("without %s: got %v, want %s", gone, err, want)
		}
	}
}

func TestProblemsAreBounded(t *testing.T) {
	value := `{"x":[` + strings.Repeat(`1,`, 5000) + `1]}`
	for _, raw := range []string{`{"properties":{"x":{"items":{"type":"string"}}}}`, `{"properties":{"x":{"items":{"allOf":[{"type":"string"}]}}}}`} {
		s, err := Compile([]byte(raw), &Options{MaxProblems: 3})
		if err != nil {
			t.Fatal(err)
		}
		got, _ := errors.AsType[*ValidationError](s.Validate([]byte(value)))
		if got == nil || len(got.Problems) != 3 || !got.More || !strings.HasSuffix(got.Error(), "; and more") {
			t.Errorf("%s: got %v, want 3 problems and more", raw, got)
		}
	}
}

// Text that is not JSON is refused and does no harm, whatever the schema.
func TestValidateMalformed(t *testing.T) {
	for _, raw := range []string{callSchema, `{"anyOf":[{}]}`} {
		s := compile(t, raw)
		for _, v := range []string{"", " ", "{", `{"message"`, `{"message":`, `{"message":"x`, `{"message":"x","count":1`, `{"message":"x","count":1}x`,
			`{"message":"x" "count":1}`, `{"count":[`, `}`, `]`, `"`, "\x00", `{1:2}`, `{"tags":["a",]}`, `{"tags":["a"`} {
			if err := s.Validate([]byte(v)); err == nil {
				t.Errorf("Validate(%q): got no error", v)
			}
		}
	}
}

func TestDefaultsAndRaw(t *testing.T) {
	raw := `{"properties":{"a":{"default":{"x":1.0}},"b":{"type":"string"},"c":{"default":null}}}`
	s := compile(t, raw)
	d := s.Defaults()
	if len(d) != 2 || string(d["a"]) != `{"x":1.0}` || string(d["c"]) != "null" {
		t.Errorf("Defaults: got %s", d)
	}
	if string(s.Raw()) != raw { // JSCH-04
		t.Errorf("Raw: got %s, want %s", s.Raw(), raw)
	}
	if d := compile(t, `true`).Defaults(); d != nil {
		t.Errorf("Defaults of true: got %v", d)
	}
}

func TestValidateDoesNotAllocate(t *testing.T) {
	s := compile(t, callSchema)
	for _, v := range []string{callValue, `{"message":"` + strings.Repeat("x", 64<<10) + `","count":1}`} {
		if n := testing.AllocsPerRun(100, func() {
			if err := s.Validate([]byte(v)); err != nil {
				t.Fatal(err)
			}
		}); n > 1 { // []byte(v) is one
			t.Errorf("%d bytes: got %v allocations, want none", len(v), n-1)
		}
	}
}

const callValue = `{"message":"hello there, this is a message of some length","count":3,"tags":["alpha","beta"]}`

func BenchmarkValidate(b *testing.B) {
	values := map[string]string{
		"100B":   callValue,
		"64KiB":  `{"message":"` + strings.Repeat("x", 64<<10) + `","count":3}`,
		"1000it": `{"message":"x","count":3,"tags":[` + strings.Repeat(`"alpha",`, 999) + `"alpha"]}`,
	}
	schema := strings.Replace(callSchema, `,"maxItems":5`, "", 1)
	for _, size := range []string{"100B", "64KiB", "1000it"} {
		for kind, s := range map[string]*Schema{"plan": compile(b, schema), "counted": countedOf(b, schema)} {
			b.Run(fmt.Sprintf("%s/%s", size, kind), func(b *testing.B) {
				v := []byte(values[size])
				b.ReportAllocs()
				for b.Loop() {
					if err := s.Validate(v); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	for name, raw := range map[string]string{"plan": callSchema, "counted": `{"anyOf":[` + callSchema + `]}`} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Compile([]byte(raw), nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
