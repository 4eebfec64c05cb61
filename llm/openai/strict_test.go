package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/openai"
)

// TestStrict holds which schemas are sent as strict ones: those that the mode takes.
func TestStrict(t *testing.T) {
	tests := []struct {
		name   string
		schema string
		want   bool
	}{
		{"an object", `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`, true},
		{"no properties", `{"type":"object","properties":{},"additionalProperties":false}`, true},
		{"nested", `{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"b":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/c"}]}},"required":["b"],"additionalProperties":false}}},"required":["a"],"additionalProperties":false,"$defs":{"c":{"type":"string","format":"date"}}}`, true},
		{"other properties allowed", `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, false},
		{"an optional property", `{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`, false},
		{"deep inside", `{"type":"object","properties":{"a":{"type":"object"}},"required":["a"],"additionalProperties":false}`, false},
		{"in the definitions", `{"type":"object","properties":{},"additionalProperties":false,"$defs":{"c":{"type":"object"}}}`, false},
		{"in a branch", `{"type":"object","properties":{"a":{"anyOf":[{"type":"object"}]}},"required":["a"],"additionalProperties":false}`, false},
		{"a keyword it does not know", `{"type":"object","properties":{"a":{"type":"string","minLength":1}},"required":["a"],"additionalProperties":false}`, false},
		{"a format it does not know", `{"type":"object","properties":{"a":{"type":"string","format":"uri"}},"required":["a"],"additionalProperties":false}`, false},
		{"any value", `{"type":"object","properties":{"a":true},"required":["a"],"additionalProperties":false}`, false},
		{"no object", `{"type":"string"}`, false},
		{"as deep as it may be", nested(9), true},
		{"too deep", nested(12), false},
		{"a choice at the top", `{"type":"object","anyOf":[{"type":"object"}],"properties":{},"additionalProperties":false}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := hello()
			req.Schema = json.RawMessage(tt.schema)
			req.Tools = []llm.Tool{{Name: "f", InputSchema: req.Schema}}
			for _, tools := range []bool{false, true} {
				body := sent(t, "m", openai.Options{StrictTools: tools}, req)
				format := body["response_format"].(map[string]any)["json_schema"].(map[string]any)
				if format["strict"] != tt.want {
					t.Errorf("the answer's schema: got strict %v, want %v", format["strict"], tt.want)
				}
				function := body["tools"].([]any)[0].(map[string]any)["function"].(map[string]any)
				if got := function["strict"] == true; got != (tt.want && tools) {
					t.Errorf("the tool's schema with StrictTools %v: got strict %v", tools, got)
				}
			}
		})
	}
}

// nested is an array of so many arrays in an object.
func nested(depth int) string {
	return `{"type":"object","properties":{"a":` + strings.Repeat(`{"type":"array","items":`, depth) + `{"type":"string"}` +
		strings.Repeat("}", depth) + `},"required":["a"],"additionalProperties":false}`
}

// TestOneCall holds how parallel calls are switched off.
func TestOneCall(t *testing.T) {
	for _, one := range []bool{false, true} {
		req := hello()
		req.Tools = []llm.Tool{{Name: "f"}}
		got, there := sent(t, "m", openai.Options{OneCall: one}, req)["parallel_tool_calls"]
		if there != one || one && got != false {
			t.Errorf("OneCall %v: got parallel_tool_calls %v", one, got)
		}
		if _, there := sent(t, "m", openai.Options{OneCall: one}, hello())["parallel_tool_calls"]; there {
			t.Error("parallel_tool_calls is sent without tools")
		}
	}
}
