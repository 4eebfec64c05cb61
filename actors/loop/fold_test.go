package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/internal/toolresult"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// fold rebuilds the conversation of a run from its events, as a resume would.
type fold struct {
	t         *testing.T
	maxResult int
	first     llm.Message // as it came
	history   []llm.Message
	turn      llm.Message                       // whose calls have results
	results   map[string]*mcp.ToolResultContent // by the calls' ids
}

func (f *fold) add(e runlog.Entry) {
	switch b := e.Body.(type) {
	case *runlog.RunStarted:
		f.maxResult, f.first, f.history = b.MaxResult, b.Input[0], b.Input
	case *runlog.ModelResult:
		f.turn = b.Message
		if len(f.turn.Content) == 0 {
			f.turn.Content = mcp.Contents{mcp.Text("(no answer)")}
		}
		f.history = append(f.history, f.turn)
	case *runlog.ToolResult:
		f.result(b.CallID, b.Result, b.Repeated)
	case *runlog.ToolUnknown:
		f.result(b.CallID, mcp.ErrorResult("The outcome of this call is unknown, it may have taken effect: %s", b.Reason), 0)
	case *runlog.InputAdded:
		f.flush()
		f.history = append(f.history, b.Message)
	case *runlog.HistoryCut:
		f.flush()
		f.cut(b)
	case *runlog.ModelIntent:
		f.flush()
	}
}

func (f *fold) result(id string, r *mcp.CallToolResult, repeated int) {
	fit, err := toolresult.Clip(r, f.maxResult)
	if err != nil {
		f.t.Fatal(err)
	}
	if repeated > 0 {
		fit.Content = append(fit.Content, mcp.Text(fmt.Sprintf("[You have made this same call with the same arguments %d times in a row. "+
			"Its result will not help you any further: do something else, or answer with what you know.]", repeated)))
	}
	if f.results == nil {
		f.results = make(map[string]*mcp.ToolResultContent)
	}
	f.results[id] = &mcp.ToolResultContent{ToolUseID: id, Content: fit.Content, StructuredContent: fit.StructuredContent, IsError: fit.IsError}
}

// flush ends a turn: its results are there, in the model's order.
func (f *fold) flush() {
	if f.results == nil {
		return
	}
	var all mcp.Contents
	for _, c := range f.turn.Content {
		if use, ok := c.(*mcp.ToolUseContent); ok {
			all = append(all, f.results[use.ID])
		}
	}
	f.results = nil
	f.history = append(f.history, llm.Message{Role: llm.RoleUser, Content: all})
}

func (f *fold) cut(b *runlog.HistoryCut) {
	for _, cut := range b.Results {
		for i, m := range f.history {
			for j, c := range m.Content {
				r, ok := c.(*mcp.ToolResultContent)
				if !ok || r.ToolUseID != cut.CallID {
					continue
				}
				short := &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(fmt.Sprintf("[the result of %s, %d bytes, was dropped to save room]", cut.Tool, cut.Bytes))}}
				if cut.Kept > 0 {
					var err error
					if short, err = toolresult.Clip(&mcp.CallToolResult{Content: r.Content, StructuredContent: r.StructuredContent}, cut.Kept); err != nil {
						f.t.Fatal(err)
					}
				}
				f.history[i].Content = append(mcp.Contents(nil), m.Content...)
				f.history[i].Content[j] = &mcp.ToolResultContent{ToolUseID: r.ToolUseID, IsError: r.IsError, Content: short.Content, StructuredContent: short.StructuredContent}
			}
		}
	}
	first := f.first
	if b.Dropped > 0 || b.Summary != "" {
		note := fmt.Sprintf("[%d earlier messages of this conversation, which stood here, were dropped to save room.]", b.Dropped)
		if b.Summary != "" {
			note += "\nWhat was dropped, in short: " + b.Summary
		}
		first.Content = append(append(mcp.Contents(nil), first.Content...), mcp.Text(note))
	}
	f.history = append([]llm.Message{first}, f.history[1+b.Messages:]...)
}

