package mcp_test

import (
	"encoding/json"
	"slices"
	"testing"

	mcpschema "github.com/troupe-dev/troupe/internal/mcptest/schema"
	"github.com/troupe-dev/troupe/mcp"
)

const (
	stamp = "2026-01-02T03:04:05Z"
	obj   = `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`
)

var (
	fullTool = mcp.Tool{
		Name: "t", Title: "T", Description: "d", InputSchema: json.RawMessage(obj), OutputSchema: json.RawMessage(obj),
		Annotations: &mcp.ToolAnnotations{Title: "A", ReadOnlyHint: true, DestructiveHint: new(false), IdempotentHint: true, OpenWorldHint: new(true)},
		Icons:       []mcp.Icon{{Src: "https://example.com/i.png", MIMEType: "image/png", Sizes: []string{"48x48"}, Theme: "dark"}},
		Execution:   &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}, Meta: meta("com.example/k", `1`),
	}
	arrayTool = mcp.Tool{Name: "arr", InputSchema: json.RawMessage(obj), OutputSchema: json.RawMessage(`{"type":"array"}`)}
	notes     = &mcp.Annotations{Audience: []mcp.Role{mcp.RoleUser}, Priority: new(0.5), LastModified: stamp}
	everyKind = mcp.Contents{
		&mcp.TextContent{Text: "x", Annotations: notes, Meta: meta("k", `true`)},
		&mcp.ImageContent{Data: []byte{1, 2, 3}, MIMEType: "image/png", Annotations: notes},
		&mcp.AudioContent{Data: []byte{4}, MIMEType: "audio/wav", Annotations: notes},
		&mcp.ResourceLink{URI: "file:///a", Name: "a", Title: "A", MIMEType: "text/plain", Size: new(int64(3)), Annotations: notes},
		&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "file:///a", Text: "hi"}, Annotations: notes},
		&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "file:///b", Blob: []byte{}}},
	}
	someone = mcp.Implementation{Name: "n", Title: "N", Version: "1", Description: "d", WebsiteURL: "https://example.com"}
)

func meta(key, raw string) mcp.Meta { return mcp.Meta{key: json.RawMessage(raw)} }

func modernMeta(t *testing.T) mcp.Meta {
	t.Helper()
	m := mcp.Meta{}
	for key, v := range map[string]any{
		mcp.MetaProtocolVersion: mcp.Latest, mcp.MetaClientInfo: someone, mcp.MetaProgressToken: mcp.IntID(4),
		mcp.MetaClientCapabilities: &mcp.ClientCapabilities{Sampling: &mcp.SamplingCapability{}}, mcp.MetaLogLevel: mcp.LogInfo,
	} {
		if err := m.Set(key, v); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// results gives a value for every result type, with as many members as it has.
func results() map[string]any {
	return map[string]any{
		"CallToolResult": &mcp.CallToolResult{Content: everyKind, StructuredContent: json.RawMessage(`{"a": "b"}`), IsError: true,
			Meta: meta("k", `{}`)},
		"ListToolsResult":             &mcp.ListToolsResult{Tools: []mcp.Tool{fullTool, arrayTool}, NextCursor: new("")},
		"ListResourcesResult":         &mcp.ListResourcesResult{Resources: []mcp.Resource{{URI: "file:///a", Name: "a", Size: new(int64(0)), Annotations: notes}}},
		"ListResourceTemplatesResult": &mcp.ListResourceTemplatesResult{ResourceTemplates: []mcp.ResourceTemplate{{URITemplate: "file:///{a}", Name: "a"}}, CacheScope: mcp.CachePublic},
		"ReadResourceResult":          &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{{URI: "file:///a", Text: ""}, {URI: "file:///b", Blob: []byte{9}}}, TTLMs: new(int64(-3))},
		"ListPromptsResult":           &mcp.ListPromptsResult{Prompts: []mcp.Prompt{{Name: "p", Arguments: []mcp.PromptArgument{{Name: "a", Required: true}}}}},
		"GetPromptResult":             &mcp.GetPromptResult{Description: "d", Messages: promptMessages()},
		"CompleteResult":              &mcp.CompleteResult{Completion: mcp.Completion{Values: nil, Total: new(int64(3)), HasMore: true}},
		"InitializeResult":            &mcp.InitializeResult{ProtocolVersion: mcp.LatestLegacy, Capabilities: everyServerCapability(), ServerInfo: someone},
		"DiscoverResult":              &mcp.DiscoverResult{SupportedVersions: mcp.Versions(), Capabilities: everyServerCapability()},
		"EmptyResult":                 &mcp.EmptyResult{},
		"InputRequiredResult":         &mcp.InputRequiredResult{InputRequests: mcp.InputRequests{"r": {Method: mcp.MethodListRoots}}, RequestState: new("s")},
		"SubscriptionsListenResult":   &mcp.ListenResult{Meta: meta(mcp.MetaSubscriptionID, `"L"`)},
		"CreateMessageResult":         &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Content: mcp.Contents{mcp.Text("x")}, Model: "m", StopReason: mcp.StopEndTurn},
		"ElicitResult":                &mcp.ElicitResult{Action: mcp.ActionAccept, Content: map[string]json.RawMessage{"a": json.RawMessage(`"b"`), "n": json.RawMessage(`1`)}},
		"ListRootsResult":             &mcp.ListRootsResult{Roots: []mcp.Root{{URI: "file:///w", Name: "w"}}},
		"CreateTaskResult":            &mcp.CreateTaskResult{Task: mcp.Task{TaskID: "t", Status: mcp.TaskWorking, CreatedAt: stamp, LastUpdatedAt: stamp}},
		"GetTaskResult":               &mcp.Task{TaskID: "t", Status: mcp.TaskFailed, CreatedAt: stamp, LastUpdatedAt: stamp, TTL: new(int64(5)), PollInterval: new(int64(1))},
		"ListTasksResult":             &mcp.ListTasksResult{},
	}
}

