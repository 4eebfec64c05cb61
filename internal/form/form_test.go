package form

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// object wraps properties into the schema of a form.
func object(properties string, required ...string) json.RawMessage {
	names, _ := jsonx.Marshal(required)
	return json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{` + properties + `},"required":` + string(names) + `}`)
}

func parse(t *testing.T, schema json.RawMessage) *Form {
	t.Helper()
	f, err := Parse(schema, mcp.Latest)
	if err != nil {
		t.Fatalf("Parse(%s): %v", schema, err)
	}
	return f
}

// one returns the only field of a form.
func one(t *testing.T, property string) *Field {
	t.Helper()
	return &parse(t, object(`"x":`+property)).Fields[0]
}

// Every kind of property that ELIC-07 names, in the order of the text (ELIC-06).
func TestParse(t *testing.T) {
	f := parse(t, object(`
		"zip":{"type":"string","title":"ZIP","description":"Five digits","minLength":5,"maxLength":5,"pattern":"^[0-9]+$","default":"12345"},
		"mail":{"type":"string","format":"email","x-note":{"any":[1]}},
		"age":{"type":"integer","minimum":18,"maximum":150,"default":30},
		"score":{"type":"number","minimum":-0.5,"default":95.5},
		"news":{"type":"boolean","default":true},
		"old":{"type":"string","enum":["a","b"],"enumNames":["Alpha","Beta"],"default":"b"},
		"plain":{"type":"string","enum":["a","b"]},
		"titled":{"type":"string","oneOf":[{"const":"#f00","title":"Red"},{"const":"#0f0","title":"Green"}],"default":"#0f0"},
		"many":{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string","enum":["x","y","z"]},"default":["x","z"]},
		"manyTitled":{"type":"array","items":{"anyOf":[{"const":"x","title":"Ex"}]}}`, "mail", "age"))
	want := []Field{
		{Name: "zip", Title: "ZIP", Description: "Five digits", Kind: String, MinLength: 5, MaxLength: 5, Pattern: "^[0-9]+$", Default: json.RawMessage(`"12345"`)},
		{Name: "mail", Kind: String, Format: "email", MaxLength: -1, Required: true},
		{Name: "age", Kind: Integer, Min: "18", Max: "150", Default: json.RawMessage("30"), Required: true},
		{Name: "score", Kind: Number, Min: "-0.5", Default: json.RawMessage("95.5")},
		{Name: "news", Kind: Boolean, Default: json.RawMessage("true")},
		{Name: "old", Kind: Choice, Options: []Option{{"a", "Alpha"}, {"b", "Beta"}}, Default: json.RawMessage(`"b"`)},
		{Name: "plain", Kind: Choice, Options: []Option{{"a", "a"}, {"b", "b"}}},
		{Name: "titled", Kind: Choice, Options: []Option{{"#f00", "Red"}, {"#0f0", "Green"}}, Default: json.RawMessage(`"#0f0"`)},
		{Name: "many", Kind: Choices, MinItems: 1, MaxItems: 2, Options: []Option{{"x", "x"}, {"y", "y"}, {"z", "z"}}, Default: json.RawMessage(`["x","z"]`)},
		{Name: "manyTitled", Kind: Choices, MaxItems: -1, Options: []Option{{"x", "Ex"}}},
	}
	if len(f.Fields) != len(want) {
		t.Fatalf("got %d fields, want %d", len(f.Fields), len(want))
	}
	for i, got := range f.Fields {
		got.schema = nil
		if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want[i]); g != w {
			t.Errorf("field %d:\n got %s\nwant %s", i, g, w)
		}
	}
}

// A form outside the subset is refused, and the message says what is where
// (ELIC-10, SECA-48).
func TestParseRefuses(t *testing.T) {
	deep := strings.Repeat(`{"type":"object","properties":{"x":`, 2000) + `{}` + strings.Repeat(`}}`, 2000)
	many := make([]string, 101)
	for i := range many {
		many[i] = fmt.Sprintf(`"f%d":{"type":"boolean"}`, i)
	}
	options, _ := jsonx.Marshal(strings.Fields(strings.Repeat("x ", 1001)))
	p := func(property string) string { return string(object(`"where":` + property)) }
	tests := []struct{ schema, property, why string }{
		{``, "", "not valid JSON"},
		{`{"type":"object"`, "", "not valid JSON"},
		{`{"type":"object","properties":{},"properties":{}}`, "", "not valid JSON"},
		{`{"type":"object","properties":{"\ud800":{"type":"string"}}}`, "", "not valid JSON"},
		{`true`, "", "not an object"},
		{`[]`, "", "not an object"},
		{`{"properties":{}}`, "", "type"},
		{`{"type":["object"],"properties":{}}`, "", "type"},
		{`{"type":"string","properties":{}}`, "", "type"},
		{`{"type":"object"}`, "", "no properties"},
		{`{"type":"object","properties":[]}`, "", "no properties"},
		{`{"type":"object","properties":{},"$schema":1}`, "", "$schema"},
		{`{"type":"object","properties":{},"additionalProperties":{"type":"string"}}`, "", "further properties"},
		{`{"type":"object","properties":{},"required":["x"]}`, "x", "required but not there"},
		{`{"type":"object","properties":{},"required":[1]}`, "", "required"},
		{`{"type":"object","properties":{},"required":"x"}`, "", "required"},
		{`{"type":"object","properties":{},"$ref":"#"}`, "", `"$ref"`},
		{`{"type":"object","properties":{},"$defs":{}}`, "", `"$defs"`},
		{`{"type":"object","properties":{},"allOf":[]}`, "", `"allOf"`},
		{`{"type":"object","properties":{},"patternProperties":{}}`, "", `"patternProperties"`},
		{deep, "x", `"object"`},
		{`{"type":"object","properties":{` + strings.Join(many, ",") + `}}`, "", "101 fields"},
		{string(object(`"x":{"type":"string","description":"` + strings.Repeat("x", maxSchema) + `"}`)), "", "longer than"},
		{string(object(`"":{"type":"string"}`)), "", "has no name"},
		{string(object(`"` + strings.Repeat("n", 201) + `":{"type":"string"}`)), strings.Repeat("n", 201), "more than 200 bytes"},

		{p(`true`), "where", "not a schema"},
		{p(`{}`), "where", "no type"},
		{p(`{"type":["string","null"]}`), "where", "no type"},
		{p(`{"anyOf":[{"type":"string"},{"type":"null"}]}`), "where", "no type"},
		{p(`{"type":"null"}`), "where", `"null"`},
		{p(`{"type":"object","properties":{}}`), "where", `"object"`},
		{p(`{"$ref":"#/properties/x"}`), "where", "no type"},
		{p(`{"type":"string","$ref":"https://example.com/"}`), "where", `"$ref"`},
		{p(`{"type":"string","allOf":[{}]}`), "where", `"allOf"`},
		{p(`{"type":"string","not":{}}`), "where", `"not"`},
		{p(`{"type":"string","const":"x"}`), "where", `"const"`},
		{p(`{"type":"string","anyOf":[]}`), "where", `"anyOf"`},
		{p(`{"type":"string","minimum":1}`), "where", `"minimum"`},
		{p(`{"type":"string","title":1}`), "where", "title"},
		{p(`{"type":"string","format":"password"}`), "where", "format"},
		{p(`{"type":"string","format":1}`), "where", "format"},
		{p(`{"type":"string","pattern":1}`), "where", "pattern"},
		{p(`{"type":"string","pattern":"` + strings.Repeat("a{900}", 20) + `"}`), "where", "cannot be checked"},
		{p(`{"type":"string","minLength":-1}`), "where", "minLength"},
		{p(`{"type":"string","maxLength":1e3}`), "where", "maxLength"},
		{p(`{"type":"string","minLength":3,"maxLength":2}`), "where", "cannot be filled in"},
		{p(`{"type":"string","default":1}`), "where", "default"},
		{p(`{"type":"string","default":null}`), "where", "default"},
		{p(`{"type":"integer","enum":[1]}`), "where", `"enum"`},
		{p(`{"type":"integer","multipleOf":2}`), "where", `"multipleOf"`},
		{p(`{"type":"number","exclusiveMinimum":0}`), "where", `"exclusiveMinimum"`},
		{p(`{"type":"number","minimum":"0"}`), "where", "minimum"},
		{p(`{"type":"number","minimum":1e999999999}`), "where", "cannot be checked"},
		{p(`{"type":"number","minimum":2,"maximum":1}`), "where", "cannot be filled in"},
		{p(`{"type":"number","default":"1"}`), "where", "default"},
		{p(`{"type":"boolean","default":"yes"}`), "where", "default"},
		{p(`{"type":"boolean","enum":[true]}`), "where", `"enum"`},
		{p(`{"type":"string","enum":[]}`), "where", "no options"},
		{p(`{"type":"string","enum":["a",1]}`), "where", "not strings"},
		{p(`{"type":"string","enum":["a","a"]}`), "where", "twice"},
		{p(`{"type":"string","enum":["a"],"enumNames":["x","y"]}`), "where", "enumNames"},
		{p(`{"type":"string","enum":["a"],"enumNames":"x"}`), "where", "enumNames"},
		{p(`{"type":"string","enum":["a"],"oneOf":[]}`), "where", `"oneOf"`},
		{p(`{"type":"string","enum":["a"],"default":["a"]}`), "where", "default"},
		{p(`{"type":"string","enum":` + string(options) + `}`), "where", "options"},
		{p(`{"type":"string","oneOf":{}}`), "where", "not a list"},
		{p(`{"type":"string","oneOf":[{"const":"a"}]}`), "where", "title"},
		{p(`{"type":"string","oneOf":[{"const":1,"title":"x"}]}`), "where", "const"},
		{p(`{"type":"string","oneOf":["a"]}`), "where", "not an object"},
		{p(`{"type":"string","oneOf":[{"const":"a","title":"x","pattern":"x"}]}`), "where", `"pattern"`},
		{p(`{"type":"array"}`), "where", "without a schema"},
		{p(`{"type":"array","items":{"type":"string"}}`), "where", "not one of strings to choose from"},
		{p(`{"type":"array","items":{"enum":["a"]}}`), "where", "not one of strings"},
		{p(`{"type":"array","items":{"type":"integer","enum":[1]}}`), "where", "not one of strings"},
		{p(`{"type":"array","items":{"type":"object"}}`), "where", "not one of strings"},
		{p(`{"type":"array","items":{"type":"array","items":{}}}`), "where", `"items"`},
		{p(`{"type":"array","items":{"type":"integer","anyOf":[{"const":"a","title":"A"}]}}`), "where", "something else than strings"},
		{p(`{"type":"array","items":[{"type":"string"}]}`), "where", "without a schema"},
		{p(`{"type":"array","minItems":2,"items":{"type":"string","enum":["a"]}}`), "where", "asks for 2 of 1"},
		{p(`{"type":"array","minItems":2,"maxItems":1,"items":{"type":"string","enum":["a","b"]}}`), "where", "cannot be filled in"},
		{p(`{"type":"array","uniqueItems":true,"items":{"type":"string","enum":["a","b"]}}`), "where", `"uniqueItems"`},
		{p(`{"type":"array","default":"a","items":{"type":"string","enum":["a","b"]}}`), "where", "default"},
	}
	for _, tt := range tests {
		_, err := Parse(json.RawMessage(tt.schema), mcp.Latest)
		var e *SchemaError
		if !errors.As(err, &e) || !errors.Is(err, ErrUnsupported) || e.Property != tt.property || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("Parse(%.120s): got error %v, want one about %q with %q", tt.schema, err, tt.property, tt.why)
		}
	}
}

// What forms have is a matter of the revision (ELIC-07).
func TestParseRevisions(t *testing.T) {
	plain := object(`"x":{"type":"string","enum":["a"],"enumNames":["A"]}`)
	titled := object(`"x":{"type":"string","oneOf":[{"const":"a","title":"A"}]}`)
	several := object(`"x":{"type":"array","items":{"type":"string","enum":["a"]}}`)
	tests := []struct {
		schema json.RawMessage
		v      mcp.Version
		ok     bool
	}{
		{plain, mcp.V2025_03_26, false},
		{plain, "", false},
		{plain, mcp.V2025_06_18, true},
		{plain, mcp.V2025_11_25, true},
		{plain, mcp.V2026_07_28, true},
		{titled, mcp.V2025_06_18, false},
		{titled, mcp.V2025_11_25, true},
		{titled, mcp.V2026_07_28, true},
		{several, mcp.V2025_06_18, false},
		{several, mcp.V2025_11_25, true},
		{several, mcp.V2026_07_28, true},
	}
	for _, tt := range tests {
		if _, err := Parse(tt.schema, tt.v); (err == nil) != tt.ok {
			t.Errorf("Parse(%s, %s): got error %v, want ok=%v", tt.schema, tt.v, err, tt.ok)
		}
	}
}

const person = `
	"name":{"type":"string","default":"John Doe","minLength":2},
	"age":{"type":"integer","default":30,"minimum":18},
	"score":{"type":"number","default":95.5},
	"status":{"type":"string","enum":["active","inactive"],"default":"active"},
	"verified":{"type":"boolean","default":true},
	"tags":{"type":"array","items":{"type":"string","enum":["a","b"]},"default":["b"]},
	"mail":{"type":"string","format":"email","default":""},
	"note":{"type":"string"}`

func TestComplete(t *testing.T) {
	type values = map[string]json.RawMessage
	all := values{"name": json.RawMessage(`"John Doe"`), "age": json.RawMessage("30"), "score": json.RawMessage("95.5"), "status": json.RawMessage(`"active"`),
		"verified": json.RawMessage("true"), "tags": json.RawMessage(`["b"]`)}
	with := func(name, value string) values {
		v := maps.Clone(all)
		v[name] = json.RawMessage(value)
		return v
	}
	f := parse(t, object(person, "name"))
	tests := []struct {
		name    string
		content values
		want    values
		err     string
	}{
		{"all the defaults", values{}, all, ""}, // SEP-1034
		{"none at all", nil, all, ""},
		{"one given", values{"age": json.RawMessage("40")}, with("age", "40"), ""},
		{"false is given", values{"verified": json.RawMessage("false")}, with("verified", "false"), ""},
		{"empty is given", values{"note": json.RawMessage(`""`)}, with("note", `""`), ""},
		{"an empty list is given", values{"tags": json.RawMessage("[]")}, with("tags", "[]"), ""},
		{"integer with a point", values{"age": json.RawMessage("40.0")}, with("age", "40.0"), ""},
		// ELIC-09, SECA-32
		{"too small", values{"age": json.RawMessage("17")}, nil, `"age" must be at least 18`},
		{"wrong type", values{"age": json.RawMessage(`"40"`)}, nil, `"age" must be integer, is string`},
		{"fraction", values{"age": json.RawMessage("40.5")}, nil, `"age" must be integer`},
		{"null", values{"name": json.RawMessage("null")}, nil, `"name" must be string, is null`},
		{"too short", values{"name": json.RawMessage(`"J"`)}, nil, `"name" must have at least 2 characters, has 1`},
		{"not in the enum", values{"status": json.RawMessage(`"gone"`)}, nil, `"status" must be one of "active", "inactive"`},
		{"not in the enum of a list", values{"tags": json.RawMessage(`["a","c"]`)}, nil, `"tags" /1: must be one of "a", "b"`},
		{"bad format", values{"mail": json.RawMessage(`"x"`)}, nil, `"mail" must be an e-mail address`},
		{"not JSON", values{"note": json.RawMessage(`"`)}, nil, `"note" is not valid JSON`},
		{"nothing", values{"note": nil}, nil, `"note" is not valid JSON`},
		{"an object", values{"note": json.RawMessage(`{}`)}, nil, `"note" must be string, is object`},
		{"too long", values{"note": json.RawMessage(`"` + strings.Repeat("x", maxAnswer) + `"`)}, nil, `"note" is longer`},
		{"unknown field", values{"admin": json.RawMessage("true"), "age": json.RawMessage("40")}, with("age", "40"), ""},
		{"several", values{"age": json.RawMessage("1"), "name": json.RawMessage("1"), "\x1b[2J": json.RawMessage("1")}, nil,
			`"name" must be string, is number; "age" must be at least 18`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := maps.Clone(tt.content)
			got, err := f.Complete(tt.content)
			if tt.err != "" {
				var e *ContentError
				if !errors.As(err, &e) || !strings.Contains(err.Error(), tt.err) || got != nil {
					t.Fatalf("Complete(%s): got %s, %v, want the error %q", tt.content, got, err, tt.err)
				}
				return
			}
			if err != nil || fmt.Sprintf("%s", got) != fmt.Sprintf("%s", tt.want) {
				t.Errorf("Complete(%s): got %s, %v, want %s", tt.content, got, err, tt.want)
			}
			if fmt.Sprint(before) != fmt.Sprint(tt.content) {
				t.Errorf("Complete has changed its argument to %s", tt.content)
			}
		})
	}
	if _, err := parse(t, object(person, "note")).Complete(nil); err == nil || !strings.Contains(err.Error(), `"note" is required`) {
		t.Errorf("without what is required: got error %v", err)
	}
	// JSCH-04: a pattern that RE2 does not know costs that pattern.
	mail := parse(t, object(`"mail":{"type":"string","format":"email","pattern":"^(?!\\.)[^@]+@.+$"}`))
	if _, err := mail.Complete(values{"mail": json.RawMessage(`"a@example.org"`)}); err != nil {
		t.Errorf("a pattern with look-ahead: got %v", err)
	}
	if _, err := mail.Complete(values{"mail": json.RawMessage(`"x"`)}); err == nil {
		t.Error("a pattern with look-ahead: the format is not checked")
	}
	if got := parse(t, object("")).Defaults(); len(got) != 0 {
		t.Errorf("an empty form has the defaults %s", got)
	}
}

