package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestAppend(t *testing.T) {
	tests := []struct{ name, got, want string }{
		{"request", string(AppendRequest(nil, IntID(1), "a", nil)), `{"jsonrpc":"2.0","id":1,"method":"a"}`},
		{"request with params", string(AppendRequest([]byte("x"), StringID("i"), "a\"b", []byte("{\r\n\"a\":1}"))), `x{"jsonrpc":"2.0","id":"i","method":"a\"b","params":{  "a":1}}`},
		{"notification", string(AppendNotification(nil, "a", []byte(`{}`))), `{"jsonrpc":"2.0","method":"a","params":{}}`},
		{"result", string(AppendResult(nil, IntID(1), nil)), `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{"error", string(AppendError(nil, IntID(1), ErrParse.WithData([]int{1}))), `{"jsonrpc":"2.0","id":1,"error":{"code":-32700,"message":"parse error","data":[1]}}`},
		{"error without id", string(AppendError(nil, ID{}, &Error{Code: -1, Message: "m\n"})), `{"jsonrpc":"2.0","error":{"code":-1,"message":"m\n"}}`},
		{"error with broken data", string(AppendError(nil, ID{}, &Error{Code: -1, Data: json.RawMessage(`{`)})), `{"jsonrpc":"2.0","error":{"code":-1,"message":""}}`},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, tt.got, tt.want)
		}
	}
}

func TestAppendCallToolResult(t *testing.T) {
	r := &CallToolResult{
		Content: Contents{Text("a\n"), &TextContent{Text: "b", Meta: Meta{"k": json.RawMessage(`1`)}}}, StructuredContent: json.RawMessage("[1,\n2]"),
		IsError: true, Meta: Meta{"m": json.RawMessage(`{}`)},
	}
	content := `{"content":[{"type":"text","text":"a\n"},{"type":"text","text":"b","_meta":{"k":1}}]`
	tests := []struct {
		v    Version
		want string
	}{
		{V2025_11_25, content + `,"isError":true,"_meta":{"m":{}}}`},
		{V2026_07_28, content + `,"structuredContent":[1, 2],"isError":true,"resultType":"complete","_meta":{"m":{}}}`},
	}
	for _, tt := range tests {
		got, err := AppendCallToolResult(nil, r, tt.v)
		if err != nil || string(got) != tt.want {
			t.Errorf("AppendCallToolResult(%s): got %s, %v, want %s", tt.v, got, err, tt.want)
		}
		slow, err := MarshalResult(r, tt.v)
		if err != nil || canonical(t, slow) != canonical(t, got) {
			t.Errorf("MarshalResult(%s): got %s, %v, want %s", tt.v, slow, err, got)
		}
	}
	for _, bad := range []*CallToolResult{
		{StructuredContent: json.RawMessage(`{"a":1,"a":2}`)}, {Content: Contents{nil}}, {Meta: Meta{"a": json.RawMessage(`{`)}},
		{Extra: map[string]json.RawMessage{"content": json.RawMessage(`[]`)}},
		{Content: Contents{&UnknownContent{Type: "n", Raw: json.RawMessage(`{`)}}},
	} {
		if got, err := AppendCallToolResult([]byte("x"), bad, Latest); err == nil || string(got) != "x" {
			t.Errorf("AppendCallToolResult(%+v): got %s, %v, want an error", bad, got, err)
		}
	}
}

// An error keeps its code on the wire and gives nothing else away.
func TestErrorOf(t *testing.T) {
	wrapped := fmt.Errorf("calling: %w", ErrInvalidParams)
	secret := errors.New("dial db-7.internal: refused")
	tests := []struct {
		err  error
		want *Error
	}{
		{wrapped, ErrInvalidParams}, {secret, ErrInternal}, {context.Canceled, ErrInternal}, {context.DeadlineExceeded, ErrInternal},
	}
	for _, tt := range tests {
		got := ErrorOf(tt.err)
		if !errors.Is(got, tt.want) || strings.Contains(got.Message, "db-7") {
			t.Errorf("ErrorOf(%v): got %v, want code %d", tt.err, got, tt.want.Code)
		}
	}
	if ErrorOf(nil) != nil {
		t.Error("ErrorOf(nil): got an error")
	}
	if errors.Is(ErrParse, ErrInternal) || !errors.Is(Errorf(CodeParse, "own words"), ErrParse) {
		t.Error("errors.Is must compare codes only")
	}
}

// BASE-17, RES-04, URL-43
func TestErrorForRevision(t *testing.T) {
	tests := []struct {
		err  *Error
		v    Version
		want int64
	}{
		{ErrResourceNotFound, V2025_11_25, CodeResourceNotFound}, {ErrResourceNotFound, V2026_07_28, CodeInvalidParams},
		{ErrURLElicitationRequired, V2025_11_25, CodeURLElicitationRequired}, {ErrURLElicitationRequired, V2026_07_28, CodeInternal},
		{ResourceNotFound(V2025_11_25, "a:b"), V2025_11_25, CodeResourceNotFound}, {ResourceNotFound(V2026_07_28, "a:b"), V2026_07_28, CodeInvalidParams},
	}
	for _, tt := range tests {
		if got := tt.err.For(tt.v); got.Code != tt.want {
			t.Errorf("%v.For(%s): got %d, want %d", tt.err, tt.v, got.Code, tt.want)
		}
	}
	if uri, ok := ResourceNotFound(Latest, "a:b").ResourceNotFound(); !ok || uri != "a:b" {
		t.Errorf("ResourceNotFound: got %q, %v", uri, ok)
	}
	if _, ok := ErrInvalidParams.ResourceNotFound(); ok {
		t.Error("a -32602 without a URI counts as a missing resource")
	}
}

// SAMP-20, SAMP-21, SAMP-23, SAMP-26
func TestToolBalance(t *testing.T) {
	use := func(id string) Content { return &ToolUseContent{ID: id, Name: "t"} }
	res := func(id string) Content { return &ToolResultContent{ToolUseID: id} }
	user := func(cs ...Content) SamplingMessage { return SamplingMessage{Role: RoleUser, Content: cs} }
	model := func(cs ...Content) SamplingMessage { return SamplingMessage{Role: RoleAssistant, Content: cs} }
	tests := []struct {
		name     string
		messages []SamplingMessage
		ok       bool
	}{
		{"plain", []SamplingMessage{user(Text("a")), model(Text("b"))}, true},
		{"parallel", []SamplingMessage{user(Text("a")), model(Text("b"), use("1"), use("2")), user(res("2"), res("1")), model(use("1")), user(res("1"))}, true},
		{"mixed", []SamplingMessage{model(use("1")), user(res("1"), Text("a"))}, false},
		{"missing", []SamplingMessage{model(use("1"), use("2")), user(res("1"))}, false},
		{"missing at the end", []SamplingMessage{model(use("1"))}, false},
		{"extra", []SamplingMessage{model(use("1")), user(res("1"), res("2"))}, false},
		{"twice", []SamplingMessage{model(use("1")), user(res("1"), res("1"))}, false},
		{"between", []SamplingMessage{model(use("1")), user(Text("wait")), user(res("1"))}, false},
		{"without call", []SamplingMessage{user(res("1"))}, false},
		{"use by user", []SamplingMessage{user(use("1"))}, false},
		{"result by assistant", []SamplingMessage{model(use("1")), model(res("1"))}, false},
		{"same id", []SamplingMessage{model(use("1"), use("1")), user(res("1"), res("1"))}, false},
	}
	for _, tt := range tests {
		err := (&CreateMessageParams{Messages: tt.messages}).CheckToolBalance()
		if (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrInvalidParams) {
			t.Errorf("%s: got %v, want ok %v", tt.name, err, tt.ok)
		}
	}
}

// SAMP-03, SAMP-04
func TestSamplingDowngrade(t *testing.T) {
	p := &CreateMessageParams{MaxTokens: 1, Messages: []SamplingMessage{{Role: RoleUser, Content: Contents{Text("a"), Text("b")}}}}
	old, err := p.For(V2025_06_18)
	if err != nil || len(old.Messages) != 2 {
		t.Errorf("For(2025-06-18): got %d messages, %v, want 2", len(old.Messages), err)
	}
	if same, err := p.For(V2025_11_25); err != nil || len(same.Messages) != 1 {
		t.Errorf("For(2025-11-25): got %d messages, %v, want 1", len(same.Messages), err)
	}
	p.Tools = []Tool{{Name: "t"}}
	if _, err := p.For(V2025_06_18); !errors.Is(err, ErrInvalidParams) {
		t.Errorf("tools for 2025-06-18: got %v, want -32602", err)
	}
	if _, err := (&ElicitParams{Mode: ElicitURL}).For(V2025_06_18); !errors.Is(err, ErrInvalidParams) {
		t.Errorf("URL elicitation for 2025-06-18: got %v, want -32602", err)
	}
}

// PAGE-03, CACHE-02
func TestListResults(t *testing.T) {
	tests := []struct {
		raw    string
		cursor *string
		ttl    int64 // milliseconds
	}{
		{`{"tools":[]}`, nil, 0}, {`{"tools":[],"nextCursor":null,"ttlMs":-5}`, nil, 0},
		{`{"tools":[],"nextCursor":"","ttlMs":1500}`, new(""), 1500}, {`{"tools":[],"nextCursor":"c"}`, new("c"), 0},
	}
	for _, tt := range tests {
		var r ListToolsResult
		if err := Unmarshal([]byte(tt.raw), &r); err != nil {
			t.Fatal(err)
		}
		if (r.NextCursor == nil) != (tt.cursor == nil) || r.NextCursor != nil && *r.NextCursor != *tt.cursor || r.TTL().Milliseconds() != tt.ttl {
			t.Errorf("%s: got cursor %v, ttl %v", tt.raw, r.NextCursor, r.TTL())
		}
	}
	huge := ListToolsResult{TTLMs: new(int64(1<<63 - 1))}
	if huge.TTL() <= 0 {
		t.Errorf("TTL of the largest ttlMs: got %v, want it positive", huge.TTL())
	}
}
