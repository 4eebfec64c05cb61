package loop_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// counted records the types of the events of each commit.
type counted struct {
	loop.Journal
	mu      sync.Mutex
	commits []string
}

func (s *counted) note(events []store.Event) {
	var types []string
	for _, e := range events {
		types = append(types, e.Type)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits = append(s.commits, strings.Join(types, " "))
}

func (s *counted) Create(ctx context.Context, r store.Run, owner string, ttl time.Duration, first ...store.Event) (store.Run, error) {
	s.note(first)
	return s.Journal.Create(ctx, r, owner, ttl, first...)
}

func (s *counted) Append(ctx context.Context, a store.Append) (int64, error) {
	s.note(a.Events)
	return s.Journal.Append(ctx, a)
}

// TestCommitsOfASession: a run with two parallel calls, one call and the answer takes seven commits. Each parallel
// result has its own, so that a kill leaves as few unknown outcomes as possible.
func TestCommitsOfASession(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		model := llmtest.Script(llmtest.Calls(llmtest.Call("echo", `{"n":1}`), llmtest.Call("echo", `{"n":2}`)),
			llmtest.Call("echo", `{"n":3}`), llmtest.Say("done"))
		cfg := b.config(model)
		j := &counted{Journal: b.store}
		cfg.Journal, cfg.Tools = j, readyTools{tools: tools{tool("echo", echo)}}
		if out := b.finish(b.start(cfg)); out.Err != nil || out.Text != "done" || out.Steps != 3 {
			t.Errorf("outcome: %+v", out)
		}
		want := []string{
			"run.started tools.listed model.intent",
			"model.result tool.intent tool.intent tool.dispatched tool.dispatched",
			"tool.result",
			"tool.result model.intent",
			"model.result tool.intent tool.dispatched",
			"tool.result model.intent",
			"model.result run.finished",
		}
		if !slices.Equal(j.commits, want) {
			t.Errorf("commits:\n%s", strings.Join(j.commits, "\n"))
		}
		b.wantTypes("run.started tools.listed model.intent model.result i i d d r r model.intent model.result i d r model.intent model.result run.finished")
		for i, e := range b.sink.entries {
			if e.Seq != int64(i+1) {
				t.Errorf("entry %d: got seq %d", i, e.Seq)
			}
		}
	})
}

// TestFirstTurnIsRecordedAlone: the run is recorded before a first turn that waits for something or does not fit.
func TestFirstTurnIsRecordedAlone(t *testing.T) {
	for name, change := range map[string]func(*loop.Config){
		"a guard": func(cfg *loop.Config) {
			cfg.Guards = []guard.Guard{{Name: "g", BeforeModel: func(context.Context, *guard.Turn) guard.Result { return guard.Result{} }}}
		},
		"tools":   func(cfg *loop.Config) { cfg.Tools = tools{tool("echo", echo)} },
		"a limit": func(cfg *loop.Config) { cfg.Limits = loop.Limits{Tokens: 1} },
		"a large input": func(cfg *loop.Config) {
			cfg.Input = []llm.Message{llm.User(strings.Repeat("long ", 1<<18))}
		},
		"a last turn": func(cfg *loop.Config) { cfg.Limits = loop.Limits{Tokens: 1, OnLimit: runlog.LimitWrapUp} },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				cfg := b.config(llmtest.Script(llmtest.Say("ok")))
				j := &counted{Journal: b.store}
				cfg.Journal, cfg.Tools = j, readyTools{tools: tools{tool("echo", echo)}}
				change(cfg)
				b.finish(b.start(cfg))
				if got := j.commits[0]; got != "run.started" {
					t.Errorf("the first commit: %s", got)
				}
				if strings.Count(strings.Join(j.commits, " "), "tools.listed") != 1 {
					t.Errorf("commits: %q", j.commits)
				}
			})
		})
	}
}

