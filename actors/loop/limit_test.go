package loop_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// caller is a model that calls its tool for as long as it may, each time with other
// arguments, and gives an answer when it may not. It costs what is estimated.
func caller(output int) *llmtest.Model {
	var n atomic.Int64
	return llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
		input := llm.EstimateTokens(req)
		if req.ToolChoice == llm.ToolChoiceNone {
			return llmtest.Say("what I have").Usage(input, min(3, req.MaxTokens))
		}
		if req.MaxTokens > 0 && req.MaxTokens < output {
			return llmtest.Say("it is cut").Usage(input, req.MaxTokens).Finish(llm.FinishLength)
		}
		return llmtest.Call("echo", fmt.Sprintf(`{"n":%d}`, n.Add(1))).Usage(input, output)
	}))
}

// priced is a pricing of one price.
func priced(in, out llm.Money) *loop.Pricing {
	return &loop.Pricing{Most: llm.Price{Input: in, Output: out}}
}

// TestWrapUp: at any limit the run has one more turn, with its tools and no right to call them, that was held
// from the start.
func TestWrapUp(t *testing.T) {
	tests := []struct {
		name   string
		limits loop.Limits
		result int // bytes of each tool result
		want   string
	}{
		{"steps", loop.Limits{Steps: 3}, 10, "3 steps"},
		{"one step", loop.Limits{Steps: 1}, 10, "1 steps"},
		{"tool calls", loop.Limits{ToolCalls: 2}, 10, "2 tool calls"},
		{"model calls", loop.Limits{ModelCalls: 3}, 10, "3 model calls"},
		{"tokens", loop.Limits{Tokens: 1500}, 10, "1500 tokens"},
		{"tokens, of large results", loop.Limits{Tokens: 3000}, 9_000, "3000 tokens"},
		{"tokens, of a result that does not fit at all", loop.Limits{Tokens: 2000}, 90_000, "2000 tokens"},
		{"cost", loop.Limits{Cost: llm.Unit / 100}, 10, "a cost of 0.01"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				model := caller(60)
				cfg := b.config(model, tool("echo", func(context.Context, *loop.Call) (string, error) {
					return strings.Repeat("x", tt.result), nil
				}))
				cfg.Limits, cfg.Pricing = tt.limits, priced(2*llm.Unit, 10*llm.Unit)
				cfg.Limits.OnLimit = runlog.LimitWrapUp
				out := b.finish(b.start(cfg))
				limit, ok := errors.AsType[*budget.LimitError](out.Err)
				if !ok || !strings.Contains(limit.Error(), "limit: "+tt.want) || out.State != store.Limited || out.Stop != runlog.StopLimit || out.Text != "what I have" {
					t.Fatalf("outcome: got %+v, want an answer and the limit of %s", out, tt.want)
				}
				reqs := model.Requests()
				last := reqs[len(reqs)-1]
				if last.ToolChoice != llm.ToolChoiceNone || len(last.Tools) != 1 || last.MaxTokens == 0 ||
					!strings.Contains(last.Messages[len(last.Messages)-1].Content.Text(), "budget") {
					t.Errorf("the last turn: %+v", last)
				}
				if n := len(reqs); n != out.Steps || tt.limits.Steps > 0 && n != tt.limits.Steps {
					t.Errorf("turns: got %d, and %d are counted", n, out.Steps)
				}
				if out.Usage.Over != 0 || tt.limits.Tokens > 0 && out.Spent.Tokens > tt.limits.Tokens || tt.limits.Cost > 0 && out.Spent.Cost > tt.limits.Cost {
					t.Errorf("spent: %+v, usage %+v", out.Spent, out.Usage)
				}
				types := b.types()
				if got, want := strings.Join(types[len(types)-5:], " "), "limit.reached input.added model.intent model.result run.finished"; got != want {
					t.Errorf("journal:\n got %s\nwant %s", got, want)
				}
				intent := b.events()[len(types)-3].Body.(*runlog.ModelIntent)
				if !intent.Last || intent.Held.ModelCalls != 1 || intent.Held.Tokens < last.MaxTokens {
					t.Errorf("intent of the last turn: %+v", intent)
				}
			})
		})
	}
}

