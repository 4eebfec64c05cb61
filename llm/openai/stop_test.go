package openai_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/openai"
)

// TestStopSequences holds that all of them end the text: four at the server, which takes
// no more, the others here.
func TestStopSequences(t *testing.T) {
	tests := []struct {
		name    string
		model   string
		stops   []string
		turn    llmtest.Turn
		sent    []string
		want    string
		estimat bool
		api     openai.API
	}{
		{"few", "m", []string{"a", "b"}, llmtest.Say("x a"), []string{"a", "b"}, "x a stop", false, ""},
		{"the fifth", "m", []string{"1", "2", "3", "4", "END"}, llmtest.Say("so ", "far E", "ND and", " on"), []string{"1", "2", "3", "4"}, "so far stop_sequence", true, ""},
		{"the fifth, not met", "m", []string{"1", "2", "3", "4", "END"}, llmtest.Say("so ", "far EN"), []string{"1", "2", "3", "4"}, "so far EN stop", false, ""},
		{"the fifth, before a call", "m", []string{"1", "2", "3", "4", "END"}, llmtest.Join(llmtest.Say("x EN"), llmtest.Call("f", nil)), []string{"1", "2", "3", "4"}, "x EN f{} tool_calls", false, ""},
		{"a call behind the end", "m", []string{"1", "2", "3", "4", "END"}, llmtest.Join(llmtest.Say("x END"), llmtest.Call("f", nil)), []string{"1", "2", "3", "4"}, "x stop_sequence", true, ""},
		{"a model that takes none", "o3-mini", []string{"END"}, llmtest.Say("so far END"), nil, "so far stop_sequence", true, ""},
		{"in thinking they mean nothing", "o3-mini", []string{"END"}, llmtest.Join(llmtest.Think("END"), llmtest.Say("ok")), nil, "(END) ok stop", false, ""},
		{"by the Responses API", "m", []string{"END"}, llmtest.Say("so ", "far E", "ND and", " on"), nil, "so far stop_sequence", true, openai.APIResponses},
		{"by the Responses API, behind thinking", "m", []string{"END"}, llmtest.Join(llmtest.Think("END"), llmtest.Say("ok")), nil, "(END) ok stop", false, openai.APIResponses},
	}
	for _, tt := range tests {
		for _, whole := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := llmtest.NewServer(tt.turn.Usage(3, 4).Over(llmtest.Wire{NotAStream: whole}))
					req := hello()
					req.Model, req.Stop = tt.model, tt.stops
					resp, err := llm.Generate(t.Context(), client(t, s, openai.Options{API: tt.api}), req)
					if err != nil {
						t.Fatalf("Generate: %v", err)
					}
					if got := summary(resp); got != tt.want {
						t.Errorf("Generate: got %q, want %q", got, tt.want)
					}
					if got := s.Chats()[0].Request.Stop; !slices.Equal(got, tt.sent) {
						t.Errorf("sent the stop sequences %q, want %q", got, tt.sent)
					}
					if resp.Usage.Estimated != tt.estimat && !whole {
						t.Errorf("Generate: got usage %+v", resp.Usage)
					}
					synctest.Wait()
					if n := s.Active(); n != 0 {
						t.Errorf("the server still answers %d requests", n)
					}
				})
			})
		}
	}
}

// TestStopFreesTheServer holds that a text which is cut here is not read to its end.
func TestStopFreesTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := llmtest.NewServer(llmtest.Join(llmtest.Say("x END"), llmtest.Hold(llmtest.NewGate())))
		req := hello()
		req.Stop = []string{"1", "2", "3", "4", "END"}
		resp, err := llm.Generate(t.Context(), client(t, s, openai.Options{}), req)
		if err != nil || summary(resp) != "x stop_sequence" {
			t.Errorf("Generate: got %v and %v", resp, err)
		}
		synctest.Wait()
		if n := s.Active(); n != 0 {
			t.Errorf("the server still answers %d requests", n)
		}
	})
}
