package loop_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// TestEndIsKept: an end that has to wait is not forgotten by a kill: the run that goes on ends as was decided,
// whatever append was the last one, also if it is killed again. Nothing begins, and no question is left open.
func TestEndIsKept(t *testing.T) {
	lasts := func(d time.Duration) func(context.Context, *loop.Call) (string, error) {
		return func(context.Context, *loop.Call) (string, error) { time.Sleep(d); return "ok", nil }
	}
	asks := func(ctx context.Context, call *loop.Call) (string, error) {
		_, err := call.Ask(ctx, loop.Question{Kind: runlog.AskForm, Payload: rawJSON(`{}`), Hash: "h"})
		return "", err
	}
	tests := map[string]struct {
		cut    int    // append after which the first process ends, for a person to say that the run is to; zero for not at all
		way    string // that the person says
		fast   func(context.Context, *loop.Call) (string, error)
		guards []guard.Guard
		end    func(*loop.Run) // after a second; nil for nothing
		wall   time.Duration
		state  store.RunState
		is     func(error) bool
	}{
		"a guard's stop": {fast: lasts(time.Second), state: store.Failed,
			guards: []guard.Guard{{Name: "secrets", AfterTool: func(_ context.Context, r *guard.Return) guard.Result {
				if r.Tool == "fast" {
					return guard.Stopped("no secrets")
				}
				return guard.Result{}
			}}},
			is: func(err error) bool {
				g, ok := errors.AsType[*guard.Error](err)
				return ok && g.Guard == "secrets" && g.Reason == "no secrets"
			}},
		"cancelled": {fast: lasts(3 * time.Second), state: store.Cancelled, end: func(run *loop.Run) { run.Cancel(errUser) },
			is: func(err error) bool {
				e, ok := errors.AsType[*loop.CancelledError](err)
				return ok && strings.Contains(e.Error(), errUser.Error())
			}},
		"cancelled with a question": {fast: asks, state: store.Cancelled, end: func(run *loop.Run) { run.Cancel(errUser) },
			is: func(err error) bool { _, ok := errors.AsType[*loop.CancelledError](err); return ok }},
		"cancelled for its time": {fast: lasts(3 * time.Second), state: store.Limited, end: func(run *loop.Run) { run.Cancel(&budget.LimitError{Limit: "wall time", Max: "1m"}) },
			is: func(err error) bool {
				e, ok := errors.AsType[*budget.LimitError](err)
				return ok && e.Limit == "wall time" && e.Max == "1m"
			}},
		"out of time": {fast: lasts(4 * time.Second), wall: 2 * time.Second, state: store.Limited,
			is: func(err error) bool {
				e, ok := errors.AsType[*budget.LimitError](err)
				return ok && e.Limit == "wall time"
			}},
		"a person's end": {fast: lasts(2 * time.Second), cut: 2, way: runlog.OutcomeEnd, state: store.Failed,
			is: func(err error) bool { return errors.Is(err, loop.ErrOutcomeUnknown) }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			decided := 0
			for left, whole := 1, false; !whole && left < 20; left++ { // the first process ends after that append
				inBubble(t, func(t *testing.T, b *bench) {
					again := llmtest.Say("went on")
					slow := tool("slow", lasts(4*time.Second))
					slow.Safe = true
					config := func(turns ...llmtest.Turn) (*loop.Config, *dying) {
						cfg := b.config(llmtest.Script(turns...), tool("fast", tt.fast), slow)
						cfg.Guards, cfg.Limits.Wall = tt.guards, tt.wall
						d := &dying{Store: b.store, left: left, written: true}
						cfg.Journal = d
						return cfg, d
					}
					cfg, d := config(llmtest.Calls(llmtest.Call("fast", nil), llmtest.Call("slow", nil)), again)
					if tt.cut > 0 {
						d.left = tt.cut
					}
					run := b.start(cfg)
					if tt.cut > 0 {
						<-run.Ended()
						time.Sleep(2 * time.Minute)
						cfg, _ = config(again)
						b, run = b.resume(cfg)
						select {
						case a := <-b.sink.asked:
							_, _ = b.store.SettleAsk(t.Context(), a.ID, runlog.OutcomeDecision(tt.way, ""))
						case <-run.Ended():
						}
					}
					if tt.end != nil {
						time.Sleep(time.Second)
						tt.end(run)
					}
					<-run.Ended()
					types := b.types()
					whole = types[len(types)-1] == store.RunFinished
					if !slices.Contains(types, runlog.RunEndingType) && !slices.ContainsFunc(b.events(), func(e runlog.Entry) bool { _, stop := e.Body.(*runlog.GuardActed); return stop }) {
						return // it was not decided, as far as the journal knows
					}
					decided++
					for n := 1; !whole; n++ { // killed again, or not
						time.Sleep(2 * time.Minute)
						cfg, _ = config(again)
						if d.left = n; left%2 > 0 {
							d.left = 1 << 30
						}
						b, run = b.resume(cfg)
						<-run.Ended()
						types = b.types()
						whole = types[len(types)-1] == store.RunFinished
					}
					whole = false
					state := stateOf(t, b)
					if out := run.Outcome(); state.Finished.State != tt.state || !errors.Is(out.Err, loop.ErrLeft) && (out.State != tt.state || !tt.is(out.Err)) {
						t.Errorf("the outcome is %+v\n%v", out, types)
					}
					if slices.Contains(types[slices.Index(types, runlog.RunEndingType):], store.ToolDispatched) {
						t.Errorf("a call was made behind the end: %v", types)
					}
					for _, a := range b.allAsks(t) {
						if a.Status == store.AskPending {
							t.Errorf("a question is open: %+v", a)
						}
					}
					for _, c := range state.Calls {
						if c.Open() {
							t.Errorf("the call %s has no end: %v", c.Key, types)
						}
					}
				})
			}
			if decided == 0 {
				t.Error("no process ended while an end waited")
			}
		})
	}
}

func stateOf(t *testing.T, b *bench) *runlog.State {
	t.Helper()
	s, err := runlog.Fold(t.Context(), b.store, "r1")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestEndAtOnce: an end that waits for nothing needs no event of its own, and is written with what it follows from.
func TestEndAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		cfg := b.config(llmtest.Script(llmtest.Call("echo", nil)), tool("echo", echo))
		cfg.Guards = []guard.Guard{{BeforeTool: func(context.Context, *guard.Call) guard.Result { return guard.Stopped("no") }}}
		appends := &counting{Store: b.store}
		cfg.Journal = appends
		b.finish(b.start(cfg))
		b.wantTypes("run.started tools.listed model.intent model.result guard.acted run.finished")
		if got := appends.last; !slices.Contains(got, runlog.GuardActedType) {
			t.Errorf("the last append: %v", got)
		}
	})
}

// counting notes the types of the events of the last append.
type counting struct {
	store.Store
	last []string
}

func (c *counting) Append(ctx context.Context, a store.Append) (int64, error) {
	c.last = nil
	for _, e := range a.Events {
		c.last = append(c.last, e.Type)
	}
	return c.Store.Append(ctx, a)
}
