package worker_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// taking is a model that takes as long as the prompt says.
func taking() llm.Model {
	return llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
		d, err := time.ParseDuration(req.Messages[0].Content.Text())
		if err != nil {
			return llmtest.Fail(err)
		}
		return llmtest.Join(llmtest.Slow(d), llmtest.Say("done"))
	}))
}

// TestBusyWorkerLooks: a worker whose jobs end more often than it polls sees at the next poll
// that another process has cancelled a job, and that a schedule is due.
func TestBusyWorkerLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory()
		if _, err := worker.PutSchedule(t.Context(), s, store.Schedule{Name: "s", Cron: "* * * * *", Agent: "a", Prompt: "1ms"}); err != nil {
			t.Fatal(err)
		}
		add(t, s, store.Job{ID: "long", Prompt: "1h"})
		for i := range 2000 {
			add(t, s, store.Job{ID: fmt.Sprint("short", i), Prompt: "100ms"})
		}
		open(t, s, taking(), nil, &worker.Options{Concurrency: 2, Poll: time.Second})
		time.Sleep(5 * time.Second)
		if _, err := s.CancelJob(t.Context(), "long"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		want(t, s, "long", store.JobCancelled)
		time.Sleep(time.Minute)
		if list, err := s.Jobs(t.Context(), store.JobQuery{Schedule: "s"}); err != nil || len(list) != 1 {
			t.Errorf("the schedule: got %d jobs, %v, want 1", len(list), err)
		}
		want(t, s, "short1999", store.JobQueued)
	})
}
