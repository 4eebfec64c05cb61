package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcpclient"
)

// Arguments that do not fit the schema that a server lists are answered with place and reason, beside the good calls of the
// turn, and the server is not asked. What cannot be checked goes to the server.
func TestArgumentsOfServersTools(t *testing.T) {
	nested := strings.Repeat(`{"allOf":[`, 35) + "true" + strings.Repeat(`]}`, 35)
	doubling := `{"$defs":{"d0":{"type":"object"}`
	for i := range 40 {
		doubling += fmt.Sprintf(`,"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i+1, i, i)
	}
	doubling += `},"$ref":"#/$defs/d40"}`
	tests := []struct {
		name, schema, args string
		want               string // of the result; empty if the server is asked
	}{
		{"fits", `{"type":"object","properties":{"n":{"type":"integer"}}}`, `{"n":1}`, ""},
		{"a wrong type", `{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}}}}`, `{"a":[1,"x"]}`,
			"not called: the arguments do not fit the tool's schema: /a/1: must be integer, is string"},
		{"missing", `{"type":"object","properties":{"n":{}},"required":["n"]}`, `{}`, `missing property "n"`},
		{"unknown", `{"type":"object","properties":{"n":{}},"additionalProperties":false}`, `{"m":1}`, `unknown property "m"; allowed: n`},
		{"a default", `{"type":"object","properties":{"n":{"default":1}},"required":["n"]}`, `{}`, ""},
		{"a format", `{"type":"object","properties":{"n":{"type":"string","format":"date"}}}`, `{"n":"now"}`, ""},
		{"a pattern that RE2 has not", `{"type":"object","properties":{"n":{"type":"string","pattern":"^(?!x)"}}}`, `{"n":"x"}`, ""},
		{"beside such a pattern", `{"type":"object","properties":{"n":{"type":"string","pattern":"^(?!x)"}}}`, `{"n":1}`, "/n: must be string, is number"},
		{"another document", `{"type":"object","$ref":"https://example.org/s.json"}`, `{"n":1}`, ""},
		{"another dialect", `{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","properties":{"n":{"type":"string"}}}`, `{"n":1}`, ""},
		{"too deep", `{"type":"object","properties":{"n":` + nested + `}}`, `{"n":1}`, ""},
		{"too many ways", doubling, `{"n":1}`, ""},
		{"too much work", `{"type":"object","properties":{"n":{"items":{"anyOf":[{"type":"string"},{"type":"integer"}]}}}}`, `{"n":[` + strings.Repeat("1,", 150_000) + `1]}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				raw := &rawServer{tools: `[{"name":"f","inputSchema":` + tt.schema + `}]`, result: `{"content":[{"type":"text","text":"done"}]}`}
				var results []string
				model := llmtest.Script(llmtest.Calls(call("raw__f", tt.args), call("double", `{"n":2}`)),
					llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
						results = llmtest.Results(req)
						return llmtest.Say("ok")
					}))
				rt := open(t, &agent.Options{Model: model, Servers: []mcpclient.Server{mcpclient.InProcess("raw", raw)}, Approve: agent.NeverAsk, Tools: []agent.Tool{double}})
				res, err := start(t, rt, "r").Wait(t.Context())
				if err != nil || res.Text != "ok" {
					t.Fatalf("got %+v, %v", res, err)
				}
				want := tt.want
				if want == "" {
					want = "done"
				}
				if len(results) != 2 || !strings.Contains(results[0], want) || results[1] != "4" || raw.called() != (tt.want == "") {
					t.Errorf("got %q, and the server was asked: %v; want %q", results, raw.called(), tt.want)
				}
			})
		})
	}
}
