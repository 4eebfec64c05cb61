package openai_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/openai"
)

// TestForeignStreams holds that streams are read as servers and proxies write them, beside what the API promises, and that none
// of it passes a turn for whole that was cut.
func TestForeignStreams(t *testing.T) {
	const (
		head  = `{"choices":[{"index":0,"delta":{"role":"assistant","content":"a"}}]}`
		body  = `{"choices":[{"index":0,"delta":{"content":"b"}}]}`
		stop  = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
		call  = `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"n\":1}"}}]}}]}`
		half  = `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"n\":"}}]}}]}`
		empty = `{"choices":[{"index":0,"delta":{"content":""}}]}`
		done  = "[DONE]"
	)
	stream := func(end string, events ...string) string {
		var b strings.Builder
		for _, e := range events {
			b.WriteString("data: " + e + end + end)
		}
		return b.String()
	}
	quoted := strings.NewReplacer(`"index":0`, `"index":"0"`, `"index":1`, `"index":"1"`)
	const overflow = `[{"error":{"code":400,"message":"The input token count (9) exceeds the maximum number of tokens allowed (8).","status":"INVALID_ARGUMENT"}}]`
	const exhausted = `[{"error":{"code":429,"message":"Quota.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"37s"}]}}]`
	for _, tt := range []struct {
		name, kind, body string
		want             string
		err              error
		after            time.Duration
	}{
		{"a byte order mark", "", "\uFEFF" + stream("\n", head, body, stop, done), "ab stop", nil, 0},
		{"a byte order mark before a document", "application/json", "\uFEFF" + `{"choices":[{"message":{"content":"ab"},"finish_reason":"stop"}]}`, "ab stop", nil, 0},
		{"a byte order mark before a document of another type", "text/plain", "\uFEFF" + `{"choices":[{"message":{"content":"ab"},"finish_reason":"stop"}]}`, "ab stop", nil, 0},
		{"CR", "", stream("\r", head, body, stop, done), "ab stop", nil, 0},
		{"CRLF", "", stream("\r\n", head, body, stop, done), "ab stop", nil, 0},
		{"CR and a byte order mark, and no finish reason", "", "\uFEFF" + stream("\r", head, body, done), "ab stop", nil, 0},
		{"no finish reason before [DONE]", "", stream("\n", head, body, done), "ab stop", nil, 0},
		{"a call and no finish reason before [DONE]", "", stream("\n", call, done), `f{"n":1} tool_calls`, nil, 0},
		{"half a call and [DONE]", "", stream("\n", half, done), "", llm.ErrBadCall, 0},
		{"no finish reason and no [DONE]", "", stream("\n", head, body), "", llm.ErrStreamCut, 0},
		{"a call, no finish reason and no [DONE]", "", stream("\n", call), "", llm.ErrStreamCut, 0},
		{"nothing but [DONE]", "", stream("\n", empty, done), "", llm.ErrStreamCut, 0},
		{"an index as a text", "", quoted.Replace(stream("\n", head, call, stop, done)), `a f{"n":1} tool_calls`, nil, 0},
		{"another choice by a text", "", stream("\n", head, strings.Replace(body, "0", `"1"`, 1), stop, done), "a stop", nil, 0},
		{"an error of Gemini's in the stream", "", stream("\n", head, overflow), "", llm.ErrContextLength, 0},
		{"an error of Gemini's without data:", "", exhausted + "\n", "", llm.ErrRateLimit, 37 * time.Second},
		{"an error of Gemini's as a document", "application/json; charset=UTF-8", "\uFEFF" + exhausted, "", llm.ErrRateLimit, 37 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kind := tt.kind
				if kind == "" {
					kind = "text/event-stream"
				}
				s := llmtest.NewServer(llmtest.Reply(200, tt.body, "Content-Type", kind))
				resp, err := llm.Generate(t.Context(), client(t, s, openai.Options{}), hello())
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
