package llm_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
)

// stream is a model that plays a function.
type stream func(yield func(llm.Event, error) bool)

func (s stream) Name() string { return "test/stream" }
func (s stream) Stream(context.Context, *llm.Request) iter.Seq2[llm.Event, error] {
	return iter.Seq2[llm.Event, error](s)
}

func hello() *llm.Request { return &llm.Request{Messages: []llm.Message{llm.User("Hello")}} }

func TestGenerate(t *testing.T) {
	m := llmtest.Script(llmtest.Join(
		llmtest.Think("hm"), llmtest.Say("I ", "look."), llmtest.Call("read", `{"path":"a"}`), llmtest.Call("list", nil),
	).Usage(7, 3))
	resp, err := llm.Generate(t.Context(), m, hello())
	if err != nil {
		t.Fatalf("Generate: %v", err)
	}
	if resp.Text() != "I look." || resp.Thinking != "hm" || resp.Finish != llm.FinishToolCalls || resp.Usage != (llm.Usage{Input: 7, Output: 3}) {
		t.Errorf("Generate: got %+v", resp)
	}
	if len(resp.Content) != 3 || resp.Content[0].ContentType() != mcp.TypeText {
		t.Fatalf("Generate: got content %v, want text and then two calls", resp.Content)
	}
	calls := resp.Calls()
	if calls[0].Name != "read" || string(calls[0].Input) != `{"path":"a"}` || string(calls[1].Input) != "{}" || calls[0].ID == calls[1].ID {
		t.Errorf("Generate: got calls %+v and %+v", calls[0], calls[1])
	}
	if msg := resp.Message(); msg.Role != llm.RoleAssistant || len(msg.Content) != 3 {
		t.Errorf("Message: got %+v", msg)
	}
}

// TestGenerateNeedsFinish holds that a stream without a finish is no answer.
func TestGenerateNeedsFinish(t *testing.T) {
	boom := errors.New("boom")
	long := strings.Repeat("x", 1<<20)
	tests := []struct {
		name   string
		stream stream
		want   error
	}{
		{"no finish", func(yield func(llm.Event, error) bool) { yield(llm.TextDelta{Text: "a"}, nil) }, llm.ErrStreamCut},
		{"an error", func(yield func(llm.Event, error) bool) { _ = yield(llm.TextDelta{Text: "a"}, nil) && yield(nil, boom) }, boom},
		{"too much", func(yield func(llm.Event, error) bool) {
			for yield(llm.TextDelta{Text: long}, nil) { // for ever, if it is not stopped
			}
		}, llm.ErrTooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, err := llm.Generate(t.Context(), tt.stream, hello())
			if resp != nil || !errors.Is(err, tt.want) {
				t.Errorf("Generate: got %v and error %v, want %v", resp, err, tt.want)
			}
		})
	}
}

func TestEstimateTokens(t *testing.T) {
	text := llm.EstimateTokens(hello())
	tests := []struct {
		name string
		more mcp.Content
		want int
	}{
		{"text", mcp.Text("12345678"), 2},
		{"image", &mcp.ImageContent{Data: make([]byte, 1<<20)}, 1000},
		{"call", &mcp.ToolUseContent{Name: "name", Input: []byte(`{"a":1}`)}, 7},
		{"result", &mcp.ToolResultContent{Content: mcp.Contents{mcp.Text("1234")}}, 5},
		{"structured result", &mcp.ToolResultContent{StructuredContent: []byte("12345678")}, 6},
	}
	for _, tt := range tests {
		req := hello()
		req.Messages[0].Content = append(req.Messages[0].Content, tt.more)
		if got := llm.EstimateTokens(req) - text; got != tt.want {
			t.Errorf("EstimateTokens(%s): got %d more, want %d", tt.name, got, tt.want)
		}
	}
}
