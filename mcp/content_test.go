package mcp

import (
	"encoding/json"
	"strings"
	"testing"
)

// BASE-13: what we do not know is kept.
func TestUnknownMembersSurvive(t *testing.T) {
	tests := []struct {
		v   any
		raw string
	}{
		{new(Contents), `[{"type":"hologram","depth":[1,{"a":null}],"text":5},{"type":"text","text":"","x":{"y":1.50}}]`},
		{new(Tool), `{"name":"t","inputSchema":{"type":"object","x-foo":1e2},"annotations":{"new":true},"later":[1]}`},
		{new(ClientCapabilities), `{"elicitation":{"voice":{}},"telepathy":{"range":5}}`},
		{new(ServerCapabilities), `{"tools":{"batch":true},"logging":{"json":true}}`},
		{new(CallToolResult), `{"content":[],"structuredContent":null,"later":1}`},
		{new(Resource), `{"uri":"a","name":"b","later":1}`},
		{new(Prompt), `{"name":"b","arguments":[{"name":"c","later":1}],"later":1}`},
		{new(PromptMessage), `{"role":"user","content":{"type":"new","a":1},"later":1}`},
		{new(ResourceContents), `{"uri":"a","text":"","later":1}`},
		{new(ToolResultContent), `{"type":"tool_result","toolUseId":"a","content":[{"type":"tool_use","odd":1}],"later":1}`},
		{new(Implementation), `{"name":"a","version":"","later":1}`},
		{new(ElicitResult), `{"action":"accept","content":{},"later":1}`},
		{new(CreateMessageResult), `{"role":"assistant","content":[],"model":"m","later":1}`},
	}
	for _, tt := range tests {
		if err := Unmarshal([]byte(tt.raw), tt.v); err != nil {
			t.Errorf("Unmarshal(%s): %v", tt.raw, err)
			continue
		}
		got, err := Marshal(tt.v)
		if err != nil || canonical(t, got) != canonical(t, []byte(tt.raw)) {
			t.Errorf("round trip of %T: got %s, %v, want %s", tt.v, got, err, tt.raw)
		}
	}
}

