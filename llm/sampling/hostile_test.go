package sampling_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/sampling"
	"github.com/troupe-dev/troupe/mcp"
)

// quick fails if f takes so long that it must be more than linear in what it is given.
func quick(t *testing.T, what string, f func()) {
	t.Helper()
	begin := time.Now()
	f()
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("%s took %v", what, took)
	}
}

// clashing are calls whose ids were made to be in the way of each other: those that a
// repeated one would get are there.
func clashing(n int) mcp.Contents {
	var calls mcp.Contents
	for i := range n {
		calls = append(calls, &mcp.ToolUseContent{ID: fmt.Sprintf("x_%d", i+n), Name: "add"})
	}
	for range n {
		calls = append(calls, &mcp.ToolUseContent{ID: "x", Name: "add"})
	}
	return calls
}

// SECA-43: ids cost no more than their number, however they were chosen.
func TestClashingIDs(t *testing.T) {
	const n = 20_000
	req := &llm.Request{Messages: []llm.Message{llm.User("Hi")}, Tools: []llm.Tool{{Name: "add"}}}
	p := &mcp.CreateMessageParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Contents{mcp.Text("Hi")}}},
		Tools: []mcp.Tool{{Name: "add"}}}
	quick(t, "Response", func() {
		resp, err := sampling.Response(req, &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Content: clashing(n)})
		if err != nil {
			t.Fatal(err)
		}
		seen := make(map[string]bool)
		for _, c := range resp.Calls() {
			if seen[c.ID] {
				t.Fatalf("the id %q is there twice", c.ID)
			}
			seen[c.ID] = true
		}
	})
	quick(t, "Result", func() {
		if _, err := sampling.Result(p, &llm.Response{Content: clashing(n)}); err != nil {
			t.Fatal(err)
		}
	})
}

// A server's texts stand in no error as they are, nor at their length.
func TestErrorsOfHugeTexts(t *testing.T) {
	huge := "\x1b[31m" + strings.Repeat("x", 1<<20)
	user := mcp.SamplingMessage{Role: mcp.RoleUser, Content: mcp.Contents{mcp.Text("Hi")}}
	with := func(change func(*mcp.CreateMessageParams)) *mcp.CreateMessageParams {
		p := &mcp.CreateMessageParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{user}}
		change(p)
		return p
	}
	use := func(id, name, input string) mcp.SamplingMessage {
		return mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: mcp.Contents{&mcp.ToolUseContent{ID: id, Name: name, Input: []byte(input)}}}
	}
	answer := func(id string) mcp.SamplingMessage {
		return mcp.SamplingMessage{Role: mcp.RoleUser, Content: mcp.Contents{&mcp.ToolResultContent{ToolUseID: id}}}
	}
	for name, p := range map[string]*mcp.CreateMessageParams{
		"a role":   with(func(p *mcp.CreateMessageParams) { p.Messages[0].Role = mcp.Role(huge) }),
		"a choice": with(func(p *mcp.CreateMessageParams) { p.ToolChoice = &mcp.ToolChoice{Mode: huge} }),
		"an image's type": with(func(p *mcp.CreateMessageParams) {
			p.Messages[0].Content = mcp.Contents{&mcp.ImageContent{MIMEType: huge}}
		}),
		"an id":          with(func(p *mcp.CreateMessageParams) { p.Messages = append(p.Messages, use(huge, "f", "{}"), answer("y")) }),
		"an answer's id": with(func(p *mcp.CreateMessageParams) { p.Messages = append(p.Messages, use("x", "f", "{}"), answer(huge)) }),
		"arguments":      with(func(p *mcp.CreateMessageParams) { p.Messages = append(p.Messages, use(huge, "f", "[]"), answer(huge)) }),
		"a tool twice":   with(func(p *mcp.CreateMessageParams) { p.Tools = []mcp.Tool{{Name: huge}, {Name: huge}} }),
		"a schema":       with(func(p *mcp.CreateMessageParams) { p.Tools = []mcp.Tool{{Name: huge, InputSchema: []byte("[]")}} }),
	} {
		_, err := sampling.Request(p)
		wire, ok := errors.AsType[*mcp.Error](err)
		if !ok || len(err.Error()) > 2048 || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("Request with %s of 1 MB: got %T of %d bytes, %.200q", name, err, len(fmt.Sprint(err)), fmt.Sprint(wire))
		}
	}
	req := &llm.Request{Messages: []llm.Message{llm.User("Hi")}}
	for name, res := range map[string]*mcp.CreateMessageResult{
		"a role":  {Role: mcp.Role(huge)},
		"a model": {Role: mcp.RoleAssistant, Model: huge, StopReason: mcp.StopToolUse},
		"a call":  {Role: mcp.RoleAssistant, Content: mcp.Contents{&mcp.ToolUseContent{Name: huge, Input: []byte("[]")}}},
	} {
		if _, err := sampling.Response(req, res); err == nil || len(err.Error()) > 2048 || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("Response with %s of 1 MB: got %T of %d bytes, %.200q", name, err, len(fmt.Sprint(err)), fmt.Sprint(err))
		}
	}
	resp, err := sampling.Response(req, &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Content: mcp.Contents{mcp.Text("hi")}, Model: huge, StopReason: huge})
	if err != nil || len(resp.Model)+len(resp.Finish) > 1024 || strings.Contains(resp.Model+string(resp.Finish), "\x1b") {
		t.Errorf("Response: got a model of %d bytes and a reason of %d, %v", len(resp.Model), len(resp.Finish), err)
	}
}

// SECA-43: stop sequences are looked for in every piece of an answer: how many there are,
// and how long, is bounded.
func TestStopSequencesAreBounded(t *testing.T) {
	p := &mcp.CreateMessageParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Contents{mcp.Text("Hi")}}}}
	for name, stops := range map[string][]string{
		"many": make([]string, 100_000),
		"long": {strings.Repeat("a", 1<<20)},
	} {
		for i := range stops {
			if stops[i] == "" {
				stops[i] = fmt.Sprint("stop", i)
			}
		}
		p.StopSequences = stops
		if _, err := sampling.Request(p); err == nil {
			t.Errorf("Request with %s stop sequences: no error", name)
		}
	}
	p.StopSequences = []string{"a", "", "b", "\n\nHuman:"}
	if req, err := sampling.Request(p); err != nil || len(req.Stop) != 3 {
		t.Errorf("Request with three stop sequences: got %v, %v", req, err)
	}
}
