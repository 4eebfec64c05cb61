package mcp

import (
	"encoding/json"
	"errors"
	"testing"
)

// MRTR-03, MRTR-13
func TestInputRequestDecode(t *testing.T) {
	form, err := NewInputRequest(MethodElicit, &ElicitParams{Message: "m", RequestedSchema: json.RawMessage(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	sample, err := NewInputRequest(MethodCreateMessage, &CreateMessageParams{MaxTokens: 1})
	if err != nil {
		t.Fatal(err)
	}
	orphan, err := NewInputRequest(MethodCreateMessage, &CreateMessageParams{MaxTokens: 1,
		Messages: []SamplingMessage{{Role: RoleUser, Content: Contents{&ToolResultContent{ToolUseID: "a"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		r    InputRequest
		want string // type of the params; "" for an error
	}{
		{"form", form, "form"}, {"sampling", sample, "sampling"}, {"roots", InputRequest{Method: MethodListRoots}, "none"},
		{"unknown", InputRequest{Method: MethodCallTool, Params: json.RawMessage(`{}`)}, ""},
		{"no params", InputRequest{Method: MethodElicit}, ""}, {"orphaned tool result", orphan, ""},
	}
	for _, tt := range tests {
		got, err := tt.r.Decode()
		kind := "none"
		switch got.(type) {
		case *ElicitParams:
			kind = "form"
		case *CreateMessageParams:
			kind = "sampling"
		}
		if err != nil {
			kind = ""
		}
		if kind != tt.want {
			t.Errorf("%s: Decode: got %T, %v, want %q", tt.name, got, err, tt.want)
		}
	}
}

// TOOL-06: what hints mean when they are absent.
func TestToolHints(t *testing.T) {
	tests := []struct {
		a                                            *ToolAnnotations
		readOnly, destructive, idempotent, openWorld bool
	}{
		{nil, false, true, false, true},
		{&ToolAnnotations{}, false, true, false, true},
		{&ToolAnnotations{ReadOnlyHint: true}, true, false, true, true},
		{&ToolAnnotations{DestructiveHint: new(false), IdempotentHint: true, OpenWorldHint: new(false)}, false, false, true, false},
	}
	for _, tt := range tests {
		if a := tt.a; a.ReadOnly() != tt.readOnly || a.Destructive() != tt.destructive || a.Idempotent() != tt.idempotent || a.OpenWorld() != tt.openWorld {
			t.Errorf("%+v: got %v %v %v %v", a, a.ReadOnly(), a.Destructive(), a.Idempotent(), a.OpenWorld())
		}
	}
}

// TOOL-18
func TestDisplayName(t *testing.T) {
	tests := []struct {
		tool Tool
		want string
	}{
		{Tool{Name: "n", Title: "T", Annotations: &ToolAnnotations{Title: "A"}}, "T"},
		{Tool{Name: "n", Annotations: &ToolAnnotations{Title: "A"}}, "A"}, {Tool{Name: "n"}, "n"},
	}
	for _, tt := range tests {
		if got := tt.tool.DisplayName(); got != tt.want {
			t.Errorf("DisplayName of %+v: got %q, want %q", tt.tool, got, tt.want)
		}
	}
}

// LOG-02
func TestLogLevels(t *testing.T) {
	tests := []struct {
		level, min LogLevel
		want       bool
	}{
		{LogInfo, LogDebug, true}, {LogInfo, LogInfo, true}, {LogInfo, LogNotice, false}, {LogEmergency, LogAlert, true},
		{"loud", LogDebug, false}, {LogInfo, "loud", false},
	}
	for _, tt := range tests {
		if got := tt.level.AtLeast(tt.min); got != tt.want {
			t.Errorf("%q.AtLeast(%q): got %v, want %v", tt.level, tt.min, got, tt.want)
		}
	}
}

func TestDecodeParams(t *testing.T) {
	var m Message
	if err := Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`), &m); err != nil {
		t.Fatal(err)
	}
	if err := m.DecodeParams(new(CallToolParams)); !errors.Is(err, ErrInvalidParams) {
		t.Errorf("DecodeParams without a name: got %v, want -32602", err)
	}
	if err := m.DecodeParams(new(ListParams)); err != nil {
		t.Errorf("DecodeParams of absent params: got %v, want nil", err)
	}
}

// CAP-06
func TestMissingCapability(t *testing.T) {
	want := &ClientCapabilities{Extensions: map[string]json.RawMessage{ExtensionTasks: json.RawMessage(`{}`)}}
	caps, ok := MissingCapability(want).MissingCapability()
	if !ok {
		t.Fatal("MissingCapability: got none")
	}
	if _, ok := caps.Extension(ExtensionTasks); !ok {
		t.Errorf("MissingCapability: got %+v, want the tasks extension", caps)
	}
	if _, ok := ErrMissingClientCapability.MissingCapability(); ok {
		t.Error("MissingCapability without data: got some")
	}
}

// TASK-06, XTASK-07
func TestTerminalStatuses(t *testing.T) {
	for status, want := range map[string]bool{TaskWorking: false, TaskInputRequired: false, TaskCompleted: true, TaskFailed: true, TaskCancelled: true} {
		if got := (&Task{Status: status}).Terminal(); got != want {
			t.Errorf("Terminal of %s: got %v, want %v", status, got, want)
		}
		if got := (&ExtensionTask{Status: status}).Terminal(); got != want {
			t.Errorf("Terminal of extension task %s: got %v, want %v", status, got, want)
		}
	}
}
