package mirror

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/mcp"
)

// HDR-11, HDR-12, HDR-13, HDR-14
func TestEncode(t *testing.T) {
	tests := []struct{ value, want string }{
		{"us-west1", "us-west1"},
		{"Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="},
		{" padded ", "=?base64?IHBhZGRlZCA=?="},
		{"line1\nline2", "=?base64?bGluZTEKbGluZTI=?="},
		{"=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="},
		{"", ""},
		{"a\tb c~", "a\tb c~"},
		{"\ta", "=?base64?CWE=?="},
		{"a ", "=?base64?YSA=?="},
		{"a\x00", "=?base64?YQA=?="},
		{"a\x7f", "=?base64?YX8=?="},
		{"a\r\nX-Evil: 1", "=?base64?YQ0KWC1FdmlsOiAx?="}, // no header of its own
		{"=?base64?", "=?base64?"},
		{"=?BASE64?YQ==?=", "=?BASE64?YQ==?="}, // marks are exact
		{"a=?base64?YQ==?=", "a=?base64?YQ==?="},
	}
	for _, tt := range tests {
		if got := Encode(tt.value); got != tt.want {
			t.Errorf("Encode(%q): got %q, want %q", tt.value, got, tt.want)
		}
		if got, err := Decode(tt.want); got != tt.value || err != nil {
			t.Errorf("Decode(%q): got %q, %v, want %q", tt.want, got, err, tt.value)
		}
	}
}

// HDR-12, HDR-13
func TestDecode(t *testing.T) {
	for header, want := range map[string]string{"=?base64??=": "", "=?base64?=": "=?base64?=", "=?base64?YQ==": "=?base64?YQ=="} {
		if got, err := Decode(header); got != want || err != nil {
			t.Errorf("Decode(%q): got %q, %v, want %q", header, got, err, want)
		}
	}
	for _, bad := range []string{
		"=?base64?YQ?=", "=?base64?YQ=?=", "=?base64?YR==?=", "=?base64?Y Q==?=", "=?base64?YQ==YQ==?=", "=?base64?-_==?=",
		"=?base64?//8=?=", "ü", "a\nb", "a\x00b", " a", "=?base64?Y\tQ==?=",
	} {
		if got, err := Decode(bad); !errors.Is(err, ErrEncoding) {
			t.Errorf("Decode(%q): got %q, %v, want ErrEncoding", bad, got, err)
		}
	}
}

func FuzzEncode(f *testing.F) {
	for _, s := range []string{"", "a", " a", "ü", "=?base64?YQ==?=", "=?base64?=", "\r\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if !utf8.ValidString(value) {
			return // JSON has no such
		}
		header := Encode(value)
		if !plain(header) {
			t.Errorf("Encode(%q): got %q, which HTTP would not carry", value, header)
		}
		if got, err := Decode(header); got != value || err != nil {
			t.Errorf("Decode(%q): got %q, %v, want %q", header, got, err, value)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{"a", "=?base64?YQ==?=", "=?base64??=", "=?base64?\xff?="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		value, err := Decode(header)
		if err != nil {
			return
		}
		if again, err := Decode(Encode(value)); again != value || err != nil {
			t.Errorf("Decode(%q) is %q, which comes back as %q, %v", header, value, again, err)
		}
	})
}

// property wraps a schema in an object with one property.
func property(name, schema string) string {
	return fmt.Sprintf(`{"type":"object","properties":{%q:%s}}`, name, schema)
}

