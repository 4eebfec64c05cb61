package mcp_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	mcpschema "github.com/troupe-dev/troupe/internal/mcptest/schema"
	"github.com/troupe-dev/troupe/mcp"
)

// goTypes gives the Go type of each definition that the official examples use.
var goTypes = map[string]func() any{
	"AudioContent":                     func() any { return new(mcp.AudioContent) },
	"BlobResourceContents":             func() any { return new(mcp.ResourceContents) },
	"CallToolRequestParams":            func() any { return new(mcp.CallToolParams) },
	"CallToolResult":                   func() any { return new(mcp.CallToolResult) },
	"CancelledNotificationParams":      func() any { return new(mcp.CancelledParams) },
	"ClientCapabilities":               func() any { return new(mcp.ClientCapabilities) },
	"CompleteRequestParams":            func() any { return new(mcp.CompleteParams) },
	"CompleteResult":                   func() any { return new(mcp.CompleteResult) },
	"CreateMessageRequest":             func() any { return new(mcp.InputRequest) },
	"CreateMessageRequestParams":       func() any { return new(mcp.CreateMessageParams) },
	"CreateMessageResult":              func() any { return new(mcp.CreateMessageResult) },
	"DiscoverResult":                   func() any { return new(mcp.DiscoverResult) },
	"ElicitRequest":                    func() any { return new(mcp.InputRequest) },
	"ElicitRequestFormParams":          func() any { return new(mcp.ElicitParams) },
	"ElicitRequestURLParams":           func() any { return new(mcp.ElicitParams) },
	"ElicitResult":                     func() any { return new(mcp.ElicitResult) },
	"EmbeddedResource":                 func() any { return new(mcp.EmbeddedResource) },
	"GetPromptRequestParams":           func() any { return new(mcp.GetPromptParams) },
	"GetPromptResult":                  func() any { return new(mcp.GetPromptResult) },
	"ImageContent":                     func() any { return new(mcp.ImageContent) },
	"InputRequests":                    func() any { return new(mcp.InputRequests) },
	"InputRequiredResult":              func() any { return new(mcp.InputRequiredResult) },
	"InputResponses":                   func() any { return new(mcp.InputResponses) },
	"InternalError":                    func() any { return new(mcp.Error) },
	"InvalidParamsError":               func() any { return new(mcp.Error) },
	"ListPromptsResult":                func() any { return new(mcp.ListPromptsResult) },
	"ListResourceTemplatesResult":      func() any { return new(mcp.ListResourceTemplatesResult) },
	"ListResourcesResult":              func() any { return new(mcp.ListResourcesResult) },
	"ListRootsRequest":                 func() any { return new(mcp.InputRequest) },
	"ListRootsResult":                  func() any { return new(mcp.ListRootsResult) },
	"ListToolsResult":                  func() any { return new(mcp.ListToolsResult) },
	"LoggingMessageNotificationParams": func() any { return new(mcp.LogParams) },
	"MethodNotFoundError":              func() any { return new(mcp.Error) },
	"ModelPreferences":                 func() any { return new(mcp.ModelPreferences) },
	"PaginatedRequestParams":           func() any { return new(mcp.ListParams) },
	"ParseError":                       func() any { return new(mcp.Error) },
	"ProgressNotificationParams":       func() any { return new(mcp.ProgressParams) },
	"ReadResourceResult":               func() any { return new(mcp.ReadResourceResult) },
	"Resource":                         func() any { return new(mcp.Resource) },
	"ResourceLink":                     func() any { return new(mcp.ResourceLink) },
	"ResourceUpdatedNotificationParams": func() any {
		return new(mcp.ResourceParams)
	},
	"Root":                      func() any { return new(mcp.Root) },
	"SamplingMessage":           func() any { return new(mcp.SamplingMessage) },
	"ServerCapabilities":        func() any { return new(mcp.ServerCapabilities) },
	"SubscriptionsListenResult": func() any { return new(mcp.ListenResult) },
	"TextContent":               func() any { return new(mcp.TextContent) },
	"TextResourceContents":      func() any { return new(mcp.ResourceContents) },
	"Tool":                      func() any { return new(mcp.Tool) },
	"ToolResultContent":         func() any { return new(mcp.ToolResultContent) },
	"ToolUseContent":            func() any { return new(mcp.ToolUseContent) },
}

