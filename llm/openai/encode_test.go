package openai

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sashabaranov/go-openai"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// TestEncoding holds that a request reads as go-openai writes the same one, whatever its
// texts hold, and that the tools of one request are not those of another.
func TestEncoding(t *testing.T) {
	const odd = "\"messages\":null,\"tools\":[{\"type\":\"\"}] <b>&\u2028\\ \x01 é \U0001F30D \xff"
	png := &mcp.ImageContent{Data: []byte{1, 2, 3, 4}, MIMEType: "image/png"}
	messages := []llm.Message{
		{Role: llm.RoleUser, Content: mcp.Contents{mcp.Text(odd), png, mcp.Text("more")}},
		{Role: llm.RoleAssistant, Content: mcp.Contents{mcp.Text("so"),
			&mcp.ToolUseContent{ID: odd, Name: "f", Input: json.RawMessage(`{"messages":null, "a":"\u00e9"}`)}, &mcp.ToolUseContent{ID: "2", Name: "g"}}},
		{Role: llm.RoleUser, Content: mcp.Contents{
			&mcp.ToolResultContent{ToolUseID: "2", Content: mcp.Contents{mcp.Text(odd), png}}, &mcp.ToolResultContent{ToolUseID: odd}}},
		{Role: llm.RoleAssistant, Content: mcp.Contents{mcp.Text(odd)}},
		llm.User(""),
		{Role: llm.RoleUser, Content: mcp.Contents{png}},
	}
	f := llm.Tool{Name: "f", Description: odd, InputSchema: json.RawMessage(`{"type": "object", "title": "\"messages\":null"}`)}
	g := llm.Tool{Name: "g", InputSchema: json.RawMessage(`{"type":"object","properties":{},"required":[],"additionalProperties":false}`)}
	c := New(odd, &Options{StrictTools: true, OneCall: true, MetadataKeys: []string{"k"}})
	schema := json.RawMessage(`{"type":"object","default":{"messages":null,"tools":[{"type":""}]}}`)
	half := 0.5
	for _, tools := range [][]llm.Tool{nil, {f, g}, {f, g}, {f}, {{Name: "f", InputSchema: g.InputSchema}}, {g, f}} {
		for _, history := range [][]llm.Message{messages, messages[:4], messages[3:], messages} { // it may be cut
			req := &llm.Request{System: odd, Messages: history, Tools: tools, Schema: schema, Stop: []string{odd},
				MaxTokens: 7, Temperature: &half, Metadata: map[string]string{"k": `"tools":[{"type":""}]`}}
			how := c.attempt(req)
			body := c.chatRequest(req, &how)
			body.Stream = true
			head, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			got := spliced(t, c, head, req, &how)
			body.Model = odd
			var whole openai.ChatCompletionRequest
			if err := json.Unmarshal(got, &whole); err != nil {
				t.Fatalf("%v in %s", err, got)
			}
			if len(whole.Tools) != len(tools) || whole.Model != strings.ToValidUTF8(body.Model, "\ufffd") {
				t.Errorf("got %d tools of model %q, want %d", len(whole.Tools), whole.Model, len(tools))
			}
			whole.ResponseFormat = body.ResponseFormat // its schema is an interface there
			again, err := json.Marshal(whole)
			if err != nil {
				t.Fatal(err)
			}
			if g, w := canonical(t, got), canonical(t, again); g != w {
				t.Fatalf("got  %s\nwant %s", g, w)
			}
		}
	}
	g.InputSchema[2] = 'T' // the caller's memory
	if got := string(c.encodedTools([]llm.Tool{g, f}, APIChat)); got == string(c.encodedTools([]llm.Tool{f}, APIChat)) || !json.Valid([]byte(got)) {
		t.Errorf("tools: got %s", got)
	}
}

// spliced returns the body of a request as net/http reads it.
func spliced(t *testing.T, c *Client, head []byte, req *llm.Request, how *attempt) []byte {
	t.Helper()
	body, err := c.splice(head, req, how)
	if err != nil {
		t.Fatal(err)
	}
	var sent http.Request
	body.Of(&sent)
	data, err := io.ReadAll(sent.Body)
	if err != nil || int64(len(data)) != sent.ContentLength {
		t.Fatalf("got %d bytes and error %v, want %d", len(data), err, sent.ContentLength)
	}
	return data
}

func canonical(t *testing.T, data []byte) string {
	t.Helper()
	out, err := jsonx.Canonical(data)
	if err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return string(out)
}
