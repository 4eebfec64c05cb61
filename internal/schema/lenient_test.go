package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/clip"
)

// zodEmail is what zod 4.0 and 4.1 write for z.email().
const zodEmail = `^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$`

func lenient(t testing.TB, raw string) *Schema {
	t.Helper()
	s, err := Compile(json.RawMessage(raw), &Options{Lenient: true})
	if err != nil {
		t.Fatalf("Compile(%s): %v", clip.Text(raw, 200), err)
	}
	return s
}

// JSCH-04: a keyword that cannot be checked costs that keyword, and the others hold.
func TestLenient(t *testing.T) {
	tests := []struct {
		name, schema string
		skipped      string // pointers
		yes, no      string // values; "" is none
	}{
		{"zod's email", `{"type":"object","properties":{"to":{"type":"string","format":"email","pattern":"` + zodEmail + `"}},"required":["to"],"additionalProperties":false}`,
			"/properties/to/pattern", `{"to":"a@example.org"}`, `{"to":5}`},
		{"the rest of zod's email", `{"properties":{"to":{"format":"email","pattern":"` + zodEmail + `"}},"additionalProperties":false}`,
			"/properties/to/pattern", `{"to":"a@example.org"}`, `{"to":"a@example.org","x":1}`},
		{"empty enum", `{"type":"string","enum":[]}`, "/enum", `"x"`, `1`},
		{"enum that is no list", `{"enum":"a"}`, "/enum", `"x"`, ""},
		{"no type", `{"properties":{"a":{"type":"integer"}}}`, "", `{"a":1}`, `{"a":"x"}`},
		{"unknown type", `{"type":"object","properties":{"a":{"type":"any","maxLength":1}}}`, "/properties/a/type", `{"a":"x"}`, `{"a":"xy"}`},
		{"required of draft-03", `{"properties":{"a":{"type":"string","required":true}},"required":["b"]}`, "/properties/a/required", `{"b":1}`, `{"a":"x"}`},
		{"exclusive bound of draft-04", `{"minimum":1,"exclusiveMinimum":true}`, "/exclusiveMinimum", `1`, `0`},
		{"property without schema", `{"properties":{"a":null,"b":{"type":"null"}},"additionalProperties":false}`, "/properties/a", `{"a":1}`, `{"c":1}`},
		{"properties that are none", `{"type":"object","properties":[],"additionalProperties":false}`, "/properties", `{"a":1}`, `[]`},
		{"pattern of names", `{"patternProperties":{"^(?=x)":{"type":"null"},"^y":{"type":"string"}},"additionalProperties":false}`,
			"/patternProperties/^(?=x)", `{"x":1,"y":"a"}`, `{"y":1}`},
		{"back-reference", `{"items":{"pattern":"(a)\\1"},"maxItems":1}`, "/items/pattern", `["b"]`, `["b","c"]`},
		{"description of a wrong type", `{"description":5,"not":{"type":"string"}}`, "/description", `1`, `"x"`},
		{"numbers written with a point", `{"minLength":2.0,"maxLength":1e1}`, "", `"ab"`, `"a"`},
		{"empty anyOf", `{"anyOf":[],"type":"string"}`, "/anyOf", `"a"`, `1`},
		{"tuple of older dialects", `{"items":[{"type":"string"}],"additionalItems":false}`, "", `["a",1]`, `[1]`},
		// What would refuse more without the keyword goes with it.
		{"under not", `{"type":"string","not":{"pattern":"(?=a)"}}`, "/not/pattern", `"b"`, `1`},
		{"under if", `{"if":{"pattern":"(?=a)"},"then":{"maxLength":1}}`, "/if/pattern", `"bcd"`, ""},
		{"one of two", `{"oneOf":[{"pattern":"(?=a)"},{"type":"string"}]}`, "/oneOf/0/pattern", `"b"`, ""},
		{"referred to under not", `{"not":{"$ref":"#/$defs/a"},"$defs":{"a":{"pattern":"(?=a)"}}}`, "/$defs/a/pattern", `"b"`, ""},
		{"unevaluated", `{"allOf":[{"properties":7}],"unevaluatedProperties":false}`, "/allOf/0/properties", `{"a":1}`, ""},
	}
	for _, tt := range tests {
		s := lenient(t, tt.schema)
		var skipped []string
		for _, e := range s.Skipped() {
			skipped = append(skipped, e.Pointer)
			if e.Reason == "" || !errors.Is(e, ErrSkipped) {
				t.Errorf("%s: got %v without a reason", tt.name, e)
			}
		}
		if got := strings.Join(skipped, " "); got != tt.skipped {
			t.Errorf("%s: skipped %q, want %q", tt.name, got, tt.skipped)
		}
		if err := s.Validate([]byte(tt.yes)); err != nil {
			t.Errorf("%s: Validate(%s): got %v", tt.name, tt.yes, err)
		}
		if tt.no != "" && s.Validate([]byte(tt.no)) == nil {
			t.Errorf("%s: Validate(%s): got no error", tt.name, tt.no)
		}
		if string(s.Raw()) != tt.schema {
			t.Errorf("%s: Raw is %s", tt.name, s.Raw())
		}
	}
}

