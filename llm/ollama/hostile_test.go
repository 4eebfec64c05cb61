package ollama_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/ollama"
)

// SECA-48: what a hostile schema costs before a turn is bounded, whatever it refers to.
func TestCostlySchemas(t *testing.T) {
	refs := func(n int, target string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"p%d":{"$ref":"%s"},`, i, target)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	junk := strings.Repeat(`"x",`, 700_000) + `"x"`
	doubling := ""
	for i := range 40 {
		doubling += fmt.Sprintf(`"d%d":{"type":"object","properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"}}},`, i, i+1, i+1)
	}
	for name, schema := range map[string]string{
		"a reference to itself":  `{"type":"object","properties":{"a":{"$ref":"#"}}}`,
		"doubling":               `{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{` + doubling + `"d40":{}}}`,
		"references beside junk": `{"type":"object","properties":{` + refs(3000, "#/$defs/a") + `},"$defs":{"a":{"type":"string"},"junk":{"enum":[` + junk + `]}}}`,
		"references to junk":     `{"type":"object","properties":{` + refs(3000, "#/$defs/junk") + `},"$defs":{"junk":{"enum":[` + junk + `]}}}`,
		"a far network":          `{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:1/x"}}}`,
		"all of many":            `{"type":"object","allOf":[` + strings.TrimSuffix(strings.Repeat(`{"properties":{"a":{},"b":{}}},`, 100_000), ",") + `]}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := llmtest.NewServer(llmtest.Say("hi"))
			req := hello()
			req.Tools = []llm.Tool{{Name: "f", InputSchema: json.RawMessage(schema)}}
			begin := time.Now()
			_, err := llm.Generate(t.Context(), client(t, s, ollama.Options{}), req)
			t.Logf("%v: %.100v", time.Since(begin), err)
			if took := time.Since(begin); took > 15*time.Second {
				t.Errorf("Generate took %v", took)
			}
		})
	}
}