// HDR-20, HDR-21
func TestParams(t *testing.T) {
	const region = `{"type":"string","x-mcp-header":"Region"}`
	tests := []struct {
		name, schema string
		want         []Param
	}{
		{"none", `{"type":"object","properties":{"a":{"type":"string"}}}`, nil},
		{"string", property("r", region), []Param{{"Region", []string{"r"}}}},
		{"integer", property("r", `{"type":"integer","x-mcp-header":"N"}`), []Param{{"N", []string{"r"}}}},
		{"boolean", property("r", `{"type":"boolean","x-mcp-header":"B"}`), []Param{{"B", []string{"r"}}}},
		{"nullable", property("r", `{"type":["string","null"],"x-mcp-header":"B"}`), []Param{{"B", []string{"r"}}}},
		{"several types", property("r", `{"type":["null","integer","string"],"x-mcp-header":"B"}`), []Param{{"B", []string{"r"}}}},
		{"escaped keyword", property("r", `{"type":"string","\u0078-mcp-header":"B"}`), []Param{{"B", []string{"r"}}}},
		{"all token characters", property("r", "{\"type\":\"string\",\"x-mcp-header\":\"!#$%&'*+-.^_`|~aZ09\"}"), []Param{{"!#$%&'*+-.^_`|~aZ09", []string{"r"}}}},
		{"nested, in the order of names", `{"type":"object","properties":{"z":{"type":"object","properties":{"y":` + region + `}},"a":{"type":"string","x-mcp-header":"Zone"}}}`,
			[]Param{{"Region", []string{"z", "y"}}, {"Zone", []string{"a"}}}},
		{"a property of that name", property("x-mcp-header", `{"type":"string"}`), nil},
		{"properties called properties", property("properties", `{"type":"object","properties":{"items":`+region+`}}`), []Param{{"Region", []string{"properties", "items"}}}},
		{"in data", `{"type":"object","properties":{"a":{"type":"object","default":` + region + `,"const":{"x-mcp-header":1},"examples":[` + region + `]}}}`, nil},
		{"a definition of that name", `{"type":"object","$defs":{"x-mcp-header":{"type":"string"}}}`, nil},
		{"boolean schemas", `{"type":"object","properties":{"a":true,"x-mcp-header":false},"additionalProperties":false}`, nil},
	}
	for _, tt := range tests {
		got, err := Params(json.RawMessage(tt.schema))
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %v, %v, want %v", tt.name, got, err, tt.want)
		}
	}
	bad := map[string]string{
		"empty":          property("r", `{"type":"string","x-mcp-header":""}`),
		"space":          property("r", `{"type":"string","x-mcp-header":"My Region"}`),
		"colon":          property("r", `{"type":"string","x-mcp-header":"Region:"}`),
		"line break":     property("r", `{"type":"string","x-mcp-header":"a\r\nX: y"}`),
		"not ASCII":      property("r", `{"type":"string","x-mcp-header":"Régión"}`),
		"control":        property("r", `{"type":"string","x-mcp-header":"a\u0000"}`),
		"no string":      property("r", `{"type":"string","x-mcp-header":1}`),
		"null":           property("r", `{"type":"string","x-mcp-header":null}`),
		"number":         property("r", `{"type":"number","x-mcp-header":"N"}`),
		"object":         property("r", `{"type":"object","x-mcp-header":"N"}`),
		"array":          property("r", `{"type":"array","x-mcp-header":"N"}`),
		"type null":      property("r", `{"type":"null","x-mcp-header":"N"}`),
		"only null":      property("r", `{"type":["null"],"x-mcp-header":"N"}`),
		"a list of none": property("r", `{"type":[],"x-mcp-header":"N"}`),
		"number in list": property("r", `{"type":["string","number"],"x-mcp-header":"N"}`),
		"list in a list": property("r", `{"type":[["string"]],"x-mcp-header":"N"}`),
		"no type":        property("r", `{"x-mcp-header":"N"}`),
		"at the root":    `{"type":"object","x-mcp-header":"N"}`,
		"twice":          `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"Region"},"b":{"type":"string","x-mcp-header":"REGION"}}}`,
		"items":          property("r", `{"type":"array","items":`+region+`}`),
		"items of items": property("r", `{"type":"array","items":{"type":"object","properties":{"x":`+region+`}}}`),
		"prefixItems":    property("r", `{"type":"array","prefixItems":[`+region+`]}`),
		"oneOf":          property("r", `{"oneOf":[`+region+`]}`),
		"anyOf":          `{"type":"object","anyOf":[{"properties":{"r":` + region + `}}]}`,
		"allOf":          `{"type":"object","allOf":[{"properties":{"r":` + region + `}}]}`,
		"not":            `{"type":"object","not":{"properties":{"r":` + region + `}}}`,
		"if":             `{"type":"object","if":{"properties":{"r":` + region + `}}}`,
		"then":           `{"type":"object","then":{"properties":{"r":` + region + `}}}`,
		"else":           `{"type":"object","else":{"properties":{"r":` + region + `}}}`,
		"$defs":          `{"type":"object","properties":{"r":{"$ref":"#/$defs/r"}},"$defs":{"r":` + region + `}}`,
		"definitions":    `{"type":"object","definitions":{"r":` + region + `}}`,
		"patterns":       `{"type":"object","patternProperties":{"^r":` + region + `}}`,
		"additional":     `{"type":"object","additionalProperties":` + region + `}`,
		"dependent":      `{"type":"object","dependentSchemas":{"a":{"properties":{"r":` + region + `}}}}`,
		"too many":       `{"type":"object","properties":{` + many(maxParams+1) + `}}`,
	}
	for name, schema := range bad {
		if got, err := Params(json.RawMessage(schema)); !errors.Is(err, ErrAnnotation) {
			t.Errorf("%s: got %v, %v, want ErrAnnotation", name, got, err)
		}
	}
	if _, err := Params(json.RawMessage(`{"x-mcp-header":`)); err == nil {
		t.Error("a schema that is no JSON: got no error")
	}
}