// paramTypes gives the params of each method in the examples.
var paramTypes = map[string]func() any{
	mcp.MethodCallTool:                 func() any { return new(mcp.CallToolParams) },
	mcp.MethodComplete:                 func() any { return new(mcp.CompleteParams) },
	mcp.MethodDiscover:                 func() any { return new(mcp.ListParams) },
	mcp.MethodGetPrompt:                func() any { return new(mcp.GetPromptParams) },
	mcp.MethodListPrompts:              func() any { return new(mcp.ListParams) },
	mcp.MethodListResources:            func() any { return new(mcp.ListParams) },
	mcp.MethodListResourceTemplates:    func() any { return new(mcp.ListParams) },
	mcp.MethodListTools:                func() any { return new(mcp.ListParams) },
	mcp.MethodReadResource:             func() any { return new(mcp.ReadResourceParams) },
	mcp.MethodListen:                   func() any { return new(mcp.ListenParams) },
	mcp.NotificationCancelled:          func() any { return new(mcp.CancelledParams) },
	mcp.NotificationMessage:            func() any { return new(mcp.LogParams) },
	mcp.NotificationProgress:           func() any { return new(mcp.ProgressParams) },
	mcp.NotificationPromptsChanged:     func() any { return new(mcp.ListParams) },
	mcp.NotificationResourcesChanged:   func() any { return new(mcp.ListParams) },
	mcp.NotificationToolsChanged:       func() any { return new(mcp.ListParams) },
	mcp.NotificationResourceUpdated:    func() any { return new(mcp.ResourceParams) },
	mcp.NotificationListenAcknowledged: func() any { return new(mcp.ListenParams) },
}

func TestOfficialExamples(t *testing.T) {
	schemas := mcpschema.Load(t, mcp.V2026_07_28)
	for def, examples := range mcpschema.Examples(t) {
		for name, raw := range examples {
			t.Run(def+"/"+name, func(t *testing.T) {
				got := roundTrip(t, def, raw)
				// This example lacks the ttlMs that ReadResourceResult requires, and we add it.
				incomplete := name == "read-resource-result-response"
				if want := withoutDefaults(raw); !incomplete && !mcpschema.Equal(withoutDefaults(got), want) {
					t.Errorf("round trip of %s: got %s, want %s", def, got, want)
				}
				schemas.Check(t, def, got)
			})
		}
	}
}

// withoutDefaults drops members that mean the same when absent.
func withoutDefaults(raw []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return raw
	}
	s := out.String()
	for _, member := range []string{`"isError":false`, `"hasMore":false`} {
		s = strings.ReplaceAll(s, ","+member, "")
		s = strings.ReplaceAll(s, member+",", "")
	}
	return []byte(s)
}

// roundTrip decodes raw into the Go type of its definition and encodes that.
func roundTrip(t *testing.T, def string, raw []byte) []byte {
	t.Helper()
	if strings.Contains(string(raw), `"jsonrpc"`) {
		return roundTripMessage(t, strings.TrimSuffix(def, "Response"), raw)
	}
	if strings.HasSuffix(def, "Schema") { // lives in a form
		raw = append(append([]byte(`{"message":"m","requestedSchema":{"type":"object","properties":{"p":`), raw...), "}}}"...)
		var params mcp.ElicitParams
		var form struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		again(t, raw, &params)
		again(t, params.RequestedSchema, &form)
		return form.Properties["p"]
	}
	make, ok := goTypes[def]
	if !ok {
		t.Fatalf("no Go type for %s", def)
	}
	return again(t, raw, make())
}

// again decodes raw into v and encodes v.
func again(t *testing.T, raw []byte, v any) []byte {
	t.Helper()
	if err := mcp.Unmarshal(raw, v); err != nil {
		t.Fatalf("Unmarshal(%s): %v", raw, err)
	}
	out, err := mcp.Marshal(v)
	if err != nil {
		t.Fatalf("Marshal(%+v): %v", v, err)
	}
	return out
}

func roundTripMessage(t *testing.T, def string, raw []byte) []byte {
	t.Helper()
	var m mcp.Message
	if err := mcp.Scan(raw, &m); err != nil {
		t.Fatalf("Scan(%s): %v", raw, err)
	}
	switch m.Kind {
	case mcp.KindError:
		return mcp.AppendError(nil, m.ID, m.Error)
	case mcp.KindResult:
		v := goTypes[def]()
		again(t, m.Result, v)
		out, err := mcp.AppendResultOf(nil, m.ID, v, mcp.V2026_07_28)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	make, ok := paramTypes[m.Method]
	if !ok {
		t.Fatalf("no params for %s", m.Method)
	}
	var params []byte
	if m.Params != nil {
		params = again(t, m.Params, make())
	}
	if m.Kind == mcp.KindNotification {
		return mcp.AppendNotification(nil, m.Method, params)
	}
	return mcp.AppendRequest(nil, m.ID, m.Method, params)
}
