package mcp

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// Scan and the codec must agree on what is strict JSON, and what Scan accepts
// must survive being written and scanned again.
func FuzzScan(f *testing.F) {
	for _, tt := range hostile {
		if len(tt.frame) < 1000 {
			f.Add([]byte(tt.frame))
		}
	}
	f.Add(callFrame(10))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"x","result":{"resultType":"complete","_meta":{"a":1}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m","data":[1.5e3]}}`))
	f.Add([]byte(`{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":0,"k":1,"l":2,"m":3,"n":4,"a":5}`))
	f.Fuzz(func(t *testing.T, frame []byte) {
		var m Message
		err := Scan(frame, &m)
		valid := jsonx.Valid(frame)
		switch {
		case !errors.Is(err, ErrParse) && !valid:
			t.Fatalf("Scan(%q): got %v, but it is not strict JSON", frame, err)
		case errors.Is(err, ErrParse) && valid && !strings.Contains(err.Error(), "too deeply"):
			t.Fatalf("Scan(%q): got %v, but it is strict JSON", frame, err)
		case err == nil:
			checkRewrite(t, &m)
		}
	})
}

func checkRewrite(t *testing.T, m *Message) {
	t.Helper()
	var out []byte
	switch m.Kind {
	case KindRequest:
		out = AppendRequest(nil, m.ID, m.Method, m.Params)
	case KindNotification:
		out = AppendNotification(nil, m.Method, m.Params)
	case KindResult:
		out = AppendResult(nil, m.ID, m.Result)
	case KindError:
		out = AppendError(nil, m.ID, m.Error)
	}
	var again Message
	if err := Scan(out, &again); err != nil {
		t.Fatalf("Scan(%q) of what we wrote: %v", out, err)
	}
	if again.Kind != m.Kind || again.ID != m.ID || again.Method != m.Method || again.ResultType != m.ResultType ||
		again.Progress != m.Progress || again.Version != m.Version || again.Modern != m.Modern {
		t.Fatalf("written and scanned again: got %+v, want %+v", again, *m)
	}
	if strings.ContainsAny(string(out), "\r\n") {
		t.Fatalf("%q is not one line", out)
	}
}

// Content blocks survive decoding and encoding, and never panic.
func FuzzContents(f *testing.F) {
	for _, s := range []string{
		`[{"type":"text","text":"a","x":1}]`, `{"type":"image","data":"AQI=","mimeType":"image/png"}`,
		`[{"type":"new","text":{"a":[null]}}]`, `[{"type":"resource","resource":{"uri":"a","blob":""}}]`,
		`[{"type":"tool_result","toolUseId":"a","content":[{"type":"tool_result","content":5}]}]`,
		`[{"type":"tool_use","id":"a","name":"b","input":{}}]`, `[{"type":"resource_link","uri":"a","name":"b"}]`, `[null]`, `[{"type":null}]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var cs Contents
		if Unmarshal(raw, &cs) != nil {
			return
		}
		out, err := Marshal(cs)
		if err != nil {
			t.Fatalf("Marshal of decoded %q: %v", raw, err)
		}
		var again Contents
		if err := Unmarshal(out, &again); err != nil {
			t.Fatalf("Unmarshal(%q) of what we wrote: %v", out, err)
		}
		twice, err := Marshal(again)
		if err != nil || string(twice) != string(out) {
			t.Fatalf("second round trip: got %q, %v, want %q", twice, err, out)
		}
		for _, v := range Versions() {
			if _, err := AppendCallToolResult(nil, &CallToolResult{Content: cs}, v); err != nil {
				t.Fatalf("AppendCallToolResult(%q, %s): %v", raw, v, err)
			}
		}
	})
}

// No type decoder accepts text that is not strict JSON, and none panics.
func TestDecodersRefuseHostileText(t *testing.T) {
	frames := []struct{ name, frame string }{
		{"duplicate", `{"name":"a","name":"b"}`},
		{"nested duplicate", `{"_meta":{"a":1,"a":2}}`},
		{"nested unknown duplicate", `{"zzz":{"a":1,"a":2}}`},
		{"invalid UTF-8", "{\"name\":\"\xff\"}"},
		{"lone surrogate", `{"name":"\ud800"}`},
		{"second value", `{}{}`},
		{"depth bomb", `{"a":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`},
		{"array", `[]`}, {"string", `"x"`}, {"number", `1`}, {"empty", ``},
	}
	for _, v := range []any{
		new(Tool), new(CallToolParams), new(CallToolResult), new(ListToolsResult), new(Resource), new(ResourceTemplate), new(ResourceContents),
		new(ReadResourceParams), new(ReadResourceResult), new(ListResourcesResult), new(Prompt), new(PromptMessage), new(GetPromptParams),
		new(GetPromptResult), new(CompleteParams), new(CompleteResult), new(InitializeParams), new(InitializeResult), new(DiscoverResult),
		new(ClientCapabilities), new(ServerCapabilities), new(SamplingMessage), new(CreateMessageParams), new(CreateMessageResult),
		new(ElicitParams), new(ElicitResult), new(ListRootsResult), new(LogParams), new(SetLevelParams), new(ProgressParams),
		new(CancelledParams), new(Task), new(CreateTaskResult), new(ExtensionTask), new(UpdateTaskParams), new(InputRequiredResult),
		new(ListenParams), new(ListenResult), new(TextContent), new(ImageContent), new(ToolUseContent), new(ToolResultContent),
		new(UnknownContent), new(Error), new(Meta), new(EmptyResult),
	} {
		for _, tt := range frames {
			if err := Unmarshal([]byte(tt.frame), v); err == nil {
				t.Errorf("%s: Unmarshal into %T: got nil, want an error", tt.name, v)
			}
			if u, ok := v.(json.Unmarshaler); ok { // also when called by another codec
				if err := u.UnmarshalJSON([]byte(tt.frame)); err == nil {
					t.Errorf("%s: %T.UnmarshalJSON: got nil, want an error", tt.name, v)
				}
			}
		}
	}
}

// The quick way and the codec must read the same.
func FuzzDecodeCallToolResult(f *testing.F) {
	for _, raw := range toolResults {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		quick := decodeTextResult(raw)
		if quick == nil {
			return
		}
		want := new(CallToolResult)
		if err := Unmarshal(raw, want); err != nil || !reflect.DeepEqual(quick, want) {
			t.Fatalf("DecodeCallToolResult(%q): got %+v, want %+v, %v", raw, quick, want, err)
		}
	})
}
