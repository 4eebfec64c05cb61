package agent_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// diesLater is a process that ends some appends after it was told to.
type diesLater struct {
	killed
	told atomic.Bool
	left atomic.Int64
}

func (d *diesLater) Append(ctx context.Context, a store.Append) (int64, error) {
	last, err := d.killed.Append(ctx, a)
	if d.told.Load() && d.left.Add(-1) == 0 {
		d.dead.Store(true)
		return 0, store.ErrFenced
	}
	return last, err
}

// TestEndTree: a run with sub-agents that was cancelled, and whose process ends before the end is written, ends as cancelled
// when it is resumed, and all runs below with it: also one that does not know of the cancel. Their questions are
// withdrawn.
func TestEndTree(t *testing.T) {
	decided := 0
	for n, whole := int64(1), false; !whole; n++ {
		bubble(t, func(t *testing.T) {
			s := memory()
			var made atomic.Int64
			write := func(key string) {
				if key == "2" {
					made.Add(1)
				}
			}
			d := &diesLater{killed: killed{Store: s}}
			d.left.Store(n)
			_, top := lead(t, d, write, agent.AskUnknown)
			run, err := top.Start(t.Context(), "go", &agent.RunOptions{ID: "r1"})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			d.told.Store(true)
			run.Cancel(errTest)
			_, _ = run.Wait(t.Context())
			if whole = !d.dead.Load(); whole {
				return
			}
			if types := typesOf(t, s, "r1"); !slices.Contains(types, runlog.RunEndingType) {
				return
			}
			decided++
			time.Sleep(2 * time.Minute)
			rt, _ := lead(t, s, write, agent.AskUnknown)
			again, err := rt.Resume(t.Context(), "r1", nil)
			if err != nil {
				t.Fatalf("died after append %d: Resume: %v", n, err)
			}
			_, err = again.Wait(t.Context())
			var cancelled *agent.CancelledError
			if past, ok := errors.AsType[*agent.RunError](err); !errors.As(err, &cancelled) && !(ok && past.State == store.Cancelled) {
				t.Errorf("died after append %d: got %v, want it cancelled", n, err)
			}
			runs, err := s.Runs(t.Context(), store.Query{})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range runs {
				if !r.State.Ended() {
					t.Errorf("died after append %d: the run %s is %s: %v", n, r.ID, r.State, typesOf(t, s, r.ID))
				}
			}
			if asks, err := s.Asks(t.Context(), store.AskQuery{Status: store.AskPending}); err != nil || len(asks) > 0 || made.Load() > 0 {
				t.Errorf("died after append %d: %d questions are open, %v, %d calls were made", n, len(asks), err, made.Load())
			}
		})
	}
	if decided == 0 {
		t.Error("no process ended while the end waited")
	}
}

func typesOf(t *testing.T, s store.Journal, run string) (types []string) {
	t.Helper()
	for ev, err := range store.Replay(t.Context(), s, run, 0) {
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, ev.Type)
	}
	return types
}
