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
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

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
		{"cut by runs before", many(12, 0), func(c *loop.Config) {
			note := (&runlog.HistoryCut{Dropped: 9, Summary: "much was said"}).Note()
			c.Origin.Input = []llm.Message{{Role: llm.RoleUser, Content: mcp.Contents{mcp.Text("go"), mcp.Text(note)}},
				{Role: llm.RoleAssistant, Content: mcp.Contents{mcp.Text("gone")}}, llm.User("go on")}
			c.Context, c.MaxTokens = 900, 100
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
				cfg.Unknown = runlog.OutcomeTell
				if tt.config != nil {
					tt.config(cfg)
				}
				if out := b.finish(b.start(cfg)); out.Text != "done" {
					t.Fatalf("outcome: %+v", out)
				}
				state := new(runlog.State)
				events := b.events()
				for _, e := range events {
					if e.Type == store.ModelResult && e.Body.(*runlog.ModelResult).Message.Content.Text() == "done" {
						break // what the last turn was asked with
					}
					state.Add(&e)
				}
				reqs := model.Requests()
				got, want := inJSON(t, state.History), inJSON(t, reqs[len(reqs)-1].Messages)
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
