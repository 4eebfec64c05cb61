package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// TestCloseEndsRuns: a runtime that closes suspends its runs, wherever they are; with CancelRuns it
// cancels them.
func TestCloseEndsRuns(t *testing.T) {
	for mode, want := range map[agent.CloseMode]struct {
		err   error
		state store.RunState
	}{agent.ParkRuns: {agent.ErrSuspended, store.Waiting}, agent.CancelRuns: {agent.ErrClosed, store.Cancelled}} {
		closeEndsRuns(t, mode, want.err, want.state)
	}
}

func closeEndsRuns(t *testing.T, mode agent.CloseMode, want error, state store.RunState) {
	bubble(t, func(t *testing.T) {
		s := memory()
		rt := open(t, &agent.Options{Model: llmtest.Loop(call("hang", nil)), Tools: []agent.Tool{hang}, Store: s, OnClose: mode})
		runs := make([]*agent.Run, 20)
		for i := range runs {
			runs[i] = start(t, rt, fmt.Sprint("r", i))
		}
		synctest.Wait()
		if err := rt.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		for _, run := range runs {
			if _, err := run.Wait(t.Context()); !errors.Is(err, want) {
				t.Errorf("Wait: got %v, want %v", err, want)
			}
			if head, err := s.Run(t.Context(), run.ID()); err != nil || head.State != state || head.Owner != "" && !state.Ended() {
				t.Errorf("in the store: %+v, %v", head, err)
			}
		}
		if _, err := rt.Start(t.Context(), "go", nil); !errors.Is(err, agent.ErrClosed) {
			t.Errorf("Start after Close: got %v, want ErrClosed", err)
		}
	})
}

// TestShutdownNamesWhatHangs: a function that does not heed its context is given up,
// and named.
func TestShutdownNamesWhatHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		deaf := agent.Func("deaf", "", func(context.Context, struct{}) (string, error) { <-release; return "", nil })
		rt, err := agent.Open(t.Context(), &agent.Options{Model: llmtest.Script(call("deaf", nil)), Tools: []agent.Tool{deaf}})
		if err != nil {
			t.Fatal(err)
		}
		run, err := rt.Start(t.Context(), "go", nil)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		began := time.Now()
		err = rt.Close()
		var left *actors.ShutdownError
		if !errors.As(err, &left) || len(left.Tasks) != 1 || !strings.Contains(left.Tasks[0], "run-"+run.ID()) {
			t.Errorf("Close: got %v", err)
		}
		if d := time.Since(began); d != 15*time.Second {
			t.Errorf("Close took %v, want its bound of 15s", d)
		}
		if _, err := run.Wait(t.Context()); !errors.Is(err, agent.ErrClosed) {
			t.Errorf("Wait: got %v", err)
		}
		close(release)
		time.Sleep(time.Second)
	})
}

func TestMaxRuns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := open(t, &agent.Options{Model: llmtest.Loop(llmtest.Slow(time.Hour)), MaxRuns: 2})
		start(t, rt, "a")
		start(t, rt, "b")
		if _, err := rt.Start(t.Context(), "go", nil); !errors.Is(err, agent.ErrTooManyRuns) {
			t.Errorf("the third run: got %v, want ErrTooManyRuns", err)
		}
	})
}

// TestPlaceIsFree: a run's place is free once its outcome is known.
func TestPlaceIsFree(t *testing.T) {
	const n = 32
	rt, err := agent.Open(t.Context(), &agent.Options{Model: llmtest.Loop(llmtest.Say("ok")), MaxRuns: n})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for i := range 50 {
				if _, err := rt.Run(t.Context(), "go"); err != nil {
					t.Errorf("run %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestManyRuns: a thousand runs at once, each with its own outcome, leave nothing.
func TestManyRuns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		model := llmtest.Loop(llmtest.Join(llmtest.Slow(time.Second), llmtest.Say("ok")))
		rt := open(t, &agent.Options{Model: model, Tools: []agent.Tool{double}})
		const n = 1000
		results := make(chan error, n)
		for i := range n {
			run := start(t, rt, fmt.Sprint(i))
			go func() {
				res, err := run.Wait(t.Context())
				if err == nil && (res.Text != "ok" || res.RunID != run.ID()) {
					err = fmt.Errorf("run %s: %+v", run.ID(), res)
				}
				results <- err
			}()
		}
		if live := rt.System().Census().Live(actors.KindRun); live != n {
			t.Errorf("live runs: got %d, want %d", live, n)
		}
		for range n {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if live := rt.System().Census().Live(actors.KindRun); live != 0 {
			t.Errorf("live runs afterwards: %d", live)
		}
		// The runtime's own store forgets the old ones: an ID can be used again.
		time.Sleep(time.Second)
		if again := start(t, rt, "0"); again.ID() != "0" {
			t.Error("no run")
		}
	})
}