func promptMessages() []mcp.PromptMessage {
	var messages []mcp.PromptMessage
	for _, c := range everyKind {
		messages = append(messages, mcp.PromptMessage{Role: mcp.RoleUser, Content: c})
	}
	return messages
}

func everyServerCapability() mcp.ServerCapabilities {
	return mcp.ServerCapabilities{
		Tools: &mcp.ToolsCapability{ListChanged: true}, Resources: &mcp.ResourcesCapability{Subscribe: true, ListChanged: true},
		Prompts: &mcp.PromptsCapability{ListChanged: true}, Completions: mcp.Present, Logging: mcp.Present,
		Tasks: &mcp.TasksCapability{List: mcp.Present, Cancel: mcp.Present,
			Requests: &mcp.TaskRequests{Tools: &mcp.TaskToolRequests{Call: mcp.Present}}},
		Extensions:   map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage(`{}`)},
		Experimental: map[string]json.RawMessage{"x": json.RawMessage(`{}`)},
	}
}

// Every result we write is valid in every revision that has it.
func TestResultsMatchEverySchema(t *testing.T) {
	for _, v := range mcp.Versions() {
		schemas := mcpschema.Load(t, v)
		checked := 0
		for def, r := range results() {
			if !schemas.Has(def) {
				continue
			}
			raw, err := mcp.MarshalResult(r, v)
			if err != nil {
				t.Fatalf("MarshalResult(%s, %s): %v", def, v, err)
			}
			schemas.Check(t, def, raw)
			msg, err := mcp.AppendResultOf(nil, mcp.IntID(1), r, v)
			if err != nil {
				t.Fatalf("AppendResultOf(%s, %s): %v", def, v, err)
			}
			// In 2026-07-28 the answers to a server's questions are never messages of their own.
			answer := slices.Contains([]string{"CreateMessageResult", "ElicitResult", "ListRootsResult"}, def)
			if !answer || v.Era() == mcp.EraLegacy {
				schemas.CheckMessage(t, msg)
			}
			checked++
		}
		if checked < 12 {
			t.Errorf("%s: only %d results checked", v, checked)
		}
	}
}

// Every request and notification we write is valid in every revision that has it.
func TestRequestsMatchEverySchema(t *testing.T) {
	for _, v := range mcp.Versions() {
		schemas := mcpschema.Load(t, v)
		m := meta(mcp.MetaProgressToken, `"p"`)
		if v.Era() == mcp.EraModern {
			m = modernMeta(t)
		}
		for _, tt := range requests(t, v, m) {
			if !schemas.Has(tt.def) || !v.Method(tt.method, tt.from) && !v.InputMethod(tt.method) {
				continue
			}
			params, err := mcp.Marshal(tt.params)
			if err != nil {
				t.Fatal(err)
			}
			var raw []byte
			switch {
			case v.InputMethod(tt.method):
				raw, err = mcp.Marshal(mcp.InputRequest{Method: tt.method, Params: params})
				if err != nil {
					t.Fatal(err)
				}
			case tt.notification:
				raw = mcp.AppendNotification(nil, tt.method, params)
				schemas.CheckMessage(t, raw)
			default:
				raw = mcp.AppendRequest(nil, mcp.StringID("1"), tt.method, params)
				schemas.CheckMessage(t, raw)
			}
			schemas.Check(t, tt.def, raw)
		}
	}
}

type requestCase struct {
	def, method  string
	from         mcp.Side
	notification bool
	params       any
}