// A valid schema is checked in the same way with and without Lenient.
func TestLenientChangesNothingValid(t *testing.T) {
	for _, raw := range []string{callSchema, `{"not":{"type":"string"},"oneOf":[{"minimum":1},{"minimum":2}]}`, `{"enum":[{"a":1}]}`, `true`, `false`,
		`{"properties":{"a":true},"unevaluatedProperties":false}`, `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],"dependencies":{"a":["b"],"c":{}}}`} {
		strict, loose := compile(t, raw), lenient(t, raw)
		if len(loose.Skipped()) > 0 {
			t.Errorf("%s: skipped %v", raw, loose.Skipped())
		}
		for _, v := range []string{callValue, `"x"`, `1`, `3`, `{"a":1.0}`, `{"b":1}`, `[1]`, `["a"]`, `null`} {
			if a, b := strict.Validate([]byte(v)), loose.Validate([]byte(v)); fmt.Sprint(a) != fmt.Sprint(b) {
				t.Errorf("%s of %s: got %v and, lenient, %v", raw, v, a, b)
			}
		}
	}
}

// SECA-48, ROB-5: what is hostile stays refused, and thousands of faults cost little.
func TestLenientHostile(t *testing.T) {
	bad := `{"allOf":[` + strings.Repeat(`{"pattern":"(?=a)","enum":[]},`, 4000) + `{}]}`
	c, err := checkLenient([]byte(bad), false)
	if err != nil || len(c.skipped) != maxSkipped || len(c.dropped) != 8000 || c.steps > 50_000 {
		t.Errorf("many faults: got %v, %d named", err, len(c.skipped))
	}
	for name, raw := range map[string]string{
		"network": `{"$ref":"http://127.0.0.1:1/s"}`, "itself": `{"$ref":"#"}`, "dialect": `{"$schema":"https://example.org/mine"}`,
		"large pattern": `{"pattern":"[ab]{1000}[cd]{1000}(e?f?){999}(x|y|z){900}"}`, "depth": strings.Repeat(`{"items":`, 100) + "{}" + strings.Repeat("}", 100),
		"many patterns": `{"allOf":[` + strings.Repeat(`{"pattern":"a{1000}"},`, 100) + `{}]}`, "text": `"x"`,
	} {
		if _, err := Compile([]byte(raw), &Options{Lenient: true}); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

// TOOL-03: a model gets an object, without what its interface may refuse.
func TestForModel(t *testing.T) {
	tests := []struct{ raw, want string }{
		{`{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer"}}}`, ""},
		{` {"type":"object"} `, ""},
		{`{}`, `{"type":"object"}`},
		{`{"properties":{"b":{},"a":{}}}`, `{"type":"object","properties":{"b":{},"a":{}}}`},
		{`{ "type" : "None", "title": "x" }`, `{"type":"object","title": "x"}`},
		{`{"type":"string"}`, `{"type":"object"}`},
		{`{"type":"object","properties":{"z":{"enum":[],"type":"string"},"a":{"type":"array"},"m":{"pattern":"(?=x)"}}}`,
			`{"type":"object","properties":{"z":{"type":"string"},"a":{"items":{},"type":"array"},"m":{}}}`},
		{`{"type":"object","properties":{"a/b":{"required":true,"default":{"enum":[]}},"n":null}}`, `{"type":"object","properties":{"a/b":{"default":{"enum":[]}}}}`},
		{`{"type":"object","anyOf":[{"enum":[]},{"x":[1, "}",[2]]}]}`, `{"type":"object","anyOf":[{},{"x":[1,"}",[2]]}]}`},
		{`true`, `{"type":"object"}`}, {`[1]`, `{"type":"object"}`}, {`{"a"`, `{"type":"object"}`}, {``, `{"type":"object"}`},
		{`{"$ref":"http://example.org/s","properties":{"a":{"enum":[]}}}`, `{"type":"object","$ref":"http://example.org/s","properties":{"a":{"enum":[]}}}`},
	}
	for _, tt := range tests {
		if tt.want == "" {
			tt.want = tt.raw
		}
		model, _, _ := ForModel(json.RawMessage(tt.raw))
		got := string(model)
		if got != tt.want {
			t.Errorf("ForModel(%s):\n got %s\nwant %s", tt.raw, got, tt.want)
		}
		if again, _, _ := ForModel(model); string(again) != got {
			t.Errorf("ForModel(%s): got %s", got, again)
		}
	}
	for raw, want := range map[string]string{`{"type":["object"],"a":{"b":1}}`: `{"type":"object","a":{"b":1}}`, `{"enum":[],"type":"object"}`: `{"enum":[],"type":"object"}`, `5`: `{"type":"object"}`} {
		if got := string(AsObject(json.RawMessage(raw))); got != want {
			t.Errorf("AsObject(%s): got %s, want %s", raw, got, want)
		}
	}
}

// No text may crash the lenient way, and what it makes for models is a schema.
func FuzzLenient(f *testing.F) {
	for _, s := range []string{callSchema, `{"not":{"pattern":"(?=a)"},"$ref":"#/not"}`, `{"patternProperties":{"(":1},"properties":[]}`, `{"type":"array","enum":[]}`, `{"a":{"b":[{}]}`} {
		f.Add(s, `{"message":"x"}`)
	}
	f.Fuzz(func(t *testing.T, raw, value string) {
		s, err := Compile(json.RawMessage(raw), &Options{MaxWork: 10_000, Lenient: true})
		if strict, strictErr := Compile(json.RawMessage(raw), &Options{MaxWork: 10_000}); strictErr == nil && err == nil && len(s.Skipped()) == 0 {
			if a, b := strict.Validate([]byte(value)), s.Validate([]byte(value)); (a == nil) != (b == nil) {
				t.Fatalf("%q of %q: strict %v, lenient %v", raw, value, a, b)
			}
		}
		model, _, _ := ForModel(json.RawMessage(raw))
		if got := AsObject(model); !json.Valid(got) {
			t.Fatalf("ForModel(%q) is %q", raw, got)
		}
	})
}

// Of values that another program has the last word on nothing is refused that it may take: it may know other formats, and
// fill in defaults. All else holds.
func TestSent(t *testing.T) {
	tests := []struct{ name, schema, yes, no string }{
		{"format", `{"properties":{"at":{"type":"string","format":"date-time"}}}`, `{"at":"tomorrow"}`, `{"at":5}`},
		{"format under not", `{"properties":{"at":{"type":"string","not":{"format":"ipv4"}}}}`, `{"at":"127.0.0.1"}`, `{"at":5}`},
		{"required with a default", `{"type":"object","required":["n","s"],"properties":{"n":{"type":"integer","default":1},"s":{"type":"string"}}}`, `{"s":"x"}`, `{"n":2}`},
		{"a default deeper down", `{"properties":{"a":{"items":{"required":["n"],"properties":{"n":{"default":null}}},"type":"array"}}}`, `{"a":[{}]}`, `{"a":{}}`},
		{"required with a default under if", `{"if":{"required":["n"],"properties":{"n":{"default":1}}},"else":false}`, `{}`, ""},
		{"required alone", `{"required":["n"],"properties":{"n":{"type":"integer"}}}`, `{"n":1}`, `{}`},
		{"a pattern that RE2 has not", `{"properties":{"s":{"pattern":"^(?!x)","type":"string"}}}`, `{"s":"x"}`, `{"s":1}`},
	}
	for _, tt := range tests {
		s, err := Compile(json.RawMessage(tt.schema), &Options{Sent: true})
		if err != nil {
			t.Fatalf("%s: Compile: %v", tt.name, err)
		}
		if err := s.Validate([]byte(tt.yes)); err != nil {
			t.Errorf("%s: Validate(%s): got %v", tt.name, tt.yes, err)
		}
		if tt.no != "" && s.Validate([]byte(tt.no)) == nil {
			t.Errorf("%s: Validate(%s): got no error", tt.name, tt.no)
		}
	}
}

// An error says whether the value is wrong, or could not be looked at.
func TestUnchecked(t *testing.T) {
	costly := `{"items":{"anyOf":[{"type":"string"},{"type":"number"}]}}`
	deep := strings.Repeat("[", maxInstanceDepth+1) + strings.Repeat("]", maxInstanceDepth+1)
	for _, tt := range []struct {
		schema, value string
		unchecked     bool
	}{
		{costly, `[{}]`, false},
		{costly, "[" + strings.Repeat("1,", 100) + "1]", true},
		{costly, deep, true},
		{`{"type":"integer"}`, `"x"`, false},
	} {
		s, err := Compile(json.RawMessage(tt.schema), &Options{MaxWork: 50})
		if err != nil {
			t.Fatal(err)
		}
		var wrong *ValidationError
		if err := s.Validate([]byte(tt.value)); !errors.As(err, &wrong) || wrong.Unchecked != tt.unchecked {
			t.Errorf("Validate(%.20s) by %s: got %v, want one with Unchecked %v", tt.value, tt.schema, err, tt.unchecked)
		}
	}
}
