package mcp

import (
	"encoding/json"
	"errors"
	"testing"
)

// META-02, META-03, META-04
func TestMetaKeys(t *testing.T) {
	tests := []struct {
		key             string
		valid, reserved bool
	}{
		{"name", true, false}, {"a-b_c.d", true, false}, {"", true, false}, {"com.example/", true, false}, {"com.example/x", true, false},
		{"x-1.b/n", true, false}, {"-a", false, false}, {"a-", false, false}, {"a b", false, false}, {"é", false, false},
		{"/x", false, false}, {"1a/x", false, false}, {"a-/x", false, false}, {"a..b/x", false, false}, {"a/b/c", false, false}, {"a_b/x", false, false},
		{"progressToken", true, true}, {"traceparent", true, true}, {"io.modelcontextprotocol/x", true, true}, {"dev.mcp/x", true, true},
		{"dev.mcp.x/y", true, true}, {"com.example.mcp/x", true, false}, {"mcp/x", true, false},
	}
	for _, tt := range tests {
		if err := CheckMetaKey(tt.key); (err == nil) != tt.valid {
			t.Errorf("CheckMetaKey(%q): got %v, want valid %v", tt.key, err, tt.valid)
		}
		if got := ReservedMetaKey(tt.key); got != tt.reserved {
			t.Errorf("ReservedMetaKey(%q): got %v, want %v", tt.key, got, tt.reserved)
		}
	}
}

func TestMetaGetters(t *testing.T) {
	var none Meta
	if !none.ProgressToken().IsZero() || none.RelatedTask() != "" || none.ServerInfo() != nil || none.ProtocolVersion() != "" {
		t.Error("getters of a nil Meta: want zero values")
	}
	if _, err := none.ClientCapabilities(); !errors.Is(err, ErrInvalidParams) { // MOD-01
		t.Errorf("ClientCapabilities of nothing: got %v, want -32602", err)
	}
	if l, err := none.LogLevel(); l != "" || err != nil {
		t.Errorf("LogLevel of nothing: got %q, %v", l, err)
	}
	m := Meta{
		MetaRelatedTask: json.RawMessage(`{"taskId":"t"}`), MetaSubscriptionID: json.RawMessage(`1`), MetaLogLevel: json.RawMessage(`"loud"`),
		MetaClientCapabilities: json.RawMessage(`{"elicitation":{}}`), MetaProgressToken: json.RawMessage(`1.5`),
	}
	if m.RelatedTask() != "t" || m.SubscriptionID() != IntID(1) || !m.ProgressToken().IsZero() {
		t.Errorf("getters: got %q, %v, %v", m.RelatedTask(), m.SubscriptionID(), m.ProgressToken())
	}
	if _, err := m.LogLevel(); !errors.Is(err, ErrInvalidParams) { // LOG-05
		t.Errorf("LogLevel of an unknown level: got %v, want -32602", err)
	}
	caps, err := m.ClientCapabilities()
	if err != nil || !caps.ElicitForm() || caps.ElicitURL() || caps.SamplingTools() { // CAP-04
		t.Errorf("ClientCapabilities: got %+v, %v", caps, err)
	}
}

// CAP-04, CAP-02
func TestElicitationModes(t *testing.T) {
	tests := []struct {
		raw       string
		form, url bool
		in06      bool // still declared in 2025-06-18
	}{
		{`{}`, false, false, false}, {`{"elicitation":{}}`, true, false, true}, {`{"elicitation":{"form":{}}}`, true, false, true},
		{`{"elicitation":{"url":{}}}`, false, true, false}, {`{"elicitation":{"form":{},"url":{}}}`, true, true, true},
		{`{"elicitation":{"form":null}}`, true, false, true},
	}
	for _, tt := range tests {
		var c ClientCapabilities
		if err := Unmarshal([]byte(tt.raw), &c); err != nil {
			t.Fatal(err)
		}
		if c.ElicitForm() != tt.form || c.ElicitURL() != tt.url {
			t.Errorf("%s: got form %v, url %v, want %v, %v", tt.raw, c.ElicitForm(), c.ElicitURL(), tt.form, tt.url)
		}
		if got := c.For(V2025_06_18).Elicitation != nil; got != tt.in06 {
			t.Errorf("%s for 2025-06-18: got elicitation %v, want %v", tt.raw, got, tt.in06)
		}
		if c.For(V2025_03_26).Elicitation != nil {
			t.Errorf("%s for 2025-03-26: got elicitation, want none", tt.raw)
		}
	}
}
