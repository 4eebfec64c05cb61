package mcpclient

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/schema"
	"github.com/troupe-dev/troupe/mcp"
)

// outputWire is a server of one tool with an output schema and a result.
func outputWire(v mcp.Version, output, result string) *wire {
	return newWire(v, map[string]string{
		mcp.MethodListTools: `{"ttlMs":60000,"tools":[{"name":"t","inputSchema":{"type":"object"},"outputSchema":` + output + `}]}`,
		mcp.MethodCallTool:  result,
	})
}

// TOOL-11, TOOL-07, TOOL-09: structured content must be there and fit, unless the
// result tells of a failure. In 2026-07-28 any JSON will do, and null is not nothing.
func TestOutputIsChecked(t *testing.T) {
	const object, number, anything = `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`, `{"type":["number","null"]}`, `{}`
	tests := []struct {
		version        mcp.Version
		output, result string
		says           string // in the error; "" is none
	}{
		{mcp.V2025_06_18, object, `{"content":[],"structuredContent":{"n":1}}`, ""},
		{mcp.V2025_06_18, object, `{"content":[],"structuredContent":{"n":1,"more":2}}`, ""},
		{mcp.V2025_11_25, object, `{"content":[],"structuredContent":{"n":"1"}}`, "/n: must be integer"},
		{mcp.V2025_11_25, object, `{"content":[],"structuredContent":{}}`, "missing property"},
		{mcp.V2025_11_25, object, `{"content":[{"type":"text","text":"{\"n\":1}"}]}`, "structuredContent is missing"},
		{mcp.V2025_11_25, object, `{"content":[],"structuredContent":[1]}`, "must be object"},
		{mcp.V2025_11_25, object, `{"content":[],"isError":true}`, ""},
		{mcp.V2025_11_25, object, `{"content":[],"isError":true,"structuredContent":{"why":1}}`, ""},
		{mcp.V2025_11_25, object, `{"content":[],"isError":false}`, "structuredContent is missing"},
		{mcp.V2025_03_26, object, `{"content":[]}`, ""}, // has no such thing
		{mcp.V2026_07_28, object, `{"content":[]}`, "structuredContent is missing"},
		{mcp.V2026_07_28, number, `{"content":[],"structuredContent":7}`, ""},
		{mcp.V2026_07_28, number, `{"content":[],"structuredContent":null}`, ""},
		{mcp.V2026_07_28, number, `{"content":[]}`, "structuredContent is missing"},
		{mcp.V2026_07_28, number, `{"content":[],"structuredContent":"7"}`, "must be"},
		{mcp.V2026_07_28, anything, `{"content":[],"structuredContent":[]}`, ""},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.version, tt.output, tt.result), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := outputWire(tt.version, tt.output, tt.result).dial(t, nil)
				if _, err := c.CallTool(t.Context(), "t", nil, nil); err != nil {
					t.Errorf("CallTool before anything is known of the tool: got %v", err)
				}
				if _, err := c.ListTools(t.Context()); err != nil {
					t.Fatal(err)
				}
				res, err := c.CallTool(t.Context(), "t", nil, nil)
				if tt.says == "" {
					if err != nil || res == nil {
						t.Errorf("CallTool: got %v, %v", res, err)
					}
					return
				}
				var bad *OutputError
				if !errors.As(err, &bad) || !errors.Is(err, ErrOutput) || !strings.Contains(err.Error(), tt.says) || bad.Result == nil || bad.Result.Content == nil {
					t.Errorf("CallTool: got %v, want an output error that says %q and has the result", err, tt.says)
				}
				if err := c.CheckOutput(t.Context(), "t", bad.Result); !errors.Is(err, ErrOutput) {
					t.Errorf("CheckOutput: got %v", err)
				}
				if res, err := c.CallTool(t.Context(), "t", nil, &CallOptions{AnyOutput: true}); err != nil || res == nil {
					t.Errorf("CallTool with AnyOutput: got %v, %v", res, err)
				}
			})
		})
	}
}

