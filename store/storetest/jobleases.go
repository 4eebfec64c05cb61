package storetest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// testJobLeases: a job whose lease has expired is another's, and only then.
func testJobLeases(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := open(t), t.Context()
		addJob(t, s, store.Job{ID: "j"})
		addJob(t, s, store.Job{ID: "k"})
		list, _ := claimJobs(t, s, "w1", 5)
		leases := []store.JobLease{{ID: "j", Epoch: list[0].Epoch}, {ID: "k", Epoch: list[1].Epoch}, {ID: "other", Epoch: 1}, {ID: "k", Epoch: 99}}
		time.Sleep(59 * time.Second)
		held, err := s.RenewJobs(ctx, "w1", time.Minute, leases)
		wantErr(t, "RenewJobs", err, nil)
		wantEqual(t, "RenewJobs", held, leases[:2])
		held, err = s.RenewJobs(ctx, "w2", time.Minute, leases)
		wantErr(t, "RenewJobs by another", err, nil)
		wantEqual(t, "RenewJobs by another", held, []store.JobLease{})
		wantErr(t, "DeleteJob of one that is held", s.DeleteJob(ctx, "j"), store.ErrLeased)
		time.Sleep(59 * time.Second)
		if _, ids := claimJobs(t, s, "w2", 5); len(ids) != 0 {
			t.Fatalf("ClaimJobs before the leases expire: got %v", ids)
		}
		time.Sleep(time.Second)
		held, err = s.RenewJobs(ctx, "w1", time.Minute, leases[1:2]) // late, but no other worker claimed it
		wantErr(t, "RenewJobs after the lease", err, nil)
		wantEqual(t, "RenewJobs after the lease", held, leases[1:2])
		lost, _ := claimJobs(t, s, "w2", 5)
		if len(lost) != 1 || lost[0].ID != "j" || !lost[0].Lost || lost[0].State != store.JobRunning || lost[0].Attempts != 1 ||
			lost[0].Run != "j.1" || lost[0].Owner != "w2" || lost[0].Epoch != leases[0].Epoch+1 {
			t.Fatalf("ClaimJobs of a lost one: got %+v", lost)
		}
		held, err = s.RenewJobs(ctx, "w1", time.Minute, leases[:1])
		if err != nil || len(held) != 0 {
			t.Errorf("RenewJobs of what is another's: got %v, %v", held, err)
		}
		_, err = s.UpdateJob(ctx, updateOf(list[0], store.JobDone))
		wantErr(t, "UpdateJob of what is another's", err, store.ErrFenced)
		u := updateOf(lost[0], store.JobWaiting)
		u.Release = true
		_, err = s.UpdateJob(ctx, u)
		wantErr(t, "UpdateJob with Release", err, nil)
		released, ids := claimJobs(t, s, "w2", 1)
		if !slices.Equal(ids, []string{"j"}) || !released[0].Lost || released[0].State != store.JobWaiting || released[0].Run != "j.1" {
			t.Fatalf("ClaimJobs of one that waits without a lease: got %+v", released)
		}
		u = updateOf(released[0], store.JobWaiting)
		u.Release = true
		_, err = s.UpdateJob(ctx, u)
		wantErr(t, "UpdateJob with Release", err, nil)
		got, err := s.RetryJob(ctx, "j", true)
		if err != nil || got.State != store.JobQueued || got.Attempts != 1 {
			t.Errorf("RetryJob of one that waits alone: got %+v, %v", got, err)
		}
		time.Sleep(time.Hour)
		if _, ids := claimJobs(t, s, "w3", 5); !slices.Equal(ids, []string{"k", "j"}) {
			t.Errorf("ClaimJobs: got %v, want the lost k and the queued j", ids)
		}
	})
}

