package openai_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/openai"
)

// TestRequired holds that a call is forced by a grammar where a server does not heed the
// tool choice, as Ollama does not.
func TestRequired(t *testing.T) {
	ask := func() *llm.Request {
		req := hello()
		req.Tools = []llm.Tool{{Name: "weather", InputSchema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}}}`)}, {Name: "clock"}}
		req.ToolChoice = llm.ToolChoiceRequired
		return req
	}
	forced := llmtest.Say(`{"name":"weather",`, `"arguments":{"city":"Oslo"}}`).Usage(20, 2)
	tests := []struct {
		name     string
		turns    []llmtest.Turn
		want     string
		err      error
		requests int
	}{
		{"at once", []llmtest.Turn{llmtest.Call("clock", nil)}, "clock{} tool_calls", nil, 1},
		{"forced", []llmtest.Turn{llmtest.Say("Hm. ").Usage(10, 1), forced}, `Hm.  weather{"city":"Oslo"} tool_calls`, nil, 2},
		{"cut", []llmtest.Turn{llmtest.Say("Hm.").Finish(llm.FinishLength)}, "Hm. length", nil, 1},
		{"refused", []llmtest.Turn{llmtest.Say("No.").Over(llmtest.Wire{Refusal: true})}, "No. refusal", nil, 1},
		{"forced, and cut", []llmtest.Turn{llmtest.Say("Hm."), llmtest.Say(`{"name":"wea`).Finish(llm.FinishLength)}, "Hm. stop", nil, 2},
		{"without grammars", []llmtest.Turn{llmtest.Say("Hm."), llmtest.Reply(400, `{"error":{"message":"response_format is not supported"}}`)}, "Hm. stop", nil, 2},
		{"nonsense", []llmtest.Turn{llmtest.Say("Hm."), llmtest.Say("never mind")}, "Hm. stop", nil, 2},
		{"endless", []llmtest.Turn{llmtest.Say("Hm."), llmtest.Say(strings.Repeat("x", 1<<20), "y")}, "", llm.ErrTooLarge, 2},
		{"broken", []llmtest.Turn{llmtest.Say("Hm."), llmtest.Say("x").Over(llmtest.Wire{Fault: llmtest.Cut, After: 2})}, "", llm.ErrStreamCut, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := llmtest.NewServer(tt.turns...)
			resp, err := llm.Generate(t.Context(), client(t, s, openai.Options{}), ask())
			if !errors.Is(err, tt.err) {
				t.Fatalf("Generate: got error %v, want %v", err, tt.err)
			}
			if n := len(s.Chats()); n != tt.requests {
				t.Errorf("made %d requests, want %d", n, tt.requests)
			}
			if err != nil {
				return
			}
			if got := summary(resp); got != tt.want {
				t.Errorf("Generate: got %q, want %q", got, tt.want)
			}
			if want := (llm.Usage{Input: 30, Output: 3}); tt.name == "forced" && resp.Usage != want {
				t.Errorf("Generate: got usage %+v, want %+v", resp.Usage, want)
			}
			if tt.requests == 2 {
				if r := s.Chats()[1].Request; len(r.Tools) > 0 || len(r.Schema) == 0 {
					t.Errorf("the second request is %+v", r)
				}
			}
			checkServer(t, s)
		})
	}
}

// TestRequiredIsCut holds that a turn which has reached a stop sequence is over: nothing is
// asked after it.
func TestRequiredIsCut(t *testing.T) {
	s := llmtest.NewServer(llmtest.Say("x END"))
	req := hello()
	req.Tools, req.ToolChoice, req.Stop = []llm.Tool{{Name: "clock"}}, llm.ToolChoiceRequired, []string{"1", "2", "3", "4", "END"}
	resp, err := llm.Generate(t.Context(), client(t, s, openai.Options{}), req)
	if err != nil || summary(resp) != "x stop_sequence" || len(s.Chats()) != 1 {
		t.Errorf("Generate: got %v and error %v after %d requests, want the text in one", resp, err, len(s.Chats()))
	}
}

// TestRequiredWithinItsLimit holds that both requests of such a turn together say no more
// than the one was allowed, since that is what a budget has reserved.
func TestRequiredWithinItsLimit(t *testing.T) {
	for said, want := range map[int]int{4: 6, 10: 0, 12: 0} { // 0: there is no second request
		s := llmtest.NewServer(llmtest.Say("Hm.").Usage(10, said), llmtest.Say(`{"name":"clock","arguments":{}}`).Usage(20, 2))
		req := hello()
		req.Tools, req.ToolChoice, req.MaxTokens = []llm.Tool{{Name: "clock"}}, llm.ToolChoiceRequired, 10
		if _, err := llm.Generate(t.Context(), client(t, s, openai.Options{}), req); err != nil {
			t.Errorf("Generate after %d tokens: %v", said, err)
		}
		chats := s.Chats()
		if want == 0 && len(chats) != 1 || want > 0 && (len(chats) != 2 || chats[1].Request.MaxTokens != want) {
			t.Errorf("Generate after %d tokens: made %d requests, want a second one for %d tokens", said, len(chats), want)
		}
	}
}
