package loop_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// subRun is a tool that is a run of its own, below the one that calls it.
func (b *bench) subRun(name string, change func(cfg *loop.Config)) loop.Tool {
	return tool(name, func(ctx context.Context, call *loop.Call) (string, error) {
		cfg := b.config(caller(40), tool("echo", echo))
		cfg.ID, cfg.Nonce, cfg.Budget, cfg.Sink = "sub-"+call.Key, "nonce-"+call.Key, call.Budget(), &recorder{asked: b.sink.asked}
		cfg.Limits.Wall = call.Left()
		if change != nil {
			change(cfg)
		}
		run, err := b.tryStart(ctx, cfg)
		if err != nil {
			return "", err
		}
		b.subs.Store(name, run)
		stop := context.AfterFunc(ctx, func() { run.Cancel(context.Cause(ctx)) })
		defer stop()
		<-run.Ended()
		out := run.Outcome()
		return fmt.Sprintf("%s after %d turns", out.State, out.Steps), out.Err
	})
}

// nobodyHolds fails the test if an account holds anything, or has accounts below it.
func nobodyHolds(t *testing.T, a *budget.Account) budget.Report {
	t.Helper()
	r := a.Report()
	if r.Reserved != (budget.Amount{}) || len(r.Children) != 0 {
		t.Errorf("in the end %+v is held, and there are %d accounts below", r.Reserved, len(r.Children))
	}
	return r
}

// TestSubRunsShareALimit: what a tree of runs spends is within the limits of its root,
// with several at once, and each knows whose limit it was.
func TestSubRunsShareALimit(t *testing.T) {
	for _, limits := range []budget.Limits{{Tokens: 6000}, {ModelCalls: 9}, {ToolCalls: 11}, {Cost: llm.Unit / 10}} {
		inBubble(t, func(t *testing.T, b *bench) {
			tree := budget.New("tree", limits)
			call := func(n int) llmtest.Turn { return llmtest.Call("help", fmt.Sprintf(`{"n":%d}`, n)) }
			model := llmtest.Script(llmtest.Calls(call(1), call(2), call(3), call(4)).Usage(50, 20), llmtest.Say("done").Usage(90, 5))
			price := func(cfg *loop.Config) { cfg.Pricing = priced(5*llm.Unit, 30*llm.Unit); cfg.MaxTokens = 200 }
			cfg := b.config(model, b.subRun("help", price))
			price(cfg)
			cfg.Budget = tree
			run := b.start(cfg)
			out := b.finish(run)
			r := nobodyHolds(t, tree)
			if r.Spent != (budget.Amount{Tokens: out.Spent.Tokens, Cost: out.Spent.Cost, ModelCalls: out.Spent.ModelCalls, ToolCalls: out.Spent.ToolCalls}) {
				t.Errorf("the tree has spent %+v, and its only run %+v", r.Spent, out.Spent)
			}
			if r.Spent.Tokens <= out.Usage.Total() || r.Spent.ModelCalls <= out.Steps || r.Over != (budget.Amount{}) && r.Over.Tokens > r.Short.Tokens {
				t.Errorf("spent %+v, usage %+v", r, out.Usage)
			}
			for _, refused := range []bool{limits.Tokens > 0 && r.Spent.Tokens > limits.Tokens+r.Short.Tokens,
				limits.ModelCalls > 0 && r.Spent.ModelCalls > limits.ModelCalls, limits.ToolCalls > 0 && r.Spent.ToolCalls > limits.ToolCalls,
				limits.Cost > 0 && r.Spent.Cost > limits.Cost+r.Short.Cost} {
				if refused {
					t.Errorf("limits %+v, and spent is %+v", limits, r.Spent)
				}
			}
			said := strings.Join(results(model.Requests()[len(model.Requests())-1]), "\n")
			if out.Err == nil && !strings.Contains(said, "limit") || out.Err != nil && !strings.Contains(out.Err.Error(), ", that of tree") {
				t.Errorf("nobody has reached the limit: %v, %s", out.Err, said)
			}
		})
	}
}