func TestFieldCheckFormats(t *testing.T) {
	tests := []struct {
		format, value string
		ok            bool
	}{
		{"email", "ada@example.com", true},
		{"email", "Ada <ada@example.com>", false},
		{"email", "ada", false},
		{"email", "", false},
		{"uri", "https://example.com/a?b#c", true},
		{"uri", "mailto:ada@example.com", true},
		{"uri", "urn:isbn:1", true},
		{"uri", "example.com", false},
		{"uri", "/path", false},
		{"uri", "https://example.com/a b", false},
		{"uri", "https:", false},
		{"date", "2026-07-28", true},
		{"date", "2026-02-30", false},
		{"date", "28.07.2026", false},
		{"date-time", "2026-07-28T09:30:00Z", true},
		{"date-time", "2026-07-28T09:30:00.5+02:00", true},
		{"date-time", "2026-07-28t09:30:00z", true},
		{"date-time", "2026-07-28T09:30:00,5Z", false},
		{"date-time", "2026-07-28 09:30", false},
		{"date-time", "2026-07-28T09:30:00", false},
	}
	for _, tt := range tests { // ELIC-07
		f := one(t, `{"type":"string","format":"`+tt.format+`"}`)
		if err := f.Check(jsonx.AppendQuote(nil, tt.value)); (err == nil) != tt.ok {
			t.Errorf("%s %q: got error %v, want ok=%v", tt.format, tt.value, err, tt.ok)
		}
	}
}