// TestWrapUpAlwaysFits: whatever the limit is and whatever the tools return, a run that
// has begun a turn has its last one, within the limit.
func TestWrapUpAlwaysFits(t *testing.T) {
	began := 0
	for limit := 40; limit < 2400; limit += 89 {
		inBubble(t, func(t *testing.T, b *bench) {
			n := 0
			model := caller(40)
			cfg := b.config(model, tool("echo", func(context.Context, *loop.Call) (string, error) {
				n++
				return strings.Repeat("word ", (n*limit)%700), nil
			}))
			cfg.Limits = loop.Limits{Tokens: limit, OnLimit: runlog.LimitWrapUp}
			out := b.finish(b.start(cfg))
			if out.Spent.Tokens > limit || out.Usage.Over != 0 {
				t.Errorf("limit %d: spent %d", limit, out.Spent.Tokens)
			}
			asked := len(model.Requests())
			switch {
			case asked == 0 && out.Text == "": // not even the last turn fits
			case out.Text != "what I have":
				t.Errorf("limit %d: after %d turns there is no last one: %+v", limit, asked, out)
			default:
				began++
			}
		})
	}
	if began < 20 {
		t.Errorf("only %d runs began", began)
	}
}

// TestWrapUpIsHeldAgainstOthers: what a sub-agent or a server spends of the same
// account does not touch the last turn.
func TestWrapUpIsHeldAgainstOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		greedy := tool("echo", func(_ context.Context, call *loop.Call) (string, error) {
			sub, err := call.Budget().Child("greedy", budget.Limits{})
			if err != nil {
				return "", err
			}
			defer sub.Close()
			left := sub.Left().Tokens
			h, err := sub.Reserve(budget.Amount{Tokens: left})
			if err != nil {
				return "", err
			}
			h.Settle(budget.Amount{Tokens: left})
			return "all of it", nil
		})
		b.unsaid = true
		cfg := b.config(caller(40), greedy)
		cfg.Limits = loop.Limits{Tokens: 2000, OnLimit: runlog.LimitWrapUp}
		out := b.finish(b.start(cfg))
		if out.Text != "what I have" || out.Steps != 2 || out.Spent.Tokens > 2000 || out.Spent.Tokens < 1000 || out.Usage.Total() >= 1000 {
			t.Errorf("outcome: %+v", out)
		}
	})
}

// TestWrapUpOfACutAnswer: what the model had said before its output was cut by what was
// left is shown to it again.
func TestWrapUpOfACutAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		model := llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
			if req.ToolChoice == llm.ToolChoiceNone {
				return llmtest.Calls(llmtest.Say("in short"), llmtest.Call("echo", nil))
			}
			return llmtest.Say("a long").Usage(llm.EstimateTokens(req), req.MaxTokens).Finish(llm.FinishLength)
		}))
		cfg := b.config(model)
		cfg.Limits = loop.Limits{Tokens: 600, OnLimit: runlog.LimitWrapUp}
		cfg.Check = func(string) (rawJSON, error) { return nil, errors.New("never right") }
		out := b.finish(b.start(cfg))
		if out.Text != "in short" || out.Steps != 2 || out.State != store.Limited {
			t.Errorf("outcome: %+v", out)
		}
		last := model.Requests()[1].Messages
		if len(last) != 3 || last[1].Content.Text() != "a long" {
			t.Errorf("the last turn was shown %+v", last)
		}
	})
}