// TestDepthOfRuns: runs below runs, down to the limit.
func TestDepthOfRuns(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		var mu sync.Mutex
		deepest, refused := 0, 0
		var deeper func(level int) loop.Tool
		deeper = func(level int) loop.Tool {
			return b.subRun("help", func(cfg *loop.Config) {
				mu.Lock()
				deepest = max(deepest, level)
				mu.Unlock()
				cfg.Model = llmtest.Script(llmtest.Call("help", nil), llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
					if r := results(req); len(r) == 1 && strings.Contains(r[0], "a depth of 3, that of run r1") {
						mu.Lock()
						refused++
						mu.Unlock()
					}
					return llmtest.Say("ok")
				}))
				cfg.Tools = tools{deeper(level + 1)}
			})
		}
		cfg := b.config(llmtest.Script(llmtest.Call("help", nil), llmtest.Say("ok")), deeper(1))
		cfg.Limits.Depth = 3
		out := b.finish(b.start(cfg))
		if out.Err != nil || out.Spent.ModelCalls != 8 || deepest != 4 || refused != 1 { // four runs of two turns; the fifth has not begun
			t.Errorf("outcome: %+v; the deepest try was %d, %d runs were refused", out, deepest, refused)
		}
	})
}

// TestASubRunEndsWithItsParent: it has no more wall time than that had left, and does
// not outlive it.
func TestASubRunEndsWithItsParent(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		began := time.Now()
		var left time.Duration
		slow := b.subRun("help", func(cfg *loop.Config) {
			left = cfg.Limits.Wall
			cfg.Model = llmtest.Script(llmtest.Slow(24 * time.Hour))
		})
		cfg := b.config(llmtest.Script(llmtest.Join(llmtest.Slow(20*time.Second), llmtest.Call("help", nil))), slow)
		cfg.Limits.Wall = time.Minute
		cfg.Budget = budget.New("tree", budget.Limits{})
		out := b.finish(b.start(cfg))
		if out.State != store.Limited || left != 40*time.Second || time.Since(began) != time.Minute {
			t.Errorf("outcome: %+v after %v; the sub-run had %v", out, time.Since(began), left)
		}
		nobodyHolds(t, cfg.Budget)
	})
}

// TestNothingHeldAfterRun: however a run ends, its account holds nothing afterwards,
// and what was possibly spent is charged.
func TestNothingHeldAfterRun(t *testing.T) {
	ends := map[string]func(b *bench, run *loop.Run){
		"cancelled": func(_ *bench, run *loop.Run) { run.Cancel(errUser) },
		"panicked":  func(_ *bench, run *loop.Run) { run.Poison() },
		"killed":    func(b *bench, run *loop.Run) { run.Ref().Stop() },
	}
	for name, end := range ends {
		for _, where := range []string{"in a turn", "in a call"} {
			t.Run(name+" "+where, func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bench) {
					tree := budget.New("tree", budget.Limits{Tokens: 100_000})
					hanging := tool("hang", func(ctx context.Context, call *loop.Call) (string, error) {
						sub, err := call.Budget().Child("sampling", budget.Limits{})
						if err != nil {
							return "", err
						}
						if _, err := sub.Reserve(budget.Amount{Tokens: 500, ModelCalls: 1}); err != nil { // and never settles it
							return "", err
						}
						<-ctx.Done()
						return "", context.Cause(ctx)
					})
					turn := llmtest.Call("hang", nil)
					if where == "in a turn" {
						turn = llmtest.Join(llmtest.Say("eight by"), llmtest.Slow(time.Hour))
					}
					cfg := b.config(llmtest.Script(turn), hanging)
					cfg.Budget = tree
					cfg.Limits.OnLimit = runlog.LimitWrapUp // which holds a turn all along
					run := b.start(cfg)
					synctest.Wait()
					if r := tree.Report(); r.Reserved.Tokens < 500 || r.Reserved.ModelCalls < 2 {
						t.Errorf("while it runs %+v is held", r.Reserved)
					}
					end(b, run)
					out := b.finish(run)
					r := nobodyHolds(t, tree)
					if out.Err == nil || r.Spent.ModelCalls != 1 || r.Spent.Tokens == 0 || r.Spent.Tokens != out.Usage.Total() {
						t.Errorf("spent %+v, usage %+v, %v", r.Spent, out.Usage, out.Err)
					}
					if where == "in a turn" && out.Usage.Output != 2 { // eight bytes
						t.Errorf("what the model had said: %+v", out.Usage)
					}
				})
			})
		}
	}
}

