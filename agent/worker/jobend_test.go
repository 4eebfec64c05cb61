package worker_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/store"
)

// ending is a store that is slow about the end of a run, or about the job's updates before it.
type ending struct {
	store.Store
	create   time.Duration // after a run was created, while its job ends
	update   time.Duration // before a job is updated to be running
	answer   time.Duration // after the end of a run is written, before its writer knows
	answers  error         // of that
	withhold bool          // the job's lease is another's by then
	reads    atomic.Int64  // of the job that fail
}

func (s *ending) Job(ctx context.Context, id string) (store.Job, error) {
	if s.reads.Add(-1) >= 0 {
		return store.Job{}, store.ErrBusy
	}
	return s.Store.Job(ctx, id)
}

func (s *ending) Create(ctx context.Context, r store.Run, owner string, ttl time.Duration, events ...store.Event) (store.Run, error) {
	created, err := s.Store.Create(ctx, r, owner, ttl, events...)
	if s.create == 0 || err != nil {
		return created, err
	}
	j, err := s.Store.Job(ctx, "j")
	if err != nil {
		return created, err
	}
	_, err = s.Store.UpdateJob(ctx, store.JobUpdate{JobLease: store.JobLease{ID: j.ID, Epoch: j.Epoch}, Owner: j.Owner, State: store.JobDone, Result: []byte(`{}`)})
	time.Sleep(s.create)
	return created, err
}

func (s *ending) UpdateJob(ctx context.Context, u store.JobUpdate) (store.Job, error) {
	if u.State == store.JobRunning {
		time.Sleep(s.update)
	}
	return s.Store.UpdateJob(ctx, u)
}

func (s *ending) Append(ctx context.Context, a store.Append) (int64, error) {
	if a.Job != nil && s.withhold {
		job := *a.Job
		job.Epoch--
		a.Job = &job
	}
	last, err := s.Store.Append(ctx, a)
	if a.Job == nil || err != nil {
		return last, err
	}
	time.Sleep(s.answer)
	return last, s.answers
}

// TestJobEndsWithItsRun: the job of a run with an answer ends in the transaction that ends the run,
// and its worker reports that once, whatever it learns first: that its lease is over, that an update
// comes too late, that the append seems to have failed, or that the job was not ended.
func TestJobEndsWithItsRun(t *testing.T) {
	all := []worker.EventType{worker.JobStarted, worker.JobWaiting, worker.JobResumed, worker.JobEnded}
	tests := []struct {
		name string
		slow *ending
	}{
		{"at once", &ending{}},
		{"the lease is looked at before", &ending{answer: time.Minute}},
		{"an update comes later", &ending{update: time.Minute}},
		{"an update comes later, and then the outcome", &ending{update: 10 * time.Second, answer: time.Minute}},
		{"the append seems to have failed", &ending{answers: store.ErrCorrupt}},
		{"the job was not ended with it", &ending{withhold: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := tt.slow
				s.Store = memory()
				cfg := &agent.Config{Approve: agent.AskAlways, AskExpiry: time.Hour, Tools: []agent.Tool{counted(false, new(atomic.Int64))}}
				sh := open(t, s, asking(), cfg, &worker.Options{ParkAfter: -1, Lease: 30 * time.Second})
				add(t, s, store.Job{ID: "j"})
				time.Sleep(time.Minute)
				asks, err := s.Asks(t.Context(), store.AskQuery{Status: store.AskPending})
				if err != nil || len(asks) != 1 {
					t.Fatalf("Asks: got %d, %v, want 1", len(asks), err)
				}
				if _, err := s.SettleAsk(t.Context(), asks[0].ID, store.Decision{Status: store.AskAccepted, By: "ada"}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Minute)
				if j := want(t, s, "j", store.JobDone); len(j.Result) == 0 || j.Owner != "" {
					t.Errorf("the job: got %+v", j)
				}
				if got := sh.types("j"); !slices.Equal(got, all) {
					t.Errorf("events: got %v, want %v", got, all)
				}
				if c := sh.worker.Counts(); c.Running+c.Parked != 0 || c.Lost != 0 || c.Ended[store.JobDone] != 1 {
					t.Errorf("Counts: got %+v", c)
				}
			})
		})
	}
}

// TestPlaceOfAJobThatIsCommitted: a job whose outcome is being committed leaves its place to the next
// one, so that the claim of that can share the commit. A store that is slow about it does not get ever
// more of them.
func TestPlaceOfAJobThatIsCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &ending{Store: memory(), answer: time.Minute}
		const places, jobs = 2, 10
		for i := range jobs {
			add(t, s, store.Job{ID: fmt.Sprint("j", i), Prompt: "plain"})
		}
		sh := open(t, s, asking(), nil, &worker.Options{Concurrency: places})
		time.Sleep(30 * time.Second)
		if c := sh.worker.Counts(); c.Running != 2*places || c.Ended[store.JobDone] != 0 {
			t.Errorf("while the store commits: got %d jobs at work and %d ended, want %d and none", c.Running, c.Ended[store.JobDone], 2*places)
		}
		time.Sleep(5 * time.Minute)
		if c := sh.worker.Counts(); c.Running != 0 || c.Ended[store.JobDone] != jobs {
			t.Errorf("at last: got %d jobs at work and %d ended, want none and %d", c.Running, c.Ended[store.JobDone], jobs)
		}
	})
}

// TestJobEndsWhileItsRunBegins: the lease of a job that has ended with its run is found over before the
// job's actor knows that the run has begun. The worker reports the end, once.
func TestJobEndsWhileItsRunBegins(t *testing.T) {
	for name, fails := range map[string]int64{"the job is read": 0, "the store fails once": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &ending{Store: memory(), create: 25 * time.Second}
				s.reads.Store(fails)
				sh := open(t, s, asking(), nil, &worker.Options{Lease: 30 * time.Second})
				add(t, s, store.Job{ID: "j", Prompt: "plain"})
				time.Sleep(5 * time.Minute)
				want(t, s, "j", store.JobDone)
				if got := sh.types("j"); !slices.Equal(got, []worker.EventType{worker.JobStarted, worker.JobEnded}) {
					t.Errorf("events: got %v, want its start and its end", got)
				}
				if c := sh.worker.Counts(); c.Running != 0 || c.Lost != 0 || c.Ended[store.JobDone] != 1 {
					t.Errorf("Counts: got %+v", c)
				}
			})
		})
	}
}