// TestFirstTurnOutage: a run whose first attempt to be recorded with its turn fails is recorded once.
func TestFirstTurnOutage(t *testing.T) {
	for _, after := range []bool{false, true} {
		inBubble(t, func(t *testing.T, b *bench) {
			cfg := b.config(llmtest.Script(llmtest.Say("ok")))
			cfg.Journal = &outage{Journal: b.store, at: store.RunStarted, lasts: 5 * time.Second, err: store.ErrBusy, after: after}
			cfg.Tools = readyTools{tools: tools{tool("echo", echo)}}
			if out := b.finish(b.start(cfg)); out.Err != nil || out.Steps != 1 {
				t.Errorf("outcome: %+v", out)
			}
			b.wantTypes("run.started tools.listed model.intent model.result run.finished")
		})
	}
}

// TestFirstTurnIsNotAsked: a run that ends, or is left, before it is recorded with its first turn asks no model. The
// turn costs nothing, and nothing of it stays held in the account above.
func TestFirstTurnIsNotAsked(t *testing.T) {
	cancel := func(run *loop.Run) { run.Cancel(errUser) }
	broken := func(b *bench) loop.Journal {
		return &outage{Journal: b.store, at: store.RunStarted, lasts: -1, err: store.ErrBusy}
	}
	slow := func(d time.Duration) func(*bench) loop.Journal {
		return func(b *bench) loop.Journal { return &slowJournal{Journal: b.store, slowCreate: d} }
	}
	lazy := func(d time.Duration) func(*bench) loop.Journal {
		return func(b *bench) loop.Journal { return starter{b.store, d, 0} }
	}
	const unasked = "run.started tools.listed model.intent model.failed "
	for name, tt := range map[string]struct {
		journal func(*bench) loop.Journal
		end     func(*loop.Run) // nil for a run that ends by itself
		events  string
		calls   int // that the account counts: a recorded turn is one
	}{
		"cancelled":                   {slow(3 * time.Second), cancel, unasked + "run.finished", 1},
		"suspended":                   {slow(3 * time.Second), (*loop.Run).BeginSuspend, unasked + "run.parked", 1},
		"not recorded in its grace":   {slow(time.Hour), cancel, unasked + "run.finished", 0},
		"cancelled, a Starter":        {lazy(3 * time.Second), cancel, unasked + "run.finished", 1},
		"not in its grace, a Starter": {lazy(time.Hour), cancel, unasked + "run.finished", 0},
		"never recorded":              {broken, nil, "", 0},
		"cancelled in an outage":      {broken, func(run *loop.Run) { time.Sleep(3 * time.Second); cancel(run) }, "", 0},
		"suspended in an outage":      {broken, func(run *loop.Run) { time.Sleep(3 * time.Second); run.BeginSuspend() }, "", 0},
		"its ID is taken": {func(b *bench) loop.Journal {
			if _, err := b.store.Create(context.Background(), store.Run{ID: "r1"}, "another", time.Minute); err != nil {
				b.t.Fatal(err)
			}
			return b.store
		}, nil, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				above, model := budget.New("above", budget.Limits{}), llmtest.Script()
				cfg := b.config(model)
				cfg.Budget, cfg.Journal, cfg.Tools = above, tt.journal(b), readyTools{tools: tools{tool("echo", echo)}}
				run := b.start(cfg)
				if tt.end != nil {
					tt.end(run)
				}
				<-run.Stopped()
				if n := len(model.Requests()); n != 0 {
					t.Errorf("the model is asked %d times", n)
				}
				if r := nobodyHolds(t, above); r.Spent != (budget.Amount{ModelCalls: tt.calls}) {
					t.Errorf("the account above has spent %+v", r.Spent)
				}
				if out := run.Outcome(); out.Usage != (runlog.Usage{}) {
					t.Errorf("outcome: %+v", out)
				}
				time.Sleep(time.Hour) // until the late answer of the store
				if tt.events == "" {
					if _, err := b.store.Events(t.Context(), "r1", 0, 9); name != "its ID is taken" && !errors.Is(err, store.ErrNotFound) {
						t.Errorf("the run is recorded: %v", err)
					}
					return
				}
				b.wantTypes(tt.events)
			})
		})
	}
}
