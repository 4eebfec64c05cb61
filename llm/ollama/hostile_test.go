package ollama_test

import (
	"encoding/json"
	"fmt"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/ollama"
)

// allocated is how many bytes the process has allocated so far, those that were freed among
// them: what a schema costs, on whatever machine.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

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
			before := allocated()
			_, err := llm.Generate(t.Context(), client(t, s, ollama.Options{}), req)
			if bytes := allocated() - before; bytes > 100*uint64(len(schema))+128<<20 {
				t.Errorf("Generate has allocated %d bytes for a schema of %d (%v)", bytes, len(schema), err)
			}
		})
	}
}