// flaky is a model whose first attempts break off, as those of a provider with retries.
type flaky struct {
	llm.Model
	said   []string // by each attempt that breaks off; empty: it failed before the first word
	usage  llm.Usage
	err    error // of each
	broken int
}

func (m *flaky) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		o := llm.ObserverOf(ctx)
		for _, text := range m.said {
			if text != "" && !yield(llm.TextDelta{Text: text}, nil) {
				return
			}
			if m.usage != (llm.Usage{}) && !yield(m.usage, nil) {
				return
			}
			m.broken++
			if text != "" && o.Restart != nil {
				o.Restart()
			}
			if o.Retry != nil {
				o.Retry(llm.Attempt{Model: m.Name(), Number: m.broken, Err: m.err})
			}
			if ctx.Err() != nil {
				yield(nil, ctx.Err())
				return
			}
		}
		for ev, err := range m.Model.Stream(ctx, req) {
			if !yield(ev, err) {
				return
			}
		}
	}
}

// TestAttemptsThatBreakOff: each that has said something is charged with its input and
// what it has said; one that has not costs nothing.
func TestAttemptsThatBreakOff(t *testing.T) {
	cut := &llm.Error{Retryable: true, Err: llm.ErrStreamCut}
	half := strings.Repeat("12345678", 5) // ten tokens
	tests := []struct {
		name   string
		said   []string
		usage  llm.Usage
		err    error
		limit  int
		calls  int
		output int
		over   bool
	}{
		{"none", nil, llm.Usage{}, nil, 0, 1, 5, false},
		{"two", []string{half, half}, llm.Usage{}, cut, 0, 3, 25, false},
		{"refused", []string{"", ""}, llm.Usage{}, &llm.Error{Status: 503, Retryable: true}, 0, 1, 5, false},
		{"taken, and then silent", []string{"", ""}, llm.Usage{}, &llm.Error{Retryable: true, Err: llm.ErrIdle}, 0, 3, 5, false},
		{"counted by the provider", []string{half}, llm.Usage{Input: 11, Output: 33}, cut, 0, 2, 38, false},
		{"no room for another", []string{half, half}, llm.Usage{}, cut, 1, 2, 20, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				tree := budget.New("tree", budget.Limits{})
				model := &flaky{Model: llmtest.Script(llmtest.Say("answer").Usage(7, 5)), said: tt.said, usage: tt.usage, err: tt.err}
				cfg := b.config(model)
				cfg.Budget, cfg.Pricing, cfg.MaxTokens = tree, priced(llm.Unit, llm.Unit), 50
				if tt.limit > 0 {
					cfg.Limits.ModelCalls = 2
				}
				out := b.finish(b.start(cfg))
				r := nobodyHolds(t, tree)
				if out.Usage.Output != tt.output || out.Spent.ModelCalls != tt.calls || out.Steps != 1 ||
					r.Spent.Tokens != out.Usage.Total() || r.Spent.Cost != out.Usage.Cost || out.Usage.Cost == 0 {
					t.Errorf("spent %+v, usage %+v, %d turns", r.Spent, out.Usage, out.Steps)
				}
				var limit *budget.LimitError
				if tt.over != errors.As(out.Err, &limit) || !tt.over && out.Text != "answer" {
					t.Errorf("outcome: %+v", out)
				}
			})
		})
	}
}

// routed is a model of two candidates, the first of which fails before its first word.
type routed struct {
	llm.Model
	err error
}

func (m *routed) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		o := llm.ObserverOf(ctx)
		o.Chose(llm.Choice{Model: "first"})
		o.Chose(llm.Choice{Model: "second", Fallback: 1, After: m.err})
		if ctx.Err() != nil {
			yield(nil, ctx.Err())
			return
		}
		for ev, err := range m.Model.Stream(ctx, req) {
			if !yield(ev, err) {
				return
			}
		}
	}
}