// TestWrapUpCalls: a model that calls tools in its last turn is told once that it cannot, and answers once more where there is
// room for that; after that what it has said is the answer.
func TestWrapUpCalls(t *testing.T) {
	calls := llmtest.Join(llmtest.Say("one call more"), llmtest.Calls(llmtest.Call("echo", `{"n":8}`), llmtest.Call("other", nil)))
	for _, tt := range []struct {
		name   string
		limits loop.Limits
		last   []llmtest.Turn
		steps  int
		text   string
	}{
		{"and then answers", loop.Limits{ToolCalls: 1}, []llmtest.Turn{calls, llmtest.Say("what I have")}, 4, "what I have"},
		{"and calls again", loop.Limits{ToolCalls: 1}, []llmtest.Turn{calls, llmtest.Call("echo", nil), llmtest.Say("never asked")}, 4, "one call more"},
		{"and calls again with words", loop.Limits{ToolCalls: 1}, []llmtest.Turn{calls, llmtest.Join(llmtest.Say("enough"), llmtest.Call("echo", nil))}, 4, "enough"},
		{"by a call that is cut", loop.Limits{ToolCalls: 1}, []llmtest.Turn{llmtest.Call("echo", `{"a":`).Finish(llm.FinishLength), llmtest.Say("what I have")}, 4, "what I have"},
		{"without room", loop.Limits{Steps: 3}, []llmtest.Turn{calls, llmtest.Say("never asked")}, 3, "one call more"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				model := llmtest.Script(append([]llmtest.Turn{llmtest.Call("echo", `{"n":1}`), llmtest.Call("echo", `{"n":2}`)}, tt.last...)...)
				cfg := b.config(model, tool("echo", echo))
				cfg.Limits = tt.limits
				cfg.Limits.OnLimit = runlog.LimitWrapUp
				out := b.finish(b.start(cfg))
				reqs := model.Requests()
				if out.Text != tt.text || out.Steps != tt.steps || len(reqs) != tt.steps || out.State != store.Limited || out.ToolCalls > 2 {
					t.Fatalf("asked %d times, outcome %+v", len(reqs), out)
				}
				if tt.steps < 4 {
					return
				}
				for _, req := range reqs[2:] {
					if req.ToolChoice != llm.ToolChoiceNone || len(req.Tools) != 1 {
						t.Errorf("a last turn has the choice %q and %d tools", req.ToolChoice, len(req.Tools))
					}
				}
				for _, got := range results(reqs[3]) {
					if got != "error: not called: no more tools can be called. Answer now with what you have." {
						t.Errorf("the model reads %q", got)
					}
				}
			})
		})
	}
}

// TestWrapUpThatFails: a last turn without an answer is no other error than the limit.
func TestWrapUpThatFails(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		cfg := b.config(llmtest.Script(llmtest.Call("echo", nil), llmtest.Fail(errors.New("line cut"))), tool("echo", echo))
		cfg.Limits = loop.Limits{Steps: 2, OnLimit: runlog.LimitWrapUp}
		out := b.finish(b.start(cfg))
		var limit *budget.LimitError
		if !errors.As(out.Err, &limit) || !strings.Contains(out.Err.Error(), "line cut") || out.State != store.Limited || out.Text != "" {
			t.Errorf("outcome: %+v", out)
		}
	})
}

// more is an answer that allows an amount.
func more(amount string) store.Decision {
	return store.Decision{Status: store.AskAccepted, By: "ada", Answer: runlog.MoreAnswer(amount)}
}

