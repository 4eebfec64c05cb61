package agent_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// onceCalling is a model that calls a tool once.
func onceCalling() llm.Model {
	return llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
		if len(req.Messages) == 1 {
			return call("double", in{2})
		}
		return llmtest.Say("done")
	}))
}

// counting counts what a store is asked about asks.
type counting struct {
	store.Store
	one, list atomic.Int64
}

func (s *counting) Ask(ctx context.Context, id string) (store.Ask, error) {
	s.one.Add(1)
	return s.Store.Ask(ctx, id)
}

func (s *counting) SettledAsks(ctx context.Context, after int64, limit int) ([]store.Ask, int64, error) {
	s.list.Add(1)
	return s.Store.SettledAsks(ctx, after, limit)
}

// TestAnswersElsewhere: runs hear within a second, or at once with Wake, of answers that
// were given in another process; however many wait, the store is asked once a look.
func TestAnswersElsewhere(t *testing.T) {
	for _, wake := range []bool{false, true} {
		t.Run(fmt.Sprint("wake=", wake), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := &counting{Store: memory()}
				rt := open(t, &agent.Options{Store: s, Model: onceCalling(), Tools: []agent.Tool{double}, Approve: agent.AskAlways})
				var runs []*agent.Run
				for i := range 50 {
					runs = append(runs, start(t, rt, fmt.Sprint("r", i)))
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if one, list := s.one.Load(), s.list.Load(); one != 50 || list > 150 {
					t.Errorf("in a minute of 50 runs that wait: %d asks and %d lists were read, want 50 and no more than two a second", one, list)
				}
				if tasks := rt.System().Census().Tasks; len(tasks) != 0 {
					t.Errorf("runs that wait have tasks: %v", tasks)
				}
				asks, err := s.Asks(t.Context(), store.AskQuery{Status: store.AskPending})
				if err != nil || len(asks) != 50 {
					t.Fatalf("Asks: got %d, %v", len(asks), err)
				}
				for _, a := range asks {
					if _, err := s.SettleAsk(t.Context(), a.ID, store.Decision{Status: store.AskAccepted, By: "ada"}); err != nil {
						t.Fatal(err)
					}
				}
				if wake {
					rt.Wake()
				} else {
					time.Sleep(time.Second)
				}
				synctest.Wait()
				for _, run := range runs {
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					if res, err := run.Wait(ctx); err != nil || res.Text != "done" {
						t.Errorf("run %q: got %v, %v, want its answer by now", run.ID(), res, err)
					}
					cancel()
				}
				before := s.list.Load()
				time.Sleep(time.Hour)
				if n := s.list.Load() - before; n > 2 {
					t.Errorf("with nobody waiting the store was asked %d times", n)
				}
			})
		})
	}
}

// TestAnsweredBetween: an answer that is there before anybody looks is not missed, and
// one to a question that is already an hour old neither.
func TestAnsweredBetween(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		rt := open(t, &agent.Options{Store: s, Model: onceCalling(), Tools: []agent.Tool{double}, Approve: agent.AskAlways})
		a, err := rt.Agent("a", &agent.Config{AskExpiry: 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for i, wait := range []time.Duration{0, time.Millisecond, 499 * time.Millisecond, 500 * time.Millisecond, time.Hour} {
			run, err := a.Start(t.Context(), "go", &agent.RunOptions{ID: fmt.Sprint("r", i)})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(wait)
			synctest.Wait()
			asks, err := s.Asks(t.Context(), store.AskQuery{Run: run.ID()})
			if err != nil || len(asks) != 1 {
				t.Fatalf("Asks: got %v, %v", asks, err)
			}
			if _, err := s.SettleAsk(t.Context(), asks[0].ID, store.Decision{Status: store.AskDeclined}); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			if _, err := run.Wait(t.Context()); err != nil || time.Since(begun) > time.Second {
				t.Errorf("after %v: got %v after %v, want an answer within a second", wait, err, time.Since(begun))
			}
		}
	})
}

// TestObserve: who looks after many runs hears of what changes, also in the runs below.
func TestObserve(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		rt := open(t, &agent.Options{Store: s, Model: onceCalling(), Approve: agent.AskAlways})
		helper, err := rt.Agent("helper", &agent.Config{Tools: []agent.Tool{double}, Description: "Helps."})
		if err != nil {
			t.Fatal(err)
		}
		gate := llmtest.NewGate() // the run asks nobody before it is observed
		model := llmtest.Script(llmtest.Join(llmtest.Hold(gate), call("helper", map[string]string{"prompt": "go"})), llmtest.Say("all done"))
		lead, err := rt.Agent("lead", &agent.Config{Model: model, Tools: []agent.Tool{helper.AsTool("helper", "Helps.")}, Approve: agent.NeverAsk})
		if err != nil {
			t.Fatal(err)
		}
		run, err := lead.Start(t.Context(), "go", nil)
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var seen []agent.Standing
		if !run.Observe(func(s agent.Standing) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, s)
		}) {
			t.Fatal("Observe: got false for a run of this runtime")
		}
		gate.Open()
		time.Sleep(time.Minute)
		asks, err := s.Asks(t.Context(), store.AskQuery{Status: store.AskPending})
		if err != nil || len(asks) != 1 {
			t.Fatalf("Asks: got %v, %v", asks, err)
		}
		if _, err := s.SettleAsk(t.Context(), asks[0].ID, store.Decision{Status: store.AskAccepted}); err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if got, want := fmt.Sprint(seen), "[{false   false} {true   false} {false   false} {false   true}]"; got != want {
			t.Errorf("Observe: got %s, want %s", got, want)
		}
		again, err := rt.Agent("lead2", nil)
		if err != nil {
			t.Fatal(err)
		}
		other := open(t, &agent.Options{Store: s, Model: onceCalling()})
		found, err := other.Agent("lead2", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := again.Run(t.Context(), "go", &agent.RunOptions{ID: "x"}); err != nil {
			t.Fatal(err)
		}
		if run, err := found.Start(t.Context(), "go", &agent.RunOptions{ID: "x"}); err != nil || run.Observe(func(agent.Standing) {}) {
			t.Errorf("Observe of another runtime's run: got true, %v", err)
		}
	})
}
