package ollama_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/ollama"
)

// TestForeignStreams holds that streams are read as servers and proxies write them.
func TestForeignStreams(t *testing.T) {
	const (
		said = `{"message":{"content":"a"},"done":false}`
		call = `{"message":{"content":"","tool_calls":[{"id":"c1","function":{"index":"0","name":"f","arguments":{"n":1}}}]},"done":false}`
		done = `{"message":{"content":""},"done":true,"done_reason":"stop"}`
		mute = `{"message":{"content":""},"done":true}`
	)
	for _, tt := range []struct {
		name, body string
		want       string
		err        error
		after      time.Duration
	}{
		{"a byte order mark", "\uFEFF" + said + "\n" + done + "\n", "a stop", nil, 0},
		{"CR", said + "\r" + call + "\r" + done + "\r", `a f{"n":1} tool_calls`, nil, 0},
		{"CRLF", said + "\r\n" + done + "\r\n", "a stop", nil, 0},
		{"no reason", said + "\n" + mute, "a stop", nil, 0},
		{"a call and no reason", call + "\n" + mute, `f{"n":1} tool_calls`, nil, 0},
		{"no end", said + "\n", "", llm.ErrStreamCut, 0},
		{"an error in a list", said + "\n" + `[{"error":{"code":429,"message":"Quota.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"37s"}]}}]`,
			"", llm.ErrRateLimit, 37 * time.Second},
		{"too long, in a list", `[{"error":{"code":400,"message":"The input token count (9) exceeds the maximum number of tokens allowed (8).","status":"INVALID_ARGUMENT"}}]` + "\n",
			"", llm.ErrContextLength, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := llmtest.NewServer(llmtest.Reply(200, tt.body, "Content-Type", "application/x-ndjson"))
				resp, err := llm.Generate(t.Context(), client(t, s, ollama.Options{}), hello())
				if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
					t.Fatalf("Generate: got error %v, want %v", err, tt.err)
				}
				if e, ok := errors.AsType[*llm.Error](err); ok && e.RetryAfter != tt.after {
					t.Errorf("Generate: got RetryAfter %v, want %v", e.RetryAfter, tt.after)
				}
				if err == nil && summary(resp) != tt.want {
					t.Errorf("Generate: got %q, want %q", summary(resp), tt.want)
				}
			})
		})
	}
}