// TestAskForMore: only a yes raises a limit; no answer is none.
func TestAskForMore(t *testing.T) {
	tests := []struct {
		name      string
		limits    loop.Limits
		decisions []store.Decision // nil: nobody answers
		payload   string           // of the first ask
		steps     int
		want      string // of the error; empty for an answer
		events    string // after the third turn's results
	}{
		{"the same again", loop.Limits{Steps: 3}, []store.Decision{more("")},
			`{"account":"run r1","limit":"steps","max":"3","spent":"3","more":"3"}`, 5, "",
			"limit.reached ask.opened ask.settled limit.raised"},
		{"one more and one more", loop.Limits{Steps: 3}, []store.Decision{more("1"), more("1")},
			`{"account":"run r1","limit":"steps","max":"3","spent":"3","more":"3"}`, 5, "",
			"limit.reached ask.opened ask.settled limit.raised"},
		{"declined", loop.Limits{Steps: 3}, []store.Decision{{Status: store.AskDeclined, By: "ada", Answer: runlog.DeclineAnswer("too dear")}},
			"", 3, "no more was allowed: the user declined it: too dear", "limit.reached ask.opened ask.settled run.finished"},
		{"withdrawn", loop.Limits{Steps: 3}, []store.Decision{{Status: store.AskCancelled, By: "ada"}},
			"", 3, "no more was allowed: the question was withdrawn", "limit.reached ask.opened ask.settled run.finished"},
		{"nobody answers", loop.Limits{Steps: 3}, nil,
			"", 3, "no more was allowed: no answer came in time", "limit.reached ask.opened ask.settled run.finished"},
		{"a yes to nothing", loop.Limits{Steps: 3}, []store.Decision{more("0")},
			"", 3, `"0" is no amount of steps`, "limit.reached ask.opened ask.settled run.finished"},
		{"a yes to something else", loop.Limits{Steps: 3}, []store.Decision{{Status: store.AskAccepted, Answer: []byte(`{"more":5}`)}},
			"", 3, "the answer is not", "limit.reached ask.opened ask.settled run.finished"},
		{"model calls", loop.Limits{ModelCalls: 3}, []store.Decision{more("9")},
			`{"account":"run r1","limit":"model calls","max":"3","spent":"3","more":"3"}`, 5, "",
			"limit.reached ask.opened ask.settled limit.raised"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				var turns []llmtest.Turn
				for i := range 4 {
					turns = append(turns, llmtest.Call("echo", fmt.Sprintf(`{"n":%d}`, i)))
				}
				began := time.Now()
				cfg := b.config(llmtest.Script(append(turns, llmtest.Say("done"))...), tool("echo", echo))
				cfg.Limits = tt.limits
				cfg.Limits.OnLimit, cfg.Limits.Wall = runlog.LimitAsk, time.Minute
				run := b.start(cfg)
				for i, d := range tt.decisions {
					row := <-b.sink.asked
					if row.Kind != runlog.AskLimit || row.Hash == "" || i == 0 && tt.payload != "" && string(row.Payload) != tt.payload {
						t.Errorf("ask: %+v, payload %s", row, row.Payload)
					}
					if head, err := b.store.Run(t.Context(), "r1"); err != nil || head.State != store.Waiting {
						t.Errorf("while it waits: %+v, %v", head, err)
					}
					time.Sleep(9 * time.Minute) // TIME-05: the wall time stands still
					if _, err := run.Answer(t.Context(), row.ID, d); err != nil {
						t.Errorf("Answer: %v", err)
					}
				}
				out := b.finish(run)
				if tt.want == "" && (out.Err != nil || out.Text != "done") {
					t.Fatalf("outcome: %+v", out)
				}
				var limit *budget.LimitError
				if tt.want != "" && (!errors.As(out.Err, &limit) || !strings.Contains(out.Err.Error(), tt.want) || out.State != store.Limited) {
					t.Errorf("outcome: got %+v, want %q", out, tt.want)
				}
				if out.Steps != tt.steps {
					t.Errorf("turns: got %d, want %d", out.Steps, tt.steps)
				}
				types := b.types()
				if i := slices.Index(types, runlog.LimitReachedType); i < 0 || strings.Join(types[i:i+4], " ") != tt.events {
					t.Errorf("journal: got %v, want %s", types, tt.events)
				}
				if tt.decisions == nil && time.Since(began) != 10*time.Minute {
					t.Errorf("expired after %v", time.Since(began))
				}
			})
		})
	}
}

