package worker_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// torn is a store whose first update of a job takes until a test lets it fail, and whose
// first look at a run fails meanwhile.
type torn struct {
	store.Store
	once sync.Once
	fail chan struct{}
	blip atomic.Bool
}

func (s *torn) UpdateJob(ctx context.Context, u store.JobUpdate) (store.Job, error) {
	var err error
	s.once.Do(func() {
		<-s.fail
		err = store.ErrBusy
	})
	if err != nil {
		return store.Job{}, err
	}
	return s.Store.UpdateJob(ctx, u)
}

func (s *torn) Run(ctx context.Context, id string) (store.Run, error) {
	if s.blip.CompareAndSwap(true, false) {
		return store.Run{}, store.ErrBusy
	}
	return s.Store.Run(ctx, id)
}

// TestStoreFailsTwice: a write and a look that fail at the same time are both done again.
func TestStoreFailsTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &torn{Store: memory(), fail: make(chan struct{})}
		s.blip.Store(true)
		var effects atomic.Int64
		model := llmtest.Script(llmtest.Call("count", nil), llmtest.Fail(errDown), llmtest.Say("ok"))
		sh := open(t, s, model, &agent.Config{Approve: agent.AskAlways, Tools: []agent.Tool{counted(true, &effects)}}, nil)
		add(t, s, store.Job{ID: "j"})
		sh.worker.Wake()
		synctest.Wait()
		asks, err := s.Asks(t.Context(), store.AskQuery{Run: "j.1"})
		if err != nil || len(asks) != 1 {
			t.Fatalf("Asks: got %v, %v", asks, err)
		}
		if _, err := s.SettleAsk(t.Context(), asks[0].ID, store.Decision{Status: store.AskAccepted, By: "ada"}); err != nil {
			t.Fatal(err)
		}
		sh.worker.Wake()
		synctest.Wait() // its run has failed, and what it has done could not be looked at
		if effects.Load() != 1 || s.blip.Load() {
			t.Fatalf("before: got %d effects, looked at: %v", effects.Load(), !s.blip.Load())
		}
		close(s.fail)
		time.Sleep(time.Minute)
		synctest.Wait()
		want(t, s, "j", store.JobDone)
	})
}

// TestGivenBackUnbegun: an attempt that was given back before its run began leaves no run.
func TestGivenBackUnbegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory()
		add(t, s, store.Job{ID: "j"})
		list, err := s.ClaimJobs(t.Context(), "x", 1, time.Minute, []string{"a"})
		if err != nil || len(list) != 1 {
			t.Fatalf("ClaimJobs: got %v, %v", list, err)
		}
		u := store.JobUpdate{JobLease: store.JobLease{ID: "j", Epoch: list[0].Epoch}, Owner: "x", State: store.JobQueued}
		if _, err := s.UpdateJob(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		open(t, s, llmtest.Loop(llmtest.Say("ok")), nil, nil)
		time.Sleep(time.Second)
		synctest.Wait()
		want(t, s, "j", store.JobDone)
		if r, err := s.Run(t.Context(), "j.1"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the run that was not begun: got %+v, %v, want ErrNotFound", r, err)
		}
	})
}