func requests(t *testing.T, v mcp.Version, m mcp.Meta) []requestCase {
	t.Helper()
	elicit := func(p *mcp.ElicitParams) any {
		d, err := p.For(v)
		if err != nil {
			return nil
		}
		return d
	}
	sample := &mcp.CreateMessageParams{MaxTokens: 10, SystemPrompt: "s", Temperature: new(0.5), IncludeContext: mcp.ContextNone,
		Messages:         []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Contents{mcp.Text("a"), everyKind[1], everyKind[2]}}},
		ModelPreferences: &mcp.ModelPreferences{Hints: []mcp.ModelHint{{Name: "m"}}, CostPriority: new(0.0)}, Metadata: json.RawMessage(`{}`)}
	sampled, err := sample.For(v)
	if err != nil {
		t.Fatal(err)
	}
	caps := (&mcp.ClientCapabilities{
		Roots: &mcp.RootsCapability{ListChanged: true}, Sampling: &mcp.SamplingCapability{Tools: mcp.Present, Context: mcp.Present},
		Elicitation: &mcp.ElicitationCapability{Form: mcp.Present, URL: mcp.Present},
		Tasks: &mcp.TasksCapability{Requests: &mcp.TaskRequests{
			Sampling:    &mcp.TaskSamplingRequests{CreateMessage: mcp.Present},
			Elicitation: &mcp.TaskElicitationRequests{Create: mcp.Present}}},
	}).For(v)
	c, s := mcp.Client, mcp.Server
	return []requestCase{
		{"InitializeRequest", mcp.MethodInitialize, c, false, &mcp.InitializeParams{ProtocolVersion: v, Capabilities: *caps, ClientInfo: someone}},
		{"DiscoverRequest", mcp.MethodDiscover, c, false, &mcp.ListParams{Meta: m}},
		{"PingRequest", mcp.MethodPing, c, false, &mcp.ListParams{}},
		{"ListToolsRequest", mcp.MethodListTools, c, false, &mcp.ListParams{Cursor: new(""), Meta: m}},
		{"CallToolRequest", mcp.MethodCallTool, c, false, &mcp.CallToolParams{Name: "t", Arguments: json.RawMessage(`{}`), Meta: m,
			Task: &mcp.TaskOptions{TTL: new(int64(1))}}},
		{"ReadResourceRequest", mcp.MethodReadResource, c, false, &mcp.ReadResourceParams{URI: "file:///a", Meta: m}},
		{"SubscribeRequest", mcp.MethodSubscribe, c, false, &mcp.ResourceParams{URI: "file:///a"}},
		{"UnsubscribeRequest", mcp.MethodUnsubscribe, c, false, &mcp.ResourceParams{URI: "file:///a"}},
		{"GetPromptRequest", mcp.MethodGetPrompt, c, false, &mcp.GetPromptParams{Name: "p", Arguments: map[string]string{"a": "b"}, Meta: m}},
		{"CompleteRequest", mcp.MethodComplete, c, false, &mcp.CompleteParams{Meta: m, Ref: mcp.CompletionRef{Type: mcp.RefPrompt, Name: "p"},
			Argument: mcp.CompletionArgument{Name: "a"}, Context: &mcp.CompletionContext{Arguments: map[string]string{"b": "c"}}}},
		{"SetLevelRequest", mcp.MethodSetLevel, c, false, &mcp.SetLevelParams{Level: mcp.LogInfo}},
		{"SubscriptionsListenRequest", mcp.MethodListen, c, false, &mcp.ListenParams{Meta: m, Notifications: &mcp.SubscriptionFilter{ToolsListChanged: true}}},
		{"ListRootsRequest", mcp.MethodListRoots, s, false, &mcp.ListParams{}},
		{"CreateMessageRequest", mcp.MethodCreateMessage, s, false, sampled},
		{"ElicitRequest", mcp.MethodElicit, s, false, elicit(&mcp.ElicitParams{Mode: mcp.ElicitForm, Message: "m", RequestedSchema: json.RawMessage(obj)})},
		{"ElicitRequestURLParams", "", 0, false, elicit(&mcp.ElicitParams{Mode: mcp.ElicitURL, Message: "m", URL: "https://example.com/x", ElicitationID: "e"})},
		{"GetTaskRequest", mcp.MethodGetTask, c, false, &mcp.TaskParams{TaskID: "t"}},
		{"GetTaskPayloadRequest", mcp.MethodTaskResult, c, false, &mcp.TaskParams{TaskID: "t"}},
		{"CancelTaskRequest", mcp.MethodCancelTask, c, false, &mcp.TaskParams{TaskID: "t"}},
		{"ListTasksRequest", mcp.MethodListTasks, c, false, &mcp.ListParams{}},
		{"CancelledNotification", mcp.NotificationCancelled, c, true, &mcp.CancelledParams{RequestID: mcp.IntID(1), Reason: "r"}},
		{"ProgressNotification", mcp.NotificationProgress, s, true, &mcp.ProgressParams{ProgressToken: mcp.StringID("p"), Progress: 0.5, Total: new(1.0), Message: "m"}},
		{"LoggingMessageNotification", mcp.NotificationMessage, s, true, &mcp.LogParams{Level: mcp.LogError, Data: json.RawMessage(`null`)}},
		{"ResourceUpdatedNotification", mcp.NotificationResourceUpdated, s, true, &mcp.ResourceParams{URI: "file:///a"}},
		{"ElicitationCompleteNotification", mcp.NotificationElicitationComplete, s, true, &mcp.ElicitationCompleteParams{ElicitationID: "e"}},
		{"TaskStatusNotification", mcp.NotificationTaskStatus, s, true, &mcp.Task{TaskID: "t", Status: mcp.TaskWorking, CreatedAt: stamp, LastUpdatedAt: stamp}},
		{"SubscriptionsAcknowledgedNotification", mcp.NotificationListenAcknowledged, s, true, &mcp.ListenParams{Notifications: &mcp.SubscriptionFilter{}}},
	}
}

