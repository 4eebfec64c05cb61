package sampling_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/sampling"
	"github.com/troupe-dev/troupe/mcp"
)

// What goes to a client and comes from a server is the same turn, and so is its
// answer: for any turn that MCP has words for.
func TestRoundTrip(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		req := randomRequest(r)
		if err := req.Validate(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		p, err := sampling.Params(req)
		if err != nil {
			t.Fatalf("seed %d: Params: %v", seed, err)
		}
		there := new(mcp.CreateMessageParams)
		if err := mcp.Unmarshal([]byte(asJSON(t, p)), there); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		back, err := sampling.Request(there)
		if err != nil {
			t.Fatalf("seed %d: Request: %v", seed, err)
		}
		if got, want := asJSON(t, back), asJSON(t, req); got != want {
			t.Fatalf("seed %d: got %s, want %s", seed, got, want)
		}
		resp := randomResponse(r, req)
		res, err := sampling.Result(there, resp)
		if err != nil {
			t.Fatalf("seed %d: Result: %v", seed, err)
		}
		here := new(mcp.CreateMessageResult)
		if err := mcp.Unmarshal([]byte(asJSON(t, res)), here); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		again, err := sampling.Response(req, here)
		if err != nil {
			t.Fatalf("seed %d: Response: %v", seed, err)
		}
		if again.Usage = resp.Usage; !reflect.DeepEqual(again, resp) {
			t.Fatalf("seed %d: got %s, want %s", seed, asJSON(t, again), asJSON(t, resp))
		}
	}
}

func randomRequest(r *rand.Rand) *llm.Request {
	req := &llm.Request{MaxTokens: 1 + r.IntN(1000), System: word(r)}
	for i := range r.IntN(3) {
		req.Tools = append(req.Tools, llm.Tool{Name: fmt.Sprint("t", i), Description: word(r), InputSchema: json.RawMessage(`{"type":"object"}`)})
	}
	if len(req.Tools) > 0 {
		req.ToolChoice = []llm.ToolChoice{llm.ToolChoiceAuto, llm.ToolChoiceNone, llm.ToolChoiceRequired}[r.IntN(3)]
	}
	if r.IntN(2) == 0 {
		req.Temperature = new(float64(r.IntN(3)))
	}
	if r.IntN(2) == 0 {
		req.Stop = []string{"END" + word(r)}
	}
	if r.IntN(2) == 0 {
		req.Prefer = &llm.Preferences{Hints: []string{"h" + word(r)}, Cost: float64(r.IntN(2))}
	}
	id := 0
	for range 1 + r.IntN(4) {
		req.Messages = append(req.Messages, llm.Message{Role: llm.RoleUser, Content: blocksOf(r)})
		if r.IntN(2) == 0 {
			continue
		}
		calls, results := blocksOf(r), mcp.Contents{}
		for range 1 + r.IntN(3) {
			id++
			calls = append(calls, &mcp.ToolUseContent{ID: fmt.Sprint(id), Name: "t0", Input: json.RawMessage(fmt.Sprintf(`{"w":%d}`, r.Uint64()))})
			results = append(results, &mcp.ToolResultContent{ToolUseID: fmt.Sprint(id), Content: blocksOf(r), IsError: r.IntN(2) == 0})
		}
		req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Content: calls}, llm.Message{Role: llm.RoleUser, Content: results})
	}
	return req
}

func blocksOf(r *rand.Rand) mcp.Contents {
	cs := mcp.Contents{mcp.Text(word(r))}
	if r.IntN(3) == 0 {
		cs = append(cs, &mcp.ImageContent{Data: []byte(word(r)), MIMEType: "image/webp"})
	}
	return cs
}

// randomResponse is an answer that a model may give to the request.
func randomResponse(r *rand.Rand, req *llm.Request) *llm.Response {
	resp := &llm.Response{Model: "m", Finish: []llm.FinishReason{llm.FinishStop, llm.FinishLength, llm.FinishRefusal, "own"}[r.IntN(4)]}
	if text := word(r); text != "" {
		resp.Content = mcp.Contents{mcp.Text(text)}
	}
	if len(req.Tools) > 0 && req.ToolChoice != llm.ToolChoiceNone && (req.ToolChoice == llm.ToolChoiceRequired || r.IntN(2) == 0) {
		resp.Finish = llm.FinishToolCalls
		for i := range 1 + r.IntN(3) {
			resp.Content = append(resp.Content, &mcp.ToolUseContent{ID: fmt.Sprint("new", i), Name: "t0", Input: json.RawMessage(`{}`)})
		}
	}
	return resp
}

func word(r *rand.Rand) string {
	return []string{"", "a", "two words", "Grüße 🎭", "line\nline", "json: {}"}[r.IntN(6)]
}