func TestFieldParse(t *testing.T) {
	colours := `{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"},{"const":"2","title":"Two"},{"const":"d1","title":"Twin"},{"const":"d2","title":"Twin"}]`
	days := `{"type":"array","minItems":1,"maxItems":2,"items":{"anyOf":[{"const":"mo","title":"Monday"},{"const":"tu","title":"Tuesday"},{"const":"we","title":"Wed, all day"}]}`
	tests := []struct{ property, line, want, err string }{
		{`{"type":"string"}`, "  as it is \r\n", `"  as it is "`, ""},
		{`{"type":"string"}`, "", "", ""},
		{`{"type":"string","default":"d"}`, " ", `"d"`, ""},
		{`{"type":"string","minLength":3}`, "ab", "", "at least 3 characters"},
		{`{"type":"string","pattern":"^a"}`, "ba", "", "pattern"},
		{`{"type":"string"}`, "\xff", "", "not valid text"},
		{`{"type":"string","format":"date"}`, " 2026-07-28 ", `"2026-07-28"`, ""},
		{`{"type":"string","format":"date"}`, "tomorrow", "", "YYYY-MM-DD"},
		{`{"type":"integer"}`, " 42 ", "42", ""},
		{`{"type":"integer"}`, "+42", "42", ""},
		{`{"type":"integer"}`, "4.5", "", "must be integer"},
		{`{"type":"integer"}`, "many", "", "must be a whole number, such as 3"},
		{`{"type":"integer"}`, "042", "", "must be a whole number"},
		{`{"type":"integer"}`, "+", "", "must be a whole number"},
		{`{"type":"integer"}`, "true", "", "must be a whole number"},
		{`{"type":"number","maximum":10}`, "1e1", "1e1", ""},
		{`{"type":"number","maximum":10}`, "10.5", "", "at most 10"},
		{`{"type":"number"}`, "NaN", "", "must be a number, such as 3.5"},
		{`{"type":"number"}`, "-0.25", "-0.25", ""},
		{`{"type":"boolean"}`, "Yes", "true", ""},
		{`{"type":"boolean"}`, "n", "false", ""},
		{`{"type":"boolean"}`, "", "", ""}, // three states: no answer is neither
		{`{"type":"boolean","default":true}`, "", "true", ""},
		{`{"type":"boolean"}`, "perhaps", "", "yes or no"},
		{colours + `}`, "1", `"r"`, ""},
		{colours + `}`, "g", `"g"`, ""},
		{colours + `}`, "green", `"g"`, ""},
		{colours + `}`, "2", `"2"`, ""}, // the value comes before the number
		{colours + `}`, "Twin", "", "by its number"},
		{colours + `}`, "5", `"d2"`, ""},
		{colours + `}`, "6", "", "from 1 to 5"},
		{colours + `}`, "0", "", "from 1 to 5"},
		{colours + `,"default":"g"}`, "", `"g"`, ""},
		{days + `}`, "1, tuesday", `["mo","tu"]`, ""},
		{days + `}`, "mo,mo,1", `["mo"]`, ""},
		{days + `}`, "Wed, all day", `["we"]`, ""},
		{days + `}`, "1,2,3", "", "at most 2"},
		{days + `}`, ",", "", "at least 1"},
		{days + `}`, "1,x", "", `no option "x"`},
		{days + `,"default":["tu"]}`, "", `["tu"]`, ""},
	}
	for _, tt := range tests {
		f := one(t, tt.property)
		got, err := f.Parse(tt.line)
		if string(got) != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: Parse(%q): got %s, %v, want %s, %q", tt.property, tt.line, got, err, tt.want, tt.err)
		}
	}
	required := &parse(t, object(`"x":{"type":"string"}`, "x")).Fields[0]
	if _, err := required.Parse(" "); err == nil || err.Error() != "is required" {
		t.Errorf("Parse of a blank line for what is required: got error %v", err)
	}
}