func canonical(t *testing.T, raw []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// Required members are missed by name.
func TestRequiredMembers(t *testing.T) {
	tests := []struct {
		v         any
		raw, want string
	}{
		{new(Contents), `[{"type":"text"}]`, "text content without text"},
		{new(Contents), `[{"type":"text","text":null}]`, "text content without text"},
		{new(Contents), `[{"type":"text","text":5}]`, "text content"},
		{new(Contents), `[{"text":"a"}]`, "without a type"},
		{new(Contents), `[{"type":5}]`, "without a type"},
		{new(Contents), `[null]`, "not an object"},
		{new(Contents), `["a"]`, "not an object"},
		{new(Contents), `null`, "not an array"},
		{new(Contents), `[{"type":"image","data":"AA==","mimeType":null}]`, "image content without mimeType"},
		{new(Contents), `[{"type":"image","data":"*","mimeType":"a/b"}]`, "image content"}, // PRM-04
		{new(Contents), `[{"type":"audio","mimeType":"a/b"}]`, "audio content without data"},
		{new(Contents), `[{"type":"resource"}]`, "resource content without resource"},
		{new(Contents), `[{"type":"resource","resource":{"uri":"a"}}]`, "exactly one of text and blob"}, // RES-03
		{new(Contents), `[{"type":"resource","resource":{"uri":"a","text":"","blob":""}}]`, "exactly one of text and blob"},
		{new(Contents), `[{"type":"resource","resource":{"text":""}}]`, "resource contents without uri"},
		{new(Contents), `[{"type":"resource_link","uri":"a"}]`, "resource_link content without name"},
		{new(Contents), `[{"type":"tool_use","id":"a","name":"b"}]`, "tool_use content without input"},
		{new(Contents), `[{"type":"tool_use","id":"a","name":"b","input":[]}]`, "input is not an object"},
		{new(Contents), `[{"type":"tool_result","content":[]}]`, "tool_result content without toolUseId"},
		{new(Tool), `{"inputSchema":{}}`, "tool without name"},
		{new(Tool), `{"name":"a"}`, `tool "a" without inputSchema`},
		{new(Tool), `{"name":"a","inputSchema":null}`, `tool "a" without inputSchema`},
		{new(ListToolsResult), `{}`, "without tools"},
		{new(ListToolsResult), `{"tools":null}`, "without tools"},
		{new(CallToolParams), `{}`, "tools/call without name"},
		{new(CallToolParams), `{"name":"a","arguments":[]}`, "arguments is not an object"},
		{new(CallToolResult), `{}`, "without content"},
		{new(PromptMessage), `{"role":"system","content":{"type":"text","text":""}}`, "unknown role"},
		{new(PromptMessage), `{"role":"user"}`, "without content"},
		{new(ElicitParams), `{"message":"m"}`, "without requestedSchema"},
		{new(ElicitParams), `{"message":"m","mode":"url"}`, "without url"},
		{new(ElicitParams), `{"message":"m","mode":"telepathy"}`, "unknown mode"},
		{new(ElicitResult), `{"action":"maybe"}`, "unknown action"},
		{new(ElicitResult), `{"action":"accept","content":{"a":{"b":1}}}`, "not a form value"},
		{new(ElicitResult), `{"action":"accept","content":{"a":[1]}}`, "not a form value"},
		{new(CreateMessageParams), `{"messages":[]}`, "maxTokens"},
		{new(CreateMessageResult), `{"role":"assistant","content":[]}`, "without model"},
		{new(InputRequiredResult), `{"resultType":"input_required"}`, "inputRequests or requestState"}, // MRTR-02
		{new(InputRequiredResult), `{"inputRequests":{"a":{"method":"tools/call"}}}`, "asks for"},
		{new(ListRootsResult), `{"roots":[{"uri":"https://a"}]}`, "not a file URI"}, // ROOT-01
		{new(ListenResult), `{"_meta":{}}`, "without subscriptionId"},
		{new(Task), `{"taskId":"a","status":"odd"}`, "unknown status"},
		{new(Error), `{"code":1}`, "error without message"},
		{new(LogParams), `{"level":"info"}`, "without data"},
		{new(CompleteParams), `{"ref":{"type":"x"}}`, "unknown reference type"},
		{new(DiscoverResult), `{"supportedVersions":[]}`, "without supportedVersions"},
	}
	for _, tt := range tests {
		err := Unmarshal([]byte(tt.raw), tt.v)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Unmarshal(%s) into %T: got %v, want %q", tt.raw, tt.v, err, tt.want)
		}
	}
}

// Tool results in tool results would let a peer make decoding quadratic.
func TestNestedToolResultsStayRaw(t *testing.T) {
	var cs Contents
	raw := `[{"type":"tool_result","toolUseId":"a","content":[{"type":"tool_result","toolUseId":"b","content":[]}]}]`
	if err := Unmarshal([]byte(raw), &cs); err != nil {
		t.Fatal(err)
	}
	inner := cs[0].(*ToolResultContent).Content[0]
	if u, ok := inner.(*UnknownContent); !ok || u.Type != TypeToolResult {
		t.Errorf("inner tool result: got %T, want it raw", inner)
	}
}

// CONT-03
func TestContentDowngrade(t *testing.T) {
	cs := Contents{
		Text("a"), &AudioContent{Data: []byte{1, 2}, MIMEType: "audio/wav"},
		&ResourceLink{URI: "file:///x", Name: "x", Title: "X"}, &UnknownContent{Type: "n", Raw: json.RawMessage(`{"type":"n"}`)},
	}
	tests := []struct {
		v    Version
		want string
	}{
		{V2024_11_05, "a\n[audio, audio/wav, 2 bytes: protocol revision 2024-11-05 cannot carry it]\nX: file:///x"},
		{V2025_03_26, "a\nX: file:///x"},
		{V2025_06_18, "a"},
		{V2026_07_28, "a"},
	}
	for _, tt := range tests {
		got := cs.For(tt.v)
		if got.Text() != tt.want || len(got) != len(cs) {
			t.Errorf("For(%s): got text %q, want %q", tt.v, got.Text(), tt.want)
		}
	}
	if _, ok := cs[1].(*AudioContent); !ok {
		t.Error("For changed its receiver")
	}
}
