package sampler

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/openai"
	"github.com/troupe-dev/troupe/mcp"
)

// SAMP-24, SAMP-25: a server that drives a loop gives back what it was given, and a service that wants it takes the next turn. The server
// cannot read it, and what is not its own, or is changed, counts as missing.
func TestSealedState(t *testing.T) {
	for _, service := range []llmtest.Service{llmtest.OpenAI, llmtest.DeepSeek, llmtest.Gemini, llmtest.OpenRouter} {
		for name, change := range map[string]func(m *mcp.CreateMessageResult){
			"given back":         func(*mcp.CreateMessageResult) {},
			"left out":           func(r *mcp.CreateMessageResult) { r.Content[0].(*mcp.ToolUseContent).Meta = nil },
			"with other content": func(r *mcp.CreateMessageResult) { r.Content[0].(*mcp.ToolUseContent).Input = []byte(`{"n":3}`) },
			"forged": func(r *mcp.CreateMessageResult) {
				_ = r.Content[0].(*mcp.ToolUseContent).Meta.Set(metaState, "AAAA")
			},
		} {
			t.Run(string(service)+" "+name, func(t *testing.T) {
				calls := llmtest.Calls(llmtest.Call("f", `{"n":1}`), llmtest.Call("f", `{"n":2}`))
				script := llmtest.NewServer(calls, calls, llmtest.Say("ok"))
				script.Service = service
				srv := httptest.NewServer(script)
				defer srv.Close()
				s := lending(t, openai.New("m", &openai.Options{Provider: string(service), BaseURL: srv.URL}), Policy{})
				req := wants("bank")
				req.Params.Tools = []mcp.Tool{{Name: "f", InputSchema: []byte(`{"type":"object"}`)}}
				for turn := range 3 {
					res, err := s.sample(t.Context(), req, nil)
					if name != "given back" && turn > 0 { // the double knows its own calls
						if err == nil {
							t.Error("the service took a call without what it had attached")
						}
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					if turn == 2 {
						if res.Content.Text() != "ok" {
							t.Errorf("got %q", res.Content.Text())
						}
						return
					}
					text, err := res.Content.AppendJSON(nil)
					if err != nil || strings.Contains(string(text), "needs a tool") || strings.Contains(string(text), "signature-") {
						t.Errorf("the server can read it: %s, %v", text, err)
					}
					change(res)
					results := mcp.Contents{}
					for _, c := range res.Content {
						if call, ok := c.(*mcp.ToolUseContent); ok {
							results = append(results, &mcp.ToolResultContent{ToolUseID: call.ID, Content: mcp.Contents{mcp.Text("done")}})
						}
					}
					req.Params.Messages = append(req.Params.Messages, mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: res.Content}, mcp.SamplingMessage{Role: mcp.RoleUser, Content: results})
				}
			})
		}
	}
}

// What was sealed to one server opens for no other, and not for another process.
func TestSealedToAServer(t *testing.T) {
	s, other := lending(t, llmtest.Script(), Policy{}), lending(t, llmtest.Script(), Policy{})
	resp := &llm.Response{Content: mcp.Contents{&mcp.ToolUseContent{ID: "c", Name: "f", Input: []byte(`{"a":1,"b":2}`)}},
		State: []llm.ProviderState{{Provider: "p", Kind: "k", Data: []byte(`1`)}, {Provider: "p", Kind: "l", Call: "c", Data: []byte(`2`)}, {Provider: "p", Kind: "l", Call: "gone", Data: []byte(`3`)}}}
	res := &mcp.CreateMessageResult{Content: mcp.Contents{&mcp.ToolUseContent{ID: "c", Name: "f", Input: []byte(`{"b":2,"a":1}`)}}}
	s.sealState("bank", resp, res)
	call := res.Content[0].(*mcp.ToolUseContent)
	twice := *call
	open := func(s *Service, server string) []llm.ProviderState {
		p := &mcp.CreateMessageParams{Messages: []mcp.SamplingMessage{{Role: mcp.RoleAssistant, Content: mcp.Contents{call, &twice}}}}
		turn := &llm.Request{Messages: []llm.Message{{Role: llm.RoleAssistant, Content: mcp.Contents{&mcp.ToolUseContent{ID: "x"}, &mcp.ToolUseContent{ID: "y"}}}}}
		s.openState(server, p, turn)
		return turn.Messages[0].State
	}
	if got := open(s, "bank"); len(got) != 3 || got[0].Kind != "k" || got[1].Call != "x" || got[2].Call != "y" {
		t.Errorf("got %+v", got)
	}
	if got := open(s, "thief"); got != nil {
		t.Errorf("another server: got %+v", got)
	}
	if got := open(other, "bank"); got != nil {
		t.Errorf("another process: got %+v", got)
	}
}
