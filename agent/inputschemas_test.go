package agent

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// A schema is compiled when its tool is first called, once for each definition, and as many stay as there is room for.
func TestInputSchemasAreBounded(t *testing.T) {
	s := newInputSchemas()
	tool := &mcpclient.Tool{Tool: mcp.Tool{Name: "f", InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)}}
	check := s.check(tool, "hash")
	if n := s.byTool.Len(); n != 0 {
		t.Errorf("before the first call %d schemas are compiled", n)
	}
	for range 2 {
		if err := check(json.RawMessage(`{"n":"x"}`)); err == nil {
			t.Error("what does not fit is taken")
		}
	}
	first, _ := s.byTool.Get("hash")
	if again := s.compiled(tool.Tool.InputSchema, "hash"); first == nil || again != first {
		t.Error("it is compiled again")
	}
	for i := range maxInputSchemas + 10 {
		s.compiled(json.RawMessage(`{`), fmt.Sprint(i))
	}
	if n := s.byTool.Len(); n != maxInputSchemas {
		t.Errorf("%d stay, want %d", n, maxInputSchemas)
	}
}