// What is shown can be said again.
func TestFieldShow(t *testing.T) {
	tests := []struct{ property, value, want string }{
		{`{"type":"string"}`, `"a\u0062"`, "ab"},
		{`{"type":"integer"}`, "42", "42"},
		{`{"type":"boolean"}`, "true", "yes"},
		{`{"type":"boolean"}`, "false", "no"},
		{`{"type":"string","enum":["a","b"],"enumNames":["Alpha","Beta"]}`, `"b"`, "Beta"},
		{`{"type":"array","items":{"anyOf":[{"const":"a","title":"Alpha"},{"const":"b","title":"Beta"}]}}`, `["b","a"]`, "Beta, Alpha"},
	}
	for _, tt := range tests {
		f := one(t, tt.property)
		got := f.Show(json.RawMessage(tt.value))
		if got != tt.want {
			t.Errorf("Show(%s): got %q, want %q", tt.value, got, tt.want)
		}
		again, err := f.Parse(got)
		if err != nil || f.Show(again) != got {
			t.Errorf("Parse(%q): got %s, %v", got, again, err)
		}
	}
}

func TestSecret(t *testing.T) { // SECA-31, ELIC-11
	for _, s := range []string{
		"password", "Your PASSWORD:", "userPassword", "mypassword1", "api_key", "apiKey", "API-Key", "Api Key", "access token", "ACCESS_TOKEN", "secret",
		"client_secret", "credit card", "cardNumber", "CVV", "PIN", "the one-time code you got", "private key", "seed phrase", "IBAN", "Social Security",
		"pass\u200bword", "p\u0430ssword", "passw0rd", "p@ssword", "Passwort", "mot de passe", "пароль", "请输入密码", "Enter the 2FA code", "Bearer", "JWT",
	} {
		if !LooksSecret(s) {
			t.Errorf("LooksSecret(%q): got false, want true", s)
		}
	}
	for _, s := range []string{"", "name", "Full name", "e-mail", "keyboard", "monkey", "cardinal", "compass", "pinned", "secretary", "city", "passenger", "apis", "Discard"} {
		if LooksSecret(s) {
			t.Errorf("LooksSecret(%q): got true, want false", s)
		}
	}
	f := parse(t, object(`
		"a":{"type":"string","title":"API key"},
		"b":{"type":"string","description":"What you sign in with: your password"},
		"pin":{"type":"integer"},
		"c":{"type":"boolean","title":"Save the password?"},
		"d":{"type":"string","title":"City"}`))
	var got []string
	for _, field := range f.Fields {
		if field.Secret {
			got = append(got, field.Name)
		}
	}
	if want := []string{"a", "b", "pin"}; !slices.Equal(got, want) {
		t.Errorf("got the secrets %v, want %v", got, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(object(person, "name")), []byte(`{"name":"Ada","age":20}`), "Ada")
	f.Add([]byte(`{"type":"object","properties":{"x":{"type":"array","items":{"anyOf":[{"const":"a","title":"b"}]}}}}`), []byte(`{"x":["a"]}`), "1,b")
	f.Add([]byte(`{"type":"object","properties":{"x":{"type":"string","pattern":"a{3}","format":"uri"}}}`), []byte(`{}`), "")
	f.Add([]byte(`{"type":"object","properties":{"x":{"type":"number","minimum":1e30,"default":-0}}}`), []byte(`null`), "1e400")
	f.Fuzz(func(t *testing.T, schema, content []byte, line string) {
		form, err := Parse(schema, mcp.Latest)
		if err != nil {
			if !errors.Is(err, ErrUnsupported) {
				t.Errorf("Parse(%s): got error %v", schema, err)
			}
			return
		}
		for i := range form.Fields {
			field := &form.Fields[i]
			raw, err := field.Parse(line)
			if err == nil && raw != nil {
				if err := field.Check(raw); err != nil {
					t.Errorf("Parse(%q) gave %s: %v", line, raw, err)
				}
				field.Show(raw)
			}
			if field.Default != nil && field.Check(field.Default) != nil {
				t.Errorf("the default %s is not valid", field.Default)
			}
		}
		var answer map[string]json.RawMessage
		if jsonx.Unmarshal(content, &answer) != nil {
			return
		}
		whole, err := form.Complete(answer)
		if err != nil {
			if !errors.As(err, new(*ContentError)) {
				t.Errorf("Complete(%s): got error %v", content, err)
			}
			return
		}
		if again, err := form.Complete(whole); err != nil || len(again) != len(whole) {
			t.Errorf("Complete(%s) gave %s, which gives %s, %v", content, whole, again, err)
		}
	})
}

// A form is read before its size is known to be harmless: the worst within the bounds.
func BenchmarkParse(b *testing.B) {
	patterns := make([]string, maxPatterns)
	for i := range patterns {
		patterns[i] = fmt.Sprintf(`"f%d":{"type":"string","pattern":"a{900}b{900}c{900}d{900}e{900}"}`, i)
	}
	for _, bb := range []struct {
		name   string
		schema json.RawMessage
	}{
		{"usual", object(person)},
		{"patterns", object(strings.Join(patterns, ","))},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(bb.schema, mcp.Latest); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
