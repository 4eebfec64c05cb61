package loop_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// TestIncompleteAnswers: an answer that is cut or empty does not pass for a whole one, and an empty one
// gets one more turn, for which there must be room.
func TestIncompleteAnswers(t *testing.T) {
	say, empty := llmtest.Say, llmtest.Turn{}
	length := func(turn llmtest.Turn) llmtest.Turn { return turn.Finish(llm.FinishLength) }
	isJSON := func(text string) (json.RawMessage, error) {
		if !json.Valid([]byte(text)) {
			return nil, errors.New("it is not JSON")
		}
		return json.RawMessage(text), nil
	}
	tests := []struct {
		name       string
		turns      []llmtest.Turn
		config     func(*loop.Config)
		state      store.RunState
		incomplete string
		text       string
		told       string // what the model reads last
		err        string
	}{
		{"whole", []llmtest.Turn{say("done")}, nil, store.Finished, "", "done", "go", ""},
		{"cut", []llmtest.Turn{length(say("do"))}, nil, store.Finished, "length", "do", "go", ""},
		{"filtered", []llmtest.Turn{say("do").Finish(llm.FinishContentFilter)}, nil, store.Finished, "content_filter", "do", "go", ""},
		{"empty, once", []llmtest.Turn{empty, say("done")}, nil, store.Finished, "", "done", "Your answer is empty. Answer.", ""},
		{"blank, and cut", []llmtest.Turn{say("\n "), length(say("do"))}, nil, store.Finished, "length", "do", "Your answer is empty. Answer.", ""},
		{"empty, twice", []llmtest.Turn{empty, empty}, nil, store.Finished, "empty", "", "Your answer is empty. Answer.", ""},
		{"empty, and again after a call", []llmtest.Turn{empty, llmtest.Call("echo", nil), empty}, nil, store.Finished, "empty", "", "{}", ""},
		{"thoughts only, and cut", []llmtest.Turn{length(llmtest.Think("hm")), length(llmtest.Think("hm"))}, nil, store.Finished, "length", "", "limit of output tokens cut it", ""},
		{"empty, in the last step", []llmtest.Turn{empty}, func(c *loop.Config) { c.Limits.Steps = 1 }, store.Finished, "empty", "", "go", ""},
		{"empty, by the last model call", []llmtest.Turn{empty}, func(c *loop.Config) { c.Limits.ModelCalls = 1 }, store.Finished, "empty", "", "go", ""},
		{"a call written as text", []llmtest.Turn{say(`{"name":"echo","arguments":{}}`)}, nil, store.Finished, "call_as_text", `{"name":"echo","arguments":{}}`, "go", ""},
		{"a call written as text, which was asked for", []llmtest.Turn{say(`{"name":"echo","arguments":{}}`)},
			func(c *loop.Config) {
				c.Check = func(text string) (json.RawMessage, error) { return json.RawMessage(text), nil }
			}, store.Finished, "", `{"name":"echo","arguments":{}}`, "go", ""},
		{"a call written as text, without tools", []llmtest.Turn{say("<tool_call>")}, func(c *loop.Config) { c.Tools = nil }, store.Finished, "", "<tool_call>", "go", ""},
		{"JSON that is cut once", []llmtest.Turn{length(say(`{"a":`)), say("{}")}, func(c *loop.Config) { c.Check = isJSON }, store.Finished, "", "{}", "the limit of output tokens cut it", ""},
		{"JSON that is cut", []llmtest.Turn{length(say(`{"a":`)), length(say(`{"a":`))}, func(c *loop.Config) { c.Check = isJSON }, store.Failed, "", "", "make it shorter",
			"the answer is not what was asked for: the limit of output tokens cut it: it is not JSON"},
		{"JSON behind which the limit is reached", []llmtest.Turn{length(say("{}"))}, func(c *loop.Config) { c.Check = isJSON }, store.Finished, "length", "{}", "go", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				model := llmtest.Script(tt.turns...)
				cfg := b.config(model, tool("echo", echo))
				if tt.config != nil {
					tt.config(cfg)
				}
				out := b.finish(b.start(cfg))
				failed := ""
				if out.Err != nil {
					failed = out.Err.Error()
				}
				if out.State != tt.state || out.Incomplete != tt.incomplete || strings.TrimSpace(out.Text) != tt.text || failed != tt.err {
					t.Errorf("outcome: got %+v, want %s, %q, incomplete: %q, error %q", out, tt.state, tt.text, tt.incomplete, tt.err)
				}
				events := b.events()
				if end := events[len(events)-1].Body.(*runlog.RunFinished); end.Incomplete != tt.incomplete {
					t.Errorf("run.finished: got incomplete %q, want %q", end.Incomplete, tt.incomplete)
				}
				reqs := model.Requests()
				last := reqs[len(reqs)-1].Messages
				if told := inJSON(t, last[len(last)-1:]); len(reqs) != len(tt.turns) || !strings.Contains(told, tt.told) {
					t.Errorf("the model was asked %d times, at last with %s want %d and %q", len(reqs), told, len(tt.turns), tt.told)
				}
			})
		})
	}
}

// TestCutCalls: a call that the end of a turn has cut is not made, and the model is told why. A run whose
// model goes on so ends, and says it.
func TestCutCalls(t *testing.T) {
	part := llmtest.Call("echo", `{"n":2,"text":"ab`)
	tests := []struct {
		name  string
		turns []llmtest.Turn
		calls int
		told  string
		err   string
	}{
		{"alone", []llmtest.Turn{part.Finish(llm.FinishLength), llmtest.Say("done")}, 0, "the limit of output tokens cut your answer in the middle of this call", ""},
		{"behind a whole one", []llmtest.Turn{llmtest.Join(llmtest.Call("echo", `{"n":1}`), part).Finish(llm.FinishLength), llmtest.Say("done")}, 1, "in the middle of this call", ""},
		{"by a filter", []llmtest.Turn{part.Finish(llm.FinishContentFilter), llmtest.Say("done")}, 0, "the provider's content filter cut your answer", ""},
		{"by nothing", []llmtest.Turn{part, llmtest.Say("done")}, 0, "the arguments are not one valid JSON object", ""},
		{"again and again", []llmtest.Turn{part.Finish(llm.FinishLength), part.Finish(llm.FinishLength), part.Finish(llm.FinishLength)}, 0, "in the middle of this call",
			"the limit of output tokens cut the model's answer 3 times in a row"},
		{"now and then", []llmtest.Turn{part.Finish(llm.FinishLength), part.Finish(llm.FinishLength), llmtest.Call("echo", `{"n":1}`), part.Finish(llm.FinishLength), llmtest.Say("done")},
			1, "in the middle of this call", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				model := llmtest.Script(tt.turns...)
				cfg := b.config(model, tool("echo", echo))
				cfg.Repeats = 100
				out := b.finish(b.start(cfg))
				if tt.err == "" && (out.Err != nil || out.Text != "done" || out.Incomplete != "") || tt.err != "" && (out.Err == nil || !strings.Contains(out.Err.Error(), tt.err)) {
					t.Errorf("outcome: got %+v, want the error %q", out, tt.err)
				}
				reqs := model.Requests()
				last := reqs[len(reqs)-1].Messages
				if told := inJSON(t, last[len(last)-1:]); out.ToolCalls != tt.calls || !strings.Contains(told, tt.told) {
					t.Errorf("%d calls were made, and the model was told %s want %d and %q", out.ToolCalls, told, tt.calls, tt.told)
				}
			})
		})
	}
}
