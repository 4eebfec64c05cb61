package openai_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/openai"
	"github.com/troupe-dev/troupe/mcp"
)

// exchange is a call with its result, a kilobyte long.
func exchange(n int) []llm.Message {
	id := fmt.Sprintf("call_%d", n)
	return []llm.Message{
		{Role: llm.RoleAssistant, Content: mcp.Contents{mcp.Text(strings.Repeat("I look that up. ", 10)),
			&mcp.ToolUseContent{ID: id, Name: "lookup", Input: json.RawMessage(`{"city": "Z\u00fcrich", "from": "2026-01-01", "to": "2026-02-01", "limit": 10}`)}}},
		{Role: llm.RoleUser, Content: mcp.Contents{&mcp.ToolResultContent{ToolUseID: id,
			Content: mcp.Contents{mcp.Text(strings.Repeat("A line of what was found: \"1\".\n", 32))}}}},
	}
}

// BenchmarkHistory is a turn of a conversation, without a network: what it costs when there were
// as many turns before it.
func BenchmarkHistory(b *testing.B) {
	const answer = `data: {"model":"m","choices":[{"index":0,"delta":{"content":"so"},"finish_reason":"stop"}],"usage":{"prompt_tokens":20000,"completion_tokens":1}}` + "\n\ndata: [DONE]\n\n"
	wire := 0
	buf := make([]byte, 32<<10)
	c := openai.New("m", &openai.Options{HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		wire = 0
		for {
			n, err := r.Body.Read(buf)
			if wire += n; err != nil {
				break
			}
		}
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader([]byte(answer))), Request: r}, nil
	})}})
	const rows = 50 // turns in a row of the same conversation
	for _, turn := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprintf("turn=%d", turn), func(b *testing.B) {
			var history []llm.Message
			for n := range turn + rows {
				history = append(history, exchange(n)...)
			}
			ask := func(req *llm.Request) {
				if _, err := llm.Generate(b.Context(), c, req); err != nil {
					b.Fatal(err)
				}
			}
			req := &llm.Request{System: strings.Repeat("Answer well. ", 160)}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if n%rows == 0 {
					b.StopTimer()
					if turn >= 10 { // some 16 KB
						req.Encodings = new(llm.Encodings)
					}
					req.Messages = append([]llm.Message{llm.User("go")}, history[:2*turn-2]...)
					ask(req)
					b.StartTimer()
				}
				if turn > 1 {
					next := 2 * (turn - 1 + n%rows)
					req.Messages = append(req.Messages, history[next:next+2]...)
				}
				ask(req)
			}
			b.ReportMetric(float64(wire), "wire-B/op")
		})
	}
}
