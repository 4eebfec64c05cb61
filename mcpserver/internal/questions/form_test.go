package questions

import (
	"encoding/json"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
)

// The params of a form that was asked before are those of one that was not, and of package mcp; a schema is sent in its
// shortest form. A form that is not valid is refused each time.
func TestFormParams(t *testing.T) {
	const schema = "{ \"type\": \"object\",\n\"properties\": {\"na\\u006de\": {\"type\": \"string\"}} }"
	known := new(Forms)
	for _, v := range []mcp.Version{mcp.V2025_06_18, mcp.V2025_11_25, mcp.V2026_07_28} {
		for _, p := range []mcp.ElicitParams{
			{Message: "Who?"},
			{Message: "<\"Who\\\n\u2028>?"},
			{Message: "Who?", Meta: mcp.Meta{"a/b": json.RawMessage(`1`)}},
			{Message: "Who?", Extra: map[string]json.RawMessage{"more": json.RawMessage(`[]`)}},
			{Message: "Who?", ElicitationID: "e"},
		} {
			p.RequestedSchema = json.RawMessage(schema)
			want := p
			want.Mode = mcp.ElicitForm
			limited, err := want.For(v)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := mcp.Marshal(limited)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				q := &Question{Key: "k", Method: mcp.MethodElicit, Form: &p}
				if err := q.Prepare(known, v); err != nil || string(q.Params) != string(raw) {
					t.Errorf("%s, %+v: got %s, %v, want %s", v, p, q.Params, err, raw)
				}
			}
		}
		for _, bad := range []string{`{"type":"object","properties":{}`, `{"type":"object","type":"object","properties":{}}`, "{\"type\":\"object\",\"properties\":{\"\xff\":{\"type\":\"string\"}}}"} {
			q := &Question{Key: "k", Method: mcp.MethodElicit, Form: &mcp.ElicitParams{Message: "Who?", RequestedSchema: json.RawMessage(bad)}}
			for range 2 {
				if err := q.Prepare(known, v); err == nil {
					t.Errorf("%s: the schema %q was taken: %s", v, bad, q.Params)
				}
			}
		}
	}
}
