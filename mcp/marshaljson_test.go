package mcp

import (
	"encoding/json"
	"testing"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// The types that programs write by themselves come out of encoding/json as they come out
// of the codec: members of Extra beside the named ones, none called "Extra".
func TestEncodingJSON(t *testing.T) {
	extra := map[string]json.RawMessage{"vendor": json.RawMessage(`{"a":1}`)}
	text := &TextContent{Text: "a < b"}
	for _, v := range []any{
		Tool{Name: "t", InputSchema: json.RawMessage(`{}`), Annotations: &ToolAnnotations{ReadOnlyHint: true}, Extra: extra},
		&Tool{Name: "t", InputSchema: json.RawMessage(`{}`)},
		CallToolResult{Content: []Content{text}, Extra: extra},
		&ListToolsResult{Tools: []Tool{{Name: "t", InputSchema: json.RawMessage(`{}`), Extra: extra}}},
		Prompt{Name: "p", Arguments: []PromptArgument{{Name: "a"}}, Extra: extra},
		GetPromptResult{Messages: []PromptMessage{{Role: "user", Content: text, Extra: extra}}},
		Resource{URI: "x:y", Name: "r", Annotations: &Annotations{}, Extra: extra},
		ResourceTemplate{URITemplate: "x:{y}", Name: "r"},
		Implementation{Name: "i", Version: "1", Icons: []Icon{{Src: "data:,"}}, Extra: extra},
		ServerCapabilities{Tools: &ToolsCapability{ListChanged: true}, Extra: extra},
		ClientCapabilities{Roots: &RootsCapability{}},
		InitializeResult{ProtocolVersion: "2025-11-25"},
		ElicitResult{Action: "accept"},
		Task{TaskID: "1"},
	} {
		got, err := json.Marshal(v)
		want, wantErr := jsonx.Marshal(v)
		if err != nil || wantErr != nil {
			t.Fatalf("%T: %v, %v", v, err, wantErr)
		}
		if canonical(t, got) != canonical(t, want) {
			t.Errorf("%T: got %s, want %s", v, got, want)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(got, &members); err != nil || members["Extra"] != nil {
			t.Errorf("%T: got %s, %v", v, got, err)
		}
	}
}