// TestAskForMoreToolCalls: a turn whose calls do not all fit is asked about before any
// of them is made.
func TestAskForMoreToolCalls(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		t.Run(fmt.Sprint(allowed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				call := func(n int) llmtest.Turn { return llmtest.Call("echo", fmt.Sprintf(`{"n":%d}`, n)) }
				cfg := b.config(llmtest.Script(llmtest.Calls(call(1), call(2), call(3)), llmtest.Say("done")), tool("echo", echo))
				cfg.Limits = loop.Limits{ToolCalls: 2, OnLimit: runlog.LimitAsk}
				run := b.start(cfg)
				row := <-b.sink.asked
				if slices.Contains(b.types(), store.ToolDispatched) {
					t.Errorf("calls were made before: %v", b.types())
				}
				d := more("")
				if !allowed {
					d = store.Decision{Status: store.AskDeclined}
				}
				if _, err := run.Answer(t.Context(), row.ID, d); err != nil {
					t.Error(err)
				}
				out := b.finish(run)
				if allowed && (out.Err != nil || out.ToolCalls != 3) || !allowed && (out.State != store.Limited || out.ToolCalls != 2) {
					t.Errorf("outcome: %+v", out)
				}
				if n := count(b.types(), runlog.LimitReachedType); n != 1 {
					t.Errorf("limit.reached: %d times", n)
				}
			})
		})
	}
}

// TestCancelWhileAskingForMore: a run that waits for more can be cancelled and
// suspended like any other.
func TestCancelWhileAskingForMore(t *testing.T) {
	for _, steps := range []int{1, 2} {
		inBubble(t, func(t *testing.T, b *bench) {
			cfg := b.config(caller(10), tool("echo", echo))
			cfg.Limits = loop.Limits{Steps: steps, OnLimit: runlog.LimitAsk}
			run := b.start(cfg)
			row := <-b.sink.asked
			run.Cancel(errUser)
			if out := b.finish(run); out.State != store.Cancelled {
				t.Errorf("outcome: %+v", out)
			}
			if a, err := b.store.Ask(t.Context(), row.ID); err != nil || a.Status != store.AskCancelled {
				t.Errorf("the ask: %+v, %v", a, err)
			}
		})
	}
	inBubble(t, func(t *testing.T, b *bench) { // before there is any turn
		cfg := b.config(caller(10))
		cfg.Limits = loop.Limits{Tokens: 5, OnLimit: runlog.LimitAsk}
		run := b.start(cfg)
		row := <-b.sink.asked
		if err := run.Suspend(t.Context()); err != nil {
			t.Errorf("Suspend: %v", err)
		}
		if out := b.finish(run); !errors.Is(out.Err, loop.ErrSuspended) {
			t.Errorf("outcome: %+v", out)
		}
		if a, err := b.store.Ask(t.Context(), row.ID); err != nil || a.Status != store.AskPending {
			t.Errorf("the ask: %+v, %v", a, err)
		}
	})
}

// TestLimitIsAMessage: that a limit is reached is a message of the run's, and an event.
func TestLimitIsAMessage(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		cfg := b.config(caller(10), tool("echo", echo))
		cfg.Limits, cfg.Journal = loop.Limits{Steps: 1}, plain{b.store} // its answers are in the trace
		b.finish(b.start(cfg))
		lines := strings.ReplaceAll(strings.Join(b.trace.Lines(), " "), "run ", "")
		if want := "Started Creation listed appended modelReplied decided appended toolReturned listed limitHit appended Stopping"; lines != want {
			t.Errorf("messages:\n got %s\nwant %s", lines, want)
		}
		b.wantTypes("run.started tools.listed model.intent model.result i d r limit.reached run.finished")
		for _, e := range b.events() {
			if got, ok := e.Body.(*runlog.LimitReached); ok && *got != (runlog.LimitReached{Account: "run r1", Limit: "steps", Max: "1", Spent: "1", Then: runlog.LimitStop}) {
				t.Errorf("limit.reached: %+v", got)
			}
		}
	})
}

