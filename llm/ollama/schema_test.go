package ollama_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/ollama"
)

// TestSchema holds what Ollama is told of a tool's schema.
func TestSchema(t *testing.T) {
	tests := []struct {
		name, schema      string
		description, want string
	}{
		{"what it knows",
			`{"type":"object","required":["a"],"properties":{"b":{"type":["string","null"],"description":"B"},"a":{"type":"array","items":{"type":"integer"}}}}`,
			"", `{"type":"object","required":["a"],"properties":{"b":{"type":["string","null"],"description":"B"},"a":{"type":"array","items":{"type":"integer"}}}}`},
		{"constraints in words",
			`{"type":"object","additionalProperties":false,"properties":{"n":{"type":"integer","description":"How many","minimum":1,"maximum":9007199254740993},
			  "day":{"type":"string","format":"date"},"mode":{"const":"fast"},"big":{"enum":[9007199254740993]}}}`,
			"(no other properties)", `{"type":"object","properties":{"n":{"type":"integer","description":"How many (minimum: 1; maximum: 9007199254740993)"},
			  "day":{"type":"string","description":"(format: date)"},"mode":{"enum":["fast"]},"big":{"enum":[9007199254740993]}}}`},
		{"nested",
			`{"type":"object","properties":{"o":{"type":"object","required":["x"],"properties":{"x":{"type":"string"}}}}}`,
			"", `{"type":"object","properties":{"o":{"type":"object","description":"(required: [\"x\"])","properties":{"x":{"type":"string"}}}}}`},
		{"references",
			`{"type":"object","properties":{"p":{"$ref":"#/$defs/point","description":"Where"}},"$defs":{"point":{"type":"object","description":"A point","properties":{"x":{"type":"number"}}}}}`,
			"", `{"type":"object","properties":{"p":{"type":"object","description":"Where","properties":{"x":{"type":"number"}}}}}`},
		{"a reference out of the schema",
			`{"type":"object","properties":{"p":{"$ref":"http://elsewhere.test/x","description":"Where"}}}`,
			"", `{"type":"object","properties":{"p":{"description":"Where"}}}`}, // ROB-5
		{"allOf",
			`{"type":"object","allOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{"type":"string"}},"required":["b"]}]}`,
			"", `{"type":"object","required":["a","b"],"properties":{"a":{"type":"string"},"b":{"type":"string"}}}`},
		{"oneOf below the top",
			`{"type":"object","properties":{"v":{"oneOf":[{"type":"string"},{"type":"integer"}]}}}`,
			"", `{"type":"object","properties":{"v":{"anyOf":[{"type":"string"},{"type":"integer"}]}}}`},
		{"anyOf at the top",
			`{"type":"object","anyOf":[{"required":["a"],"properties":{"a":{"type":"string"}}},{"required":["b","c"],"properties":{"b":{"type":"string"},"c":{}}}]}`,
			"(needs one of: a; or b and c)", `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{}}}`},
		{"types that are wrong",
			`{"type":"object","properties":{"a":true,"b":{"type":7,"enum":{}},"c":{"items":[{}],"anyOf":"x"}},"required":"a"}`,
			"", `{"type":"object","properties":{"a":{},"b":{},"c":{}}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := hello()
			req.Tools = []llm.Tool{{Name: "f", InputSchema: json.RawMessage(tt.schema)}}
			text, body := sent(t, ollama.Options{}, req)
			function := body["tools"].([]any)[0].(map[string]any)["function"].(map[string]any)
			if got, _ := function["description"].(string); got != tt.description {
				t.Errorf("description: got %q, want %q", got, tt.description)
			}
			if want := decoded(t, tt.want); !reflect.DeepEqual(function["parameters"], want) {
				t.Errorf("parameters:\ngot  %s\nwant %s", encoded(function["parameters"]), encoded(want))
			}
			if strings.Contains(tt.schema, "9007199254740993") && !strings.Contains(text, "[9007199254740993]") {
				t.Errorf("body %s has lost digits", text)
			}
		})
	}
}

// TestSchemaOrder holds that properties keep their order, which models heed.
func TestSchemaOrder(t *testing.T) {
	req := hello()
	req.Tools = []llm.Tool{{Name: "f", InputSchema: json.RawMessage(`{"properties":{"z":{},"a":{},"m":{}}}`)}}
	text, _ := sent(t, ollama.Options{}, req)
	if want := `"properties":{"z":{},"a":{},"m":{}}`; !strings.Contains(text, want) {
		t.Errorf("body %s does not hold %s", text, want)
	}
}

// TestHostileSchemas holds that a schema is bounded data (ROB-5): what it costs does not
// grow with what it claims to be.
func TestHostileSchemas(t *testing.T) {
	var doubling strings.Builder
	for i := range 40 {
		fmt.Fprintf(&doubling, `"d%d":{"properties":{"l":{"$ref":"#/$defs/d%d"},"r":{"$ref":"#/$defs/d%d"}}},`, i, i+1, i+1)
	}
	tests := map[string]string{
		"itself":              `{"$ref":"#"}`,
		"itself below":        `{"properties":{"p":{"$ref":"#"}}}`,
		"a circle":            `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`,
		"allOf itself":        `{"allOf":[{"$ref":"#"},{"$ref":"#"}]}`,
		"two to the 40":       `{"$ref":"#/$defs/d0","$defs":{` + doubling.String() + `"d40":{"type":"string"}}}`,
		"3,000 deep":          strings.Repeat(`{"items":`, 3000) + `{}` + strings.Repeat(`}`, 3000),
		"10,000 properties":   `{"properties":{` + manyProperties(10_000) + `}}`,
		"a pointer to a leaf": `{"properties":{"a":{"$ref":"#/type"}},"type":"object"}`,
	}
	for name, schema := range tests {
		t.Run(name, func(t *testing.T) {
			req := hello()
			req.Tools = []llm.Tool{{Name: "f", InputSchema: json.RawMessage(schema)}}
			text, _ := sent(t, ollama.Options{}, req)
			if limit := 1 << 20; len(text) > limit {
				t.Errorf("the body has %d bytes, want at most %d", len(text), limit)
			}
		})
	}
}

func manyProperties(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"p%d":{"type":"string"}`, i)
	}
	return b.String()
}