// SECA-48, JSCH-01, JSCH-02, JSCH-03, ROB-5: a tool whose output schema is hostile,
// in another dialect or out of bounds is not called, with an error that says why; it
// may be all the same, unchecked. Nothing is fetched, and the others work.
func TestHostileOutputSchemas(t *testing.T) {
	doubling := `{"type":"object","$defs":{`
	for i := range 30 {
		doubling += fmt.Sprintf(`"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
	}
	doubling += `"a30":{}},"allOf":[{"$ref":"#/$defs/a0"}]}`
	tests := map[string]struct {
		output string
		is     error
	}{
		"network":   {`{"type":"object","properties":{"a":{"$ref":"http://localhost:1/x.json"}}}`, schema.ErrReference},
		"file":      {`{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`, schema.ErrReference},
		"itself":    {`{"type":"object","$ref":"#"}`, schema.ErrReference},
		"doubling":  {doubling, schema.ErrTooLarge},
		"dialect":   {`{"$schema":"http://example.com/my-dialect","type":"object"}`, schema.ErrDialect},
		"pattern":   {`{"type":"object","properties":{"a":{"type":"string","pattern":"[ab]{1000}[cd]{1000}(e?f?){999}(x|y|z){900}"}}}`, schema.ErrTooLarge},
		"deep":      {strings.Repeat(`{"type":"object","properties":{"a":`, 40) + `{}` + strings.Repeat(`}}`, 40), schema.ErrTooLarge},
		"giant":     {`{"type":"object","enum":[` + strings.Repeat(`"x",`, 70_000) + `"x"]}`, schema.ErrTooLarge},
		"malformed": {`{"$schema":7}`, schema.ErrDialect},
		"no schema": {`"yes"`, schema.ErrMalformed},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := outputWire(mcp.V2026_07_28, tt.output, `{"content":[],"structuredContent":{}}`)
				c := w.dial(t, nil)
				tools, err := c.ListTools(t.Context())
				if err != nil || len(tools) != 1 || string(tools[0].OutputSchema) != tt.output { // JSCH-04
					t.Fatalf("ListTools: got %d, %v", len(tools), err)
				}
				w.heard()
				for range 2 { // the second time it is known
					_, err = c.CallTool(t.Context(), "t", nil, nil)
					var bad *OutputError
					if !errors.As(err, &bad) || tt.is != nil && (!errors.Is(err, tt.is) || bad.Result != nil) {
						t.Errorf("CallTool: got %v, want %v", err, tt.is)
					}
				}
				if called := len(w.heard()) > 0; called != (tt.is == nil) {
					t.Errorf("the tool was called: %v", called)
				}
				if _, err := c.CallTool(t.Context(), "t", nil, &CallOptions{AnyOutput: true}); err != nil {
					t.Errorf("CallTool with AnyOutput: got %v", err)
				}
				if _, err := c.CallTool(t.Context(), "other", nil, nil); err != nil {
					t.Errorf("CallTool of another tool: got %v", err)
				}
			})
		})
	}
}

// TOOL-08, TOOL-13, CACHE-06: a tool that should be there and is refused makes the
// list stale, so that it is read again; a caller of nonsense does not make that a habit.
func TestUnexpectedUnknownTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(mcp.V2025_11_25, map[string]string{mcp.MethodListTools: pageOf(mcp.MethodListTools, "", "old")})
		w.methods[mcp.MethodCallTool] = func(*mcp.Message) string { return `!{"code":-32602,"message":"Unknown tool"}` }
		h := hostOf(t, map[string]*wire{"s": w}, nil)
		if _, err := h.Tools(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.methods[mcp.MethodListTools] = func(*mcp.Message) string { return pageOf(mcp.MethodListTools, "", "new") }
		w.heard()
		if _, err := h.Call(t.Context(), "s__old", nil, nil); !errors.Is(err, mcp.ErrInvalidParams) {
			t.Errorf("Call: got %v", err)
		}
		time.Sleep(time.Second)
		if _, ok := h.Lookup("s__new"); !ok || len(w.heard()) != 2 {
			t.Error("the list was not read again")
		}
		for range 5 {
			_, _ = h.Call(t.Context(), "s__new", nil, nil)
		}
		time.Sleep(time.Second)
		if got := w.heard(); len(got) != 5 {
			t.Errorf("asked %v, want the calls alone", got)
		}
	})
}

// TOOL-04, TOOL-05: names that the latest revision would not have are taken from any
// server; TOOL-10, CONT-03: a result is passed on whole.
func TestOddToolsAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := "tööl / " + strings.Repeat("x", 200)
		w := newWire(mcp.V2024_11_05, map[string]string{
			mcp.MethodListTools: fmt.Sprintf(`{"tools":[{"name":%q,"inputSchema":{"type":"object","additionalProperties":false,"x-odd":[1]},"more":1}]}`, name),
			mcp.MethodCallTool:  `{"content":[{"type":"audio","data":"AA==","mimeType":"audio/wav"}],"structuredContent":7}`,
		})
		h := hostOf(t, map[string]*wire{"s": w}, nil)
		tools, err := h.Tools(t.Context())
		if err != nil || len(tools) != 1 || tools[0].Tool.Name != name || !strings.Contains(string(tools[0].Tool.InputSchema), `"x-odd":[1]`) { // JSCH-04
			t.Fatalf("Tools: got %+v, %v", tools, err)
		}
		res, err := h.Call(t.Context(), tools[0].Name, nil, nil)
		if err != nil || string(res.StructuredContent) != "7" || res.Content[0].ContentType() != mcp.TypeAudio {
			t.Errorf("Call: got %+v, %v", res, err)
		}
		w.methods[mcp.MethodCallTool] = func(*mcp.Message) string { return `{"structuredContent":7}` }
		if _, err := h.Call(t.Context(), tools[0].Name, nil, nil); !errors.Is(err, call.ErrInvalidResponse) { // TOOL-07
			t.Errorf("Call without content: got %v", err)
		}
	})
}
