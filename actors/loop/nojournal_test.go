package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/internal/toolresult"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// startUnkept starts a run without a journal.
func (b *bench) startUnkept(change func(*loop.Config), model llm.Model, list ...loop.Tool) *loop.Run {
	b.t.Helper()
	c := b.config(model, list...)
	c.Journal, c.Kind = nil, actors.KindLoop
	if change != nil {
		change(c)
	}
	return b.start(c)
}

// A run without a journal does what one with a journal does, in the same order, and
// writes nothing.
func TestWithoutJournal(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		run := b.startUnkept(nil, llmtest.Script(llmtest.Calls(llmtest.Call("echo", `{"n":1}`), llmtest.Call("echo", `{"n":2}`)), llmtest.Say("done")), tool("echo", echo))
		<-run.Ended()
		if out := run.Outcome(); out.Err != nil || out.Text != "done" || out.Steps != 2 || out.ToolCalls != 2 {
			t.Errorf("got %+v", out)
		}
		if kind := run.Ref().Kind(); kind != actors.KindLoop {
			t.Errorf("got an actor of kind %v", kind)
		}
		if got, want := strings.Join(b.sink.types(), " "), "run.started tools.listed model.intent model.result tool.intent tool.intent "+
			"tool.dispatched tool.dispatched tool.result tool.result model.intent model.result run.finished"; got != want {
			t.Errorf("the sink heard\n%s, want\n%s", got, want)
		}
		if _, err := b.store.Run(t.Context(), "r1"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the store has a run: %v", err)
		}
		if len(b.sink.closed) != 1 {
			t.Errorf("got %d ends, want 1", len(b.sink.closed))
		}
	})
}

// Without a journal a run asks no questions: silence is never an approval.
func TestNoQuestionsWithoutJournal(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		made := 0
		raises := tool("raises", func(ctx context.Context, call *loop.Call) (string, error) {
			made++
			_, err := call.Ask(ctx, loop.Question{Kind: runlog.AskForm, Payload: json.RawMessage(`{}`)})
			if !errors.Is(err, loop.ErrNotAsked) {
				t.Errorf("Ask: got %v, want %v", err, loop.ErrNotAsked)
			}
			return "went on", nil
		})
		needs := tool("needs", echo)
		gate := llmtest.NewGate() // the run does not end before the first Answer
		defer gate.Open()
		model := llmtest.Script(llmtest.Join(llmtest.Hold(gate), llmtest.Calls(llmtest.Call("needs", nil), llmtest.Call("raises", nil))), llmtest.Say("done"))
		run := b.startUnkept(func(c *loop.Config) {
			c.Gate = func(_ context.Context, tool *loop.Tool, _ json.RawMessage) guard.Verdict {
				if tool.Name == "needs" {
					return guard.Ask
				}
				return guard.Allow
			}
		}, model, needs, raises)
		if _, err := run.Answer(t.Context(), "x", store.Decision{Status: store.AskAccepted}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Answer: got %v, want %v", err, store.ErrNotFound)
		}
		gate.Open()
		<-run.Ended()
		if out := run.Outcome(); out.Err != nil || made != 1 || out.ToolCalls != 1 {
			t.Errorf("got %+v after %d calls", out, made)
		}
		last := model.Requests()[1].Messages
		if got := last[len(last)-1].Content[0].(*mcp.ToolResultContent); !got.IsError || !strings.Contains(got.Content.Text(), "no person to ask") {
			t.Errorf("the model reads %+v", got)
		}
		if err := run.Suspend(t.Context()); err == nil {
			t.Error("a run that has ended was suspended")
		}
		<-run.Stopped()
		if _, err := run.Answer(t.Context(), "x", store.Decision{Status: store.AskAccepted}); !errors.Is(err, actors.ErrStopped) {
			t.Errorf("Answer of one that is gone: got %v, want %v", err, actors.ErrStopped)
		}
	})
}

// What is refused since nobody can be asked counts as no call.
func TestWithoutJournalRefusedCallsAreFree(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		model := llmtest.Script(llmtest.Calls(llmtest.Call("needs", nil), llmtest.Call("needs", nil)), llmtest.Call("echo", nil), llmtest.Say("done"))
		run := b.startUnkept(func(c *loop.Config) {
			c.Limits.ToolCalls = 1
			c.Gate = func(_ context.Context, tool *loop.Tool, _ json.RawMessage) guard.Verdict {
				if tool.Name == "needs" {
					return guard.Ask
				}
				return guard.Allow
			}
		}, model, tool("needs", echo), tool("echo", echo))
		<-run.Ended()
		if out := run.Outcome(); out.Text != "done" || out.ToolCalls != 1 {
			t.Errorf("got %+v", out)
		}
	})
}

// SAMP-31: the last turn keeps the tools and says that none may be called; calls that
// come all the same are left out, and an answer of nothing else is the limit.
func TestLastAnswers(t *testing.T) {
	tests := map[string]struct {
		last llmtest.Turn
		text string
		over bool
	}{
		"it answers":            {llmtest.Say("enough"), "enough", false},
		"it answers and calls":  {llmtest.Join(llmtest.Say("enough"), llmtest.Call("echo", `{"n":3}`)), "enough", false},
		"it calls all the same": {llmtest.Call("echo", `{"n":3}`), "", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				model := llmtest.Script(llmtest.Call("echo", `{"n":1}`), llmtest.Call("echo", `{"n":2}`), tt.last)
				run := b.startUnkept(func(c *loop.Config) { c.LastAnswers, c.Limits.Steps = true, 3 }, model, tool("echo", echo))
				<-run.Ended()
				out := run.Outcome()
				limit, over := errors.AsType[*budget.LimitError](out.Err)
				if out.Text != tt.text || over != tt.over || over && limit.Limit != "steps" || out.ToolCalls != 2 {
					t.Errorf("got %+v", out)
				}
				for i, req := range model.Requests() {
					if none := req.ToolChoice == llm.ToolChoiceNone; none != (i == 2) || len(req.Tools) != 1 {
						t.Errorf("turn %d: got choice %q and %d tools", i+1, req.ToolChoice, len(req.Tools))
					}
				}
			})
		})
	}
}

// However the actor of a run without a journal ends, there is one outcome.
func TestWithoutJournalKilled(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		gate := llmtest.NewGate()
		defer gate.Open()
		run := b.startUnkept(nil, llmtest.Script(llmtest.Hold(gate)))
		<-gate.Reached()
		run.Ref().Stop()
		<-run.Ended()
		if out := run.Outcome(); !errors.Is(out.Err, actors.ErrStopped) || len(b.sink.closed) != 1 {
			t.Errorf("got %+v and %d ends", out, len(b.sink.closed))
		}
	})
}

func TestFit(t *testing.T) {
	res, err := toolresult.Clip(&mcp.CallToolResult{Content: mcp.Contents{mcp.Text("a\xff" + strings.Repeat("b", 100))}, IsError: true}, 20)
	if err != nil || !res.IsError || !strings.HasPrefix(res.Content.Text(), "a\uFFFDbbb") || !strings.Contains(res.Content.Text(), "[cut here") {
		t.Errorf("Fit: got %+v and %v", res, err)
	}
	if res, err := toolresult.Clip(nil, 20); res != nil || err != nil {
		t.Errorf("Fit(nil): got %+v and %v", res, err)
	}
}