// TestCandidatesThatFail: one that has taken the turn and then said nothing may be billed,
// and is charged with its input at its own price, within the limit; one that has refused
// it costs nothing.
func TestCandidatesThatFail(t *testing.T) {
	idle := &llm.Error{Retryable: true, Err: llm.ErrIdle}
	tests := []struct {
		name  string
		err   error
		limit int
		calls int
		text  string
	}{
		{"refused", &llm.Error{Status: 503, Retryable: true}, 1, 1, "answer"},
		{"taken, and then silent", idle, 0, 2, "answer"},
		{"no room for the second", idle, 1, 1, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				cfg := b.config(&routed{llmtest.Script(llmtest.Say("answer").Usage(7, 5)), tt.err})
				cfg.Limits.ModelCalls = tt.limit
				cfg.Pricing = &loop.Pricing{Most: llm.Price{Input: 100 * llm.Unit, Output: 100 * llm.Unit}, Of: func(model string) (llm.Price, bool) {
					return llm.Price{Input: 2 * llm.Unit}, model == "first"
				}}
				out := b.finish(b.start(cfg))
				input := llm.EstimateTokens(&llm.Request{Messages: cfg.Input})
				var want llm.Money
				if tt.err == error(idle) {
					want = llm.Price{Input: 2 * llm.Unit}.Of(input, 0)
				}
				if tt.text != "" {
					want += cfg.Pricing.Most.Of(7, 5)
				}
				var limit *budget.LimitError
				if out.Text != tt.text || errors.As(out.Err, &limit) != (tt.text == "") || out.Spent.ModelCalls != tt.calls || out.Spent.Cost != want {
					t.Errorf("outcome: %+v, want a cost of %v", out, want)
				}
			})
		})
	}
}

// TestRefusedByTheProvider: a turn that was refused before it had begun has cost
// nothing but the call.
func TestRefusedByTheProvider(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		out := b.finish(b.start(b.config(llmtest.Script(llmtest.Reply(401, "who are you?")))))
		if out.Err == nil || out.Usage != (runlog.Usage{}) || out.Spent != (budget.Amount{ModelCalls: 1, Steps: 1}) {
			t.Errorf("outcome: %+v", out)
		}
	})
}

// TestOverIsReported: a provider that counts more than was estimated is charged with
// it, and the run says by how much it is over.
func TestOverIsReported(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		cfg := b.config(llmtest.Script(llmtest.Call("echo", nil).Usage(5000, 10)), tool("echo", echo))
		cfg.Limits.Tokens = 1000
		out := b.finish(b.start(cfg))
		if out.State != store.Limited || out.Usage.Over != 4010 || out.Spent.Tokens != 5010 {
			t.Errorf("outcome: %+v", out)
		}
	})
}

// TestEstimatesLearn: what a provider counts beside the bytes of a turn is expected of
// the next one too.
func TestEstimatesLearn(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		const more = 990 // than is estimated, each time
		count := func(turn llmtest.Turn) llmtest.Turn {
			return llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
				return turn.Usage(llm.EstimateTokens(req)+more, 5)
			})
		}
		model := llmtest.Script(count(llmtest.Call("echo", `{"n":1}`)), count(llmtest.Call("echo", `{"n":2}`)), count(llmtest.Say("done")))
		if out := b.finish(b.start(b.config(model, tool("echo", echo)))); out.Err != nil {
			t.Fatal(out.Err)
		}
		var reserved []int
		for _, e := range b.events() {
			if intent, ok := e.Body.(*runlog.ModelIntent); ok {
				reserved = append(reserved, intent.Reserved)
			}
		}
		var want []int
		for i, req := range model.Requests() {
			want = append(want, llm.EstimateTokens(req)+min(i, 1)*more)
		}
		if !slices.Equal(reserved, want) {
			t.Errorf("reserved: got %v, want %v", reserved, want)
		}
	})
}