// testJobWaits: a job that waits for questions without a worker is given out once one of them is
// decided, by itself or with events, has expired, or had been decided before; and once the job is
// cancelled.
func testJobWaits(t *testing.T, open func(t *testing.T) store.Store) {
	decide := store.Decision{Status: store.AskAccepted, By: "ada"}
	for _, tt := range []struct {
		name   string
		before bool // it is decided before the job waits
		wake   func(t *testing.T, s store.Store, run store.Run)
	}{
		{"decided before", true, nil},
		{"decided", false, func(t *testing.T, s store.Store, _ store.Run) {
			_, err := s.SettleAsk(t.Context(), "b", decide)
			wantErr(t, "SettleAsk", err, nil)
		}},
		{"decided with events", false, func(t *testing.T, s store.Store, run store.Run) {
			_, err := s.Append(t.Context(), store.Append{Run: run.ID, Epoch: run.Epoch, After: store.Unchecked, Events: []store.Event{event(store.AskSettled, 1)},
				Settle: []store.Settlement{{Ask: "b", Decision: decide}}})
			wantErr(t, "Append", err, nil)
		}},
		{"expired", false, func(*testing.T, store.Store, store.Run) { time.Sleep(time.Hour) }},
		{"cancelled", false, func(t *testing.T, s store.Store, _ store.Run) {
			_, err := s.CancelJob(t.Context(), "j")
			wantErr(t, "CancelJob", err, nil)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, ctx := open(t), t.Context()
				addJob(t, s, store.Job{ID: "j"})
				list, _ := claimJobs(t, s, "w1", 1)
				run, err := s.Create(ctx, store.Run{ID: "j.1", Agent: "a"}, "w1", 24*time.Hour)
				wantErr(t, "Create", err, nil)
				for _, id := range []string{"a", "b"} {
					wantErr(t, "OpenAsk", s.OpenAsk(ctx, store.Ask{ID: id, Run: "j.1", Kind: "tool", Payload: []byte("{}"), Expires: time.Now().Add(time.Hour)}), nil)
				}
				if tt.before {
					_, err := s.SettleAsk(ctx, "b", decide)
					wantErr(t, "SettleAsk", err, nil)
				}
				u := updateOf(list[0], store.JobWaiting)
				u.Release, u.Waits = true, []string{"a", "b"}
				_, err = s.UpdateJob(ctx, u)
				wantErr(t, "UpdateJob", err, nil)
				if tt.wake != nil {
					time.Sleep(time.Minute)
					if _, ids := claimJobs(t, s, "w2", 5); len(ids) != 0 {
						t.Errorf("ClaimJobs of one that waits: got %v", ids)
					}
					tt.wake(t, s, run)
				}
				if got, ids := claimJobs(t, s, "w2", 5); !slices.Equal(ids, []string{"j"}) || !got[0].Lost || got[0].State != store.JobWaiting {
					t.Errorf("ClaimJobs: got %+v, want the job that waits no more", got)
				}
			})
		})
	}
}

// testJobLeasesOwn: an expired lease is no reason to give its own owner the job a second
// time. The clock has jumped then, and the owner works on the job.
func testJobLeasesOwn(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := open(t), t.Context()
		addJob(t, s, store.Job{ID: "j"})
		list, _ := claimJobs(t, s, "w", 5)
		lease := []store.JobLease{{ID: "j", Epoch: list[0].Epoch}}
		time.Sleep(time.Hour)
		addJob(t, s, store.Job{ID: "k"})
		if _, ids := claimJobs(t, s, "w", 5); !slices.Equal(ids, []string{"k"}) {
			t.Errorf("ClaimJobs by the owner of an expired lease: got %v, want k only", ids)
		}
		held, err := s.RenewJobs(ctx, "w", time.Minute, lease)
		wantErr(t, "RenewJobs", err, nil)
		wantEqual(t, "RenewJobs", held, lease)
		time.Sleep(time.Hour)
		if _, ids := claimJobs(t, s, "w2", 5); !slices.Equal(ids, []string{"j", "k"}) {
			t.Errorf("ClaimJobs by another: got %v, want both", ids)
		}
	})
}

// testJobLosses: lost workers are counted apart from failures, and a human's retry
// forgets both.
func testJobLosses(t *testing.T, open func(t *testing.T) store.Store) {
	s, ctx := open(t), t.Context()
	addJob(t, s, store.Job{ID: "j"})
	for n := 1; n <= 3; n++ {
		list, _ := claimJobs(t, s, "w", 1)
		if len(list) != 1 || list[0].Losses != n-1 {
			t.Fatalf("ClaimJobs: got %+v, want the job with %d losses", list, n-1)
		}
		u := updateOf(list[0], store.JobQueued)
		u.Lost = true
		got, err := s.UpdateJob(ctx, u)
		if err != nil || got.Losses != n || got.Failures != 0 {
			t.Errorf("UpdateJob with Lost: got %+v, %v, want %d losses and no failure", got, err, n)
		}
		read, err := s.Job(ctx, "j")
		wantErr(t, "Job", err, nil)
		wantEqual(t, "Job", read, got)
	}
	list, _ := claimJobs(t, s, "w", 1)
	_, err := s.UpdateJob(ctx, updateOf(list[0], store.JobFailed))
	wantErr(t, "UpdateJob to failed", err, nil)
	if got, err := s.RetryJob(ctx, "j", true); err != nil || got.Losses != 0 {
		t.Errorf("RetryJob: got %+v, %v, want no losses", got, err)
	}
}
