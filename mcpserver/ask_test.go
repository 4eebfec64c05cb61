package mcpserver_test

import (
	"encoding/json"
	"strings"
	"testing"

	mcpschema "github.com/troupe-dev/troupe/internal/mcptest/schema"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// MRTR-30, TOOL-12: one handler asks clients of all revisions, kept between rounds or not.
func TestAsk(t *testing.T) {
	tests := []struct {
		tool   string
		oldest mcp.Version
		want   string
	}{
		{"greet", mcp.V2025_06_18, "Hello, Ada!"},
		{"order", mcp.V2025_06_18, "3 for Ada, number 1"},
		{"all", mcp.V2025_06_18, `"Ada" Paris file:///home/ada`},
		{"sample", mcp.V2024_11_05, "Paris"}, // SAMP-10
		{"roots", mcp.V2024_11_05, "1"},      // ROOT-01
		{"retry", mcp.V2025_06_18, `first {"action":"accept","content":{"name":"Ada"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.tool, func(t *testing.T) {
			bothWays(t, tt.oldest, func(t *testing.T, _ *mcpserver.Server, a *asked, c *counts) {
				if got := a.call(tt.tool, `{}`, respondAda); got != tt.want {
					t.Errorf("call of %q: got %q, want %q", tt.tool, got, tt.want)
				}
				if tt.tool == "order" && c.paid.Load() != 1 {
					t.Errorf("paid %d times, want once", c.paid.Load())
				}
			})
		})
	}
}

// MRTR-01: prompts and resources may ask too.
func TestAskElsewhere(t *testing.T) {
	bothWays(t, mcp.V2025_06_18, func(t *testing.T, _ *mcpserver.Server, a *asked, _ *counts) {
		if got := a.converse(mcp.MethodGetPrompt, `{"name":"ask"}`, respondAda).text(); got != "For Ada" {
			t.Errorf("prompt: got %q", got)
		}
		if got := a.converse(mcp.MethodReadResource, `{"uri":"test://ask"}`, respondAda).text(); got != "Of Ada" {
			t.Errorf("resource: got %q", got)
		}
	})
}

// ELIC-05: a refusal is told as a result, never as a protocol error.
func TestRefusals(t *testing.T) {
	bothWays(t, mcp.V2025_06_18, func(t *testing.T, _ *mcpserver.Server, a *asked, _ *counts) {
		for _, tt := range []struct{ answer, want string }{
			{`{"action":"decline"}`, "isError the user has declined"},
			{`{"action":"cancel"}`, "isError the user has dismissed the question"},
		} {
			if got := a.call("greet", `{}`, respondWith(tt.answer)); got != tt.want {
				t.Errorf("greet answered with %s: got %q, want %q", tt.answer, got, tt.want)
			}
		}
		if got := a.call("form", nameSchema, respondWith(`{"action":"decline"}`)); got != "decline null" {
			t.Errorf("form: got %q", got)
		}
		m := a.converse(mcp.MethodGetPrompt, `{"name":"ask"}`, respondWith(`{"action":"decline"}`))
		if m.Error == nil || m.Error.Message != "the user has declined" {
			t.Errorf("prompt: got %q", m.text())
		}
	})
}

// SAMP-41: what a legacy client's user refuses, and other errors of the client.
func TestClientErrors(t *testing.T) {
	synctestOnce(t, func(t *testing.T) {
		s, _ := newAsking(t, nil)
		a := openAsked(t, s, mcp.V2025_11_25, allCapabilities)
		for _, tt := range []struct{ tool, answer, want string }{
			{"sample", `{"code":-1,"message":"User rejected sampling request"}`, "isError the user has declined"},
			{"sample", `{"code":-32602,"message":"no"}`, "isError the client refused sampling/createMessage: no (-32602)"},
			{"roots", `{"code":-32601,"message":"Roots not supported"}`, "isError the client refused roots/list: Roots not supported (-32601)"}, // ROOT-03
		} {
			if got := a.call(tt.tool, `{}`, respondWith(tt.answer)); got != tt.want {
				t.Errorf("%s answered with %s: got %q, want %q", tt.tool, tt.answer, got, tt.want)
			}
		}
	})
}

// CAP-03, CAP-06, MRTR-04, MRTR-33, ELIC-02, SAMP-04: nothing is asked that the client
// has not declared.
func TestMissingCapability(t *testing.T) {
	tests := []struct{ tool, caps, text, required string }{
		{"greet", `{}`, "elicitation of forms", `{"elicitation":{"form":{}}}`},
		{"greet", `{"elicitation":{"url":{}}}`, "elicitation of forms", `{"elicitation":{"form":{}}}`},
		{"sample", `{"elicitation":{}}`, "sampling", `{"sampling":{}}`},
		{"roots", `{}`, "roots", `{"roots":{}}`},
		{"page", `{"elicitation":{}}`, "elicitation by URL", `{"elicitation":{"url":{}}}`},
		{"all", `{}`, "elicitation of forms, sampling, roots", `{"elicitation":{"form":{}},"roots":{},"sampling":{}}`},
		{"retry", `{}`, "elicitation of forms", `{"elicitation":{"form":{}}}`},
	}
	for _, tt := range tests {
		for _, v := range mcp.Versions() {
			t.Run(tt.tool+" "+string(v), func(t *testing.T) {
				synctestOnce(t, func(t *testing.T) {
					s, _ := newAsking(t, nil)
					a := openAsked(t, s, v, tt.caps)
					m := readMessage(t, a.peer.ask(a.tool(tt.tool, `{}`, "")))
					if v.Era() == mcp.EraModern {
						if m.Error == nil || m.Error.Code != mcp.CodeMissingClientCapability {
							t.Fatalf("got %q, want -32021", m.text())
						}
						var data struct{ RequiredCapabilities json.RawMessage }
						if err := json.Unmarshal(m.Error.Data, &data); err != nil || !mcpschema.Equal(data.RequiredCapabilities, []byte(tt.required)) {
							t.Errorf("required capabilities: got %s, want %s", data.RequiredCapabilities, tt.required)
						}
						return
					}
					if want := "isError the client does not support " + tt.text; m.text() != want {
						t.Errorf("got %q, want %q", m.text(), want)
					}
				})
			})
		}
	}
}

// CAP-05: what counts is what the retry declares.
func TestCapabilitiesOfTheRetry(t *testing.T) {
	eachWay(t, func(t *testing.T, _ *mcpserver.Server, a *asked, _ *counts) {
		m := readMessage(t, a.peer.ask(a.tool("order", `{}`, "")))
		a.caps = `{}`
		m = readMessage(t, a.peer.ask(a.tool("order", `{}`, a.retry(m, respondAda))))
		if m.Error == nil || m.Error.Code != mcp.CodeMissingClientCapability {
			t.Errorf("the retry without the capability: got %q, want -32021", m.text())
		}
	})
}

// SECA-31, ELIC-11: forms do not ask for secrets. ELIC-06, ELIC-07: they are flat.
func TestFormsThatAreRefused(t *testing.T) {
	tests := []struct{ name, properties, want string }{
		{"password", `{"password":{"type":"string"}}`, "must not ask for passwords"},
		{"title", `{"a":{"type":"string","title":"API key"}}`, "must not ask for passwords"},
		{"description", `{"a":{"type":"string","description":"Your credit card number"}}`, "must not ask for passwords"},
		{"lookalike", `{"pаsswоrd":{"type":"string"}}`, "must not ask for passwords"},
		{"number", `{"pin":{"type":"integer"}}`, "must not ask for passwords"},
		{"nested", `{"a":{"type":"object","properties":{}}}`, "is of the type"},
		{"reference", `{"a":{"$ref":"#"}}`, "has no type"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bothWays(t, mcp.V2025_06_18, func(t *testing.T, _ *mcpserver.Server, a *asked, _ *counts) {
				got := a.call("form", `{"type":"object","properties":`+tt.properties+`}`, func(string, json.RawMessage) string {
					t.Error("the client was asked")
					return `{"action":"decline"}`
				})
				if !strings.HasPrefix(got, "isError ") || !strings.Contains(got, tt.want) {
					t.Errorf("form with %s: got %q, want %q in it", tt.properties, got, tt.want)
				}
			})
		})
	}
}

// SECA-32, ELIC-08, ELIC-09, MRTR-07: an answer that does not fit the form never
// reaches the handler, and nothing is filled in.
func TestAnswersToForms(t *testing.T) {
	const schema = `{"type":"object","properties":{"n":{"type":"integer","maximum":9},"s":{"type":"string","default":"x"},"b":{"type":"boolean"}},"required":["n"]}`
	tests := []struct {
		answer string
		want   string // "" is refused
	}{
		{`{"action":"accept","content":{"n":1}}`, `accept {"n":1}`}, // without the default
		{`{"action":"accept","content":{"n":1,"s":"y","b":true}}`, `accept {"b":true,"n":1,"s":"y"}`},
		{`{"action":"accept","content":{"n":10}}`, ""},
		{`{"action":"accept","content":{"n":"1"}}`, ""},
		{`{"action":"accept","content":{"n":1,"extra":1}}`, `accept {"n":1}`},
		{`{"action":"accept","content":{"n":1,"s":{"a":1}}}`, ""},
		{`{"action":"accept","content":{"n":1,"s":null}}`, ""},
		{`{"action":"accept","content":{}}`, ""},
		{`{"action":"accept"}`, ""},
		{`{"action":"yes"}`, ""},
		{`{}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.answer, func(t *testing.T) {
			bothWays(t, mcp.V2025_06_18, func(t *testing.T, _ *mcpserver.Server, a *asked, _ *counts) {
				got := a.call("form", schema, respondWith(tt.answer))
				switch {
				case tt.want != "":
					if got != tt.want {
						t.Errorf("got %q, want %q", got, tt.want)
					}
				case a.v.Era() == mcp.EraModern:
					if !strings.HasPrefix(got, "error -32602 ") {
						t.Errorf("got %q, want -32602", got)
					}
				case !strings.HasPrefix(got, "isError "):
					t.Errorf("got %q, want an error", got)
				}
			})
		})
	}
}

// SAMP-06, SAMP-20, SAMP-21, SAMP-23.
func TestSamplingWithTools(t *testing.T) {
	call := &mcp.ToolUseContent{ID: "1", Name: "t", Input: json.RawMessage(`{}`)}
	result := &mcp.ToolResultContent{ToolUseID: "1", Content: mcp.Contents{mcp.Text("r")}}
	user := func(c ...mcp.Content) mcp.SamplingMessage { return mcp.SamplingMessage{Role: mcp.RoleUser, Content: c} }
	model := func(c ...mcp.Content) mcp.SamplingMessage {
		return mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: c}
	}
	tool := mcp.Tool{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)}
	tests := []struct {
		name   string
		params *mcp.CreateMessageParams
		answer string
		want   string
	}{
		{"a balanced history", &mcp.CreateMessageParams{MaxTokens: 1, Tools: []mcp.Tool{tool}, Messages: []mcp.SamplingMessage{user(mcp.Text("q")), model(call), user(result)}},
			`{"role":"assistant","content":{"type":"text","text":"a"},"model":"m"}`, "ok"},
		{"a missing result", &mcp.CreateMessageParams{MaxTokens: 1, Tools: []mcp.Tool{tool}, Messages: []mcp.SamplingMessage{model(call), user(mcp.Text("q"))}}, "", "tool result missing"},
		{"mixed content", &mcp.CreateMessageParams{MaxTokens: 1, Tools: []mcp.Tool{tool}, Messages: []mcp.SamplingMessage{model(call), user(result, mcp.Text("q"))}}, "", "mixed"},
		{"a call of the user's", &mcp.CreateMessageParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{user(call)}}, "", "tool_use outside"},
		{"a call by the model", &mcp.CreateMessageParams{MaxTokens: 1, Tools: []mcp.Tool{tool}, Messages: []mcp.SamplingMessage{user(mcp.Text("q"))}},
			`{"role":"assistant","content":[{"type":"tool_use","id":"2","name":"t","input":{}}],"model":"m","stopReason":"toolUse"}`, "ok"},
		{"a call that was not allowed", &mcp.CreateMessageParams{MaxTokens: 1, Tools: []mcp.Tool{tool}, ToolChoice: &mcp.ToolChoice{Mode: mcp.ToolChoiceNone}, Messages: []mcp.SamplingMessage{user(mcp.Text("q"))}},
			`{"role":"assistant","content":[{"type":"tool_use","id":"2","name":"t","input":{}}],"model":"m"}`, "not allowed"},
		{"an answer of the user's", &mcp.CreateMessageParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{user(mcp.Text("q"))}},
			`{"role":"user","content":{"type":"text","text":"a"},"model":"m"}`, "not assistant"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bothWays(t, mcp.V2025_11_25, func(t *testing.T, s *mcpserver.Server, a *asked, _ *counts) {
				addSampler(t, s, tt.params)
				if got := a.call("sampler", `{}`, respondWith(tt.answer)); !strings.Contains(got, tt.want) || tt.want == "ok" && got != "ok" {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			})
		})
	}
	t.Run("without sampling.tools", func(t *testing.T) { // SAMP-04
		for _, v := range mcp.Versions() {
			synctestOnce(t, func(t *testing.T) {
				s, _ := newAsking(t, nil)
				addSampler(t, s, tests[0].params)
				a := openAsked(t, s, v, `{"sampling":{}}`)
				if got := a.call("sampler", `{}`, respondAda); !strings.Contains(got, "the client does not support sampling with tools") {
					t.Errorf("%s: got %q", v, got)
				}
			})
		}
	})
}