// TestPrices: the price of the model that has answered counts, and the dearest is what
// is reserved.
func TestPrices(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		cheap := llm.Price{Input: llm.Unit, Output: 2 * llm.Unit}
		model := &choosing{Model: llmtest.Script(llmtest.Say("hi").Usage(1000, 500)), chose: "cheap"}
		cfg := b.config(model)
		cfg.Limits.Cost = llm.Unit
		cfg.Pricing = priced(10*llm.Unit, 20*llm.Unit)
		cfg.Pricing.Of = func(name string) (llm.Price, bool) { return cheap, name == "cheap" }
		out := b.finish(b.start(cfg))
		if want := llm.Unit * 2 / 1000; out.Err != nil || out.Usage.Cost != want || out.Spent.Cost != want {
			t.Errorf("cost: got %v and %v, want %v (%v)", out.Usage.Cost, out.Spent.Cost, want, out.Err)
		}
		for _, e := range b.events() {
			switch body := e.Body.(type) {
			case *runlog.RunStarted:
				if body.Cost != llm.Unit || body.OnLimit != runlog.LimitStop || body.Depth != 8 {
					t.Errorf("run.started: %+v", body)
				}
			case *runlog.ModelIntent:
				if body.Held.Cost != cfg.Pricing.Most.Of(body.Reserved, 8192) || body.Held.Tokens != body.Reserved+8192 || body.MaxTokens != 8192 {
					t.Errorf("model.intent: %+v", body)
				}
			case *runlog.ModelResult:
				if body.Usage.Cost != llm.Unit*2/1000 {
					t.Errorf("model.result: %+v", body.Usage)
				}
			}
		}
	})
	inBubble(t, func(t *testing.T, b *bench) {
		cfg := b.config(llmtest.Script(llmtest.Say("hi")))
		cfg.Limits.Cost = llm.Unit
		for _, pricing := range []*loop.Pricing{nil, {Missing: "llmtest/script"}} {
			cfg.Pricing = pricing
			if _, err := b.tryStart(t.Context(), cfg); err == nil || err.Error() != "there is a limit of money, and no price for the model llmtest/script" {
				t.Errorf("a run without a price: got %v", err)
			}
		}
		cfg.Limits.Cost, cfg.Budget = 0, budget.New("tree", budget.Limits{Cost: llm.Unit})
		cfg.Pricing = nil
		if _, err := b.tryStart(t.Context(), cfg); err == nil {
			t.Error("a run without a price in a tree that has a limit of money: no error")
		}
		if r := cfg.Budget.Report(); len(r.Children) != 0 {
			t.Errorf("a run that was refused has an account: %+v", r)
		}
	})
}

// tryStart starts a run that may be refused.
func (b *bench) tryStart(ctx context.Context, cfg *loop.Config) (*loop.Run, error) {
	run, err := loop.New(cfg)
	if err != nil {
		return nil, err
	}
	_, err = actors.Ask(ctx, b.agents, func(r *actors.Reply[struct{}]) any { return startRun{run, r} })
	return run, err
}

// choosing is a model that says that it has chosen another.
type choosing struct {
	llm.Model
	chose string
}

func (m *choosing) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	if chose := llm.ObserverOf(ctx).Chose; chose != nil {
		chose(llm.Choice{Model: m.chose})
	}
	return m.Model.Stream(ctx, req)
}

func TestLimitsAreChecked(t *testing.T) {
	for _, limits := range []loop.Limits{{Steps: -1}, {Tokens: -1}, {Cost: -1}, {ModelCalls: -1}, {ToolCalls: -1}, {Depth: -1}, {Wall: -1}, {OnLimit: "later"}} {
		cfg := &loop.Config{Own: loop.Own{ID: "r", Sink: new(recorder)}, Model: caller(1), Limits: limits}
		if _, err := loop.New(cfg); err == nil {
			t.Errorf("New(%+v): no error", limits)
		}
	}
	cfg := &loop.Config{Own: loop.Own{ID: "r", Sink: new(recorder)}, Model: caller(1), Limits: loop.Limits{OnLimit: runlog.LimitAsk}}
	if _, err := loop.New(cfg); err == nil {
		t.Error("New of a run without a journal that asks: no error")
	}
}