// The Tasks extension has its own schema (XTASK-02, XTASK-06, XTASK-14).
func TestExtensionTasksMatchSchema(t *testing.T) {
	schemas := mcpschema.LoadTasks(t)
	task := mcp.ExtensionTask{TaskID: "t", Status: mcp.TaskWorking, CreatedAt: stamp, LastUpdatedAt: stamp, PollIntervalMs: new(int64(1))}
	created, failed := task, task
	created.ResultType = mcp.ResultTask
	failed.Status, failed.Error = mcp.TaskFailed, mcp.ErrInternal
	for def, v := range map[string]*mcp.ExtensionTask{"CreateTaskResult": &created, "GetTaskResult": &failed} {
		raw, err := mcp.MarshalResult(v, mcp.Latest)
		if err != nil {
			t.Fatal(err)
		}
		schemas.Check(t, def, raw)
	}
	raw, err := mcp.Marshal(&task)
	if err != nil {
		t.Fatal(err)
	}
	schemas.Check(t, "TaskStatusNotification", mcp.AppendNotification(nil, mcp.NotificationTask, raw))
	if err := failed.ValidateDetailed(); err != nil {
		t.Errorf("ValidateDetailed: got %v, want nil", err)
	}
	failed.Error = nil
	if failed.ValidateDetailed() == nil {
		t.Error("ValidateDetailed of a failed task without error: got nil, want an error")
	}
}

// The errors with data are valid where they exist.
func TestErrorsMatchSchema(t *testing.T) {
	form := &mcp.ElicitParams{Message: "m", URL: "https://example.com/x", ElicitationID: "e"}
	tests := []struct {
		v   mcp.Version
		def string
		err *mcp.Error
	}{
		{mcp.V2026_07_28, "UnsupportedProtocolVersionError", mcp.UnsupportedVersion("2030-01-01", mcp.Versions())},
		{mcp.V2026_07_28, "MissingRequiredClientCapabilityError", mcp.MissingCapability(&mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{Form: mcp.Present}})},
		{mcp.V2026_07_28, "HeaderMismatchError", mcp.ErrHeaderMismatch},
		{mcp.V2025_11_25, "URLElicitationRequiredError", mcp.URLElicitationRequired(form)},
	}
	for _, tt := range tests {
		schemas := mcpschema.Load(t, tt.v)
		raw := mcp.AppendError(nil, mcp.IntID(1), tt.err)
		schemas.Check(t, tt.def, raw)
		schemas.Check(t, tt.def, mcp.AppendError(nil, mcp.ID{}, tt.err)) // BASE-08
		var m mcp.Message
		if err := mcp.Scan(raw, &m); err != nil || m.Kind != mcp.KindError {
			t.Fatalf("Scan(%s): got %v, %v, want an error message", raw, m.Kind, err)
		}
		if tt.def == "URLElicitationRequiredError" {
			if list, ok := m.Error.URLElicitations(); !ok || list[0].ElicitationID != "e" {
				t.Errorf("URLElicitations(%s): got %v, %v", raw, list, ok)
			}
		}
	}
	d, ok := mcp.UnsupportedVersion("x", mcp.Versions()).UnsupportedVersion()
	if !ok || d.Requested != "x" || !slices.Equal(d.Supported, mcp.Versions()) {
		t.Errorf("UnsupportedVersion: got %v, %v", d, ok)
	}
}