func many(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`"p%d":{"type":"string","x-mcp-header":"H%d"}`, i, i))
	}
	return strings.Join(all, ",")
}

// HDR-10, HDR-21, HDR-23
func TestHeaders(t *testing.T) {
	params := []Param{{"A", []string{"a"}}, {"B", []string{"b", "c"}}}
	tests := []struct {
		args string
		want []mcp.Header
	}{
		{"", nil},
		{"{}", nil},
		{`{"a":null,"b":null}`, nil},
		{`{"a":"x"}`, []mcp.Header{{Name: "A", Value: "x"}}},
		{` { "a" : "x" , "b" : { "c" : true } } `, []mcp.Header{{Name: "A", Value: "x"}, {Name: "B", Value: "true"}}},
		{`{"a":""}`, []mcp.Header{{Name: "A"}}},
		{`{"a":"\u00fc\n"}`, []mcp.Header{{Name: "A", Value: "ü\n"}}},
		{`{"a":false,"b":{"c":null}}`, []mcp.Header{{Name: "A", Value: "false"}}},
		{`{"a":42,"b":{"c":-7}}`, []mcp.Header{{Name: "A", Value: "42"}, {Name: "B", Value: "-7"}}},
		{`{"a":42.0,"b":{"c":4.2e1}}`, []mcp.Header{{Name: "A", Value: "42"}, {Name: "B", Value: "42"}}},
		{`{"a":-0}`, []mcp.Header{{Name: "A", Value: "0"}}},
		{`{"a":9007199254740991,"b":{"c":-9007199254740991}}`, []mcp.Header{{Name: "A", Value: "9007199254740991"}, {Name: "B", Value: "-9007199254740991"}}},
		{`{"b.c":"x","c":"y","A":"z"}`, nil}, // the exact path, and the exact case
		{`{"b":"x"}`, nil},
		{`{"b":[{"c":1}]}`, nil},
	}
	for _, tt := range tests {
		got, err := Headers(params, json.RawMessage(tt.args))
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("Headers(%s): got %v, %v, want %v", tt.args, got, err, tt.want)
		}
	}
	for _, args := range []string{
		`{"a":9007199254740992}`, `{"a":-9007199254740992}`, `{"a":1.5}`, `{"a":1e400}`, `{"a":1e99999999999}`, `{"a":18446744073709551616}`,
		`{"a":{}}`, `{"a":["canary"]}`, `{"a":"\ud800"}`, `{"a":"canary","a":"y"}`, `{"a":tru}`,
	} {
		got, err := Headers(params, json.RawMessage(args))
		if _, ok := errors.AsType[*ArgumentError](err); !ok || strings.Contains(err.Error(), "canary") {
			t.Errorf("Headers(%s): got %v, %v, want an ArgumentError without the value", args, got, err)
		}
	}
}

func FuzzHeaders(f *testing.F) {
	f.Add(`{"a":1}`)
	f.Add(`{"b":{"c":"x"}}`)
	f.Fuzz(func(t *testing.T, args string) {
		headers, err := Headers([]Param{{"A", []string{"a"}}, {"B", []string{"b", "c"}}}, json.RawMessage(args))
		for _, h := range headers {
			if got, derr := Decode(Encode(h.Value)); err != nil || derr != nil || got != h.Value {
				t.Errorf("Headers(%q): got %q, which comes back as %q, %v", args, h.Value, got, derr)
			}
		}
	})
}

func FuzzParams(f *testing.F) {
	f.Add(property("r", `{"type":"string","x-mcp-header":"R"}`))
	f.Add(`{"oneOf":[{"x-mcp-header":"A"}]}`)
	f.Fuzz(func(t *testing.T, schema string) {
		params, err := Params(json.RawMessage(schema))
		if err != nil && len(params) > 0 {
			t.Errorf("Params(%q): got both %v and %v", schema, params, err)
		}
		for _, p := range params {
			if !IsToken(p.Header) || len(p.Path) == 0 {
				t.Errorf("Params(%q): got %+v", schema, p)
			}
		}
	})
}