// TestJournalHoldsTheConversation: what a model was shown at last can be made of the
// events alone.
func TestJournalHoldsTheConversation(t *testing.T) {
	many := func(n, size int) []llmtest.Turn {
		var turns []llmtest.Turn
		for i := range n {
			turns = append(turns, llmtest.Calls(llmtest.Call("read", fmt.Sprintf(`{"n":%d}`, i)), llmtest.Call("fails", fmt.Sprintf(`{"n":%d}`, size))))
		}
		return append(turns, llmtest.Say("done"))
	}
	tests := []struct {
		name   string
		turns  []llmtest.Turn
		config func(*loop.Config)
	}{
		{"calls that fail, and ones that are refused", []llmtest.Turn{llmtest.Calls(llmtest.Call("fails", nil), llmtest.Call("nobody", nil), llmtest.Call("read", nil), llmtest.Call("lost", nil)), llmtest.Say("done")},
			func(c *loop.Config) { c.MaxResult = 300 }},
		{"the same call again and again", []llmtest.Turn{llmtest.Call("read", nil), llmtest.Call("read", nil), llmtest.Call("read", nil), llmtest.Say("done")}, nil},
		{"a poor answer", []llmtest.Turn{llmtest.Call("read", nil), llmtest.Say("no JSON"), llmtest.Turn{}, llmtest.Say("done")}, func(c *loop.Config) {
			c.Check = func(text string) (json.RawMessage, error) {
				if text != "done" {
					return nil, errors.New("it is not done")
				}
				return nil, nil
			}
		}},
		{"a refused answer", []llmtest.Turn{llmtest.Say("secret"), llmtest.Say("done")}, func(c *loop.Config) {
			c.Guards = []guard.Guard{{AfterModel: func(_ context.Context, g *guard.Reply) guard.Result {
				if g.Response.Text() == "secret" {
					return guard.Refused("no")
				}
				return guard.Result{}
			}}}
		}},
		{"results and turns that were cut", many(12, 0), func(c *loop.Config) { c.Context, c.MaxTokens = 900, 100 }},
		{"with summaries", many(12, 0), func(c *loop.Config) {
			c.Context, c.MaxTokens = 1300, 100
			c.Summarise = func(_ context.Context, _ *loop.Call, before string, dropped []llm.Message) (string, error) {
				return fmt.Sprint(before, " and ", len(dropped)), nil
			}
		}},
		{"a result that does not fit", []llmtest.Turn{llmtest.Call("huge", nil), llmtest.Call("huge", `{"n":2}`), llmtest.Say("done")},
			func(c *loop.Config) { c.Context, c.MaxTokens = 1000, 100 }},
		{"a result that the model refuses", []llmtest.Turn{llmtest.Call("huge", nil), llmtest.Fail(&llm.Error{Provider: "test", Err: llm.ErrContextLength}), llmtest.Say("done")}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				model := llmtest.Script(tt.turns...)
				cfg := b.config(model, tool("read", big(200)), tool("huge", big(4000)),
					tool("fails", func(context.Context, *loop.Call) (string, error) { return "", errors.New("no luck") }),
					tool("lost", func(context.Context, *loop.Call) (string, error) {
						return "", &loop.UnknownError{Err: errors.New("cut off")}
					}))
				if tt.config != nil {
					tt.config(cfg)
				}
				if out := b.finish(b.start(cfg)); out.Text != "done" {
					t.Fatalf("outcome: %+v", out)
				}
				f := &fold{t: t}
				events := b.events()
				for _, e := range events {
					if e.Type == store.ModelResult && e.Body.(*runlog.ModelResult).Message.Content.Text() == "done" {
						break // what the last turn was asked with
					}
					f.add(e)
				}
				reqs := model.Requests()
				got, want := inJSON(t, f.history), inJSON(t, reqs[len(reqs)-1].Messages)
				if got != want {
					t.Errorf("the journal gives\n%s\nthe model was shown\n%s", got, want)
				}
			})
		})
	}
}

// inJSON writes messages one a line.
func inJSON(t *testing.T, messages []llm.Message) string {
	t.Helper()
	var out strings.Builder
	for _, m := range messages {
		raw, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(raw)
		out.WriteByte('\n')
	}
	return out.String()
}
