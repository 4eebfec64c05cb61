package window

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// conversation makes up one of so many turns.
func conversation(r *rand.Rand, turns int) []llm.Message {
	text := func(most int) string { return strings.Repeat("xy é", r.IntN(most)) }
	out := []llm.Message{llm.User("go " + text(20))}
	for i := range turns {
		if r.IntN(5) == 0 {
			out = append(out, llm.Assistant("no "+text(50)), llm.User("again "+text(10)))
			continue
		}
		calls, results := mcp.Contents{mcp.Text("calling " + text(10))}, mcp.Contents{}
		for j := range 1 + r.IntN(3) {
			id := fmt.Sprintf("c%d-%d", i, j)
			calls = append(calls, &mcp.ToolUseContent{ID: id, Name: "t", Input: json.RawMessage(`{}`)})
			res := &mcp.ToolResultContent{ToolUseID: id, Content: mcp.Contents{mcp.Text(text(600))}}
			switch r.IntN(4) {
			case 0:
				res.Content = append(res.Content, &mcp.ImageContent{MIMEType: "image/png", Data: []byte{1}})
			case 1:
				res.Content, res.StructuredContent = mcp.Contents{}, json.RawMessage(`{"a":"`+strings.Repeat("b", r.IntN(900))+`"}`)
			}
			results = append(results, res)
		}
		out = append(out, llm.Message{Role: llm.RoleAssistant, Content: calls}, llm.Message{Role: llm.RoleUser, Content: results})
	}
	return out
}

// FuzzShorten: whatever the conversation, and however often it is made shorter, what is
// left is one that providers take, is no longer, begins and ends as it did, and what was
// there before has not changed.
func FuzzShorten(f *testing.F) {
	f.Add(uint64(1), uint8(10), uint16(500), uint16(100))
	f.Add(uint64(2), uint8(40), uint16(3000), uint16(50))
	f.Add(uint64(3), uint8(1), uint16(1), uint16(1))
	f.Add(uint64(4), uint8(0), uint16(10), uint16(10))
	f.Fuzz(func(t *testing.T, seed uint64, turns uint8, first, second uint16) {
		r := rand.New(rand.NewPCG(seed, 1))
		history := conversation(r, int(turns%64))
		before := describe(history)
		w := new(Window)
		for _, limit := range []int{int(first), int(second)} {
			req := &llm.Request{Messages: history}
			total := llm.EstimateTokens(req)
			if limit == 0 || total <= limit {
				continue
			}
			s := newShortening(history, w, total, limit, limit/4*3)
			s.shorten()
			got := &llm.Request{Messages: s.cut.messages}
			if err := got.Validate(); err != nil {
				t.Fatalf("limit %d: %v", limit, err)
			}
			if !strings.HasPrefix(got.Messages[0].Content.Text(), "go ") || len(got.Messages) > len(history) {
				t.Errorf("limit %d: %d of %d messages, the first %q", limit, len(got.Messages), len(history), got.Messages[0].Content.Text())
			}
			if s.cut.body.Messages != len(history)-len(got.Messages) {
				t.Errorf("limit %d: says that %d messages were dropped, of %d are left %d", limit, s.cut.body.Messages, len(history), len(got.Messages))
			}
			const note = 64 // tokens of the mark in the first message
			if after := llm.EstimateTokens(got); after > total+note || after > s.total+note {
				t.Errorf("limit %d: %d tokens of %d, counted as %d", limit, after, total, s.total)
			}
			w.Take(s.cut)
			if describe(history) != before {
				t.Fatal("the conversation itself has changed")
			}
			history = s.cut.messages
			before = describe(history)
		}
	})
}

// describe tells conversations from each other.
func describe(history []llm.Message) string {
	raw, err := json.Marshal(history)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
