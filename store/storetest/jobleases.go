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
		time.Sleep(time.Second)
		if left, err := s.ClaimJobs(t.Context(), "w2", 1, time.Minute, []string{"a"}, "j"); err != nil || len(left) != 0 {
			t.Errorf("ClaimJobs except j: got %+v, %v", left, err)
		}
		released, ids := claimJobs(t, s, "w2", 1)
		if !slices.Equal(ids, []string{"j"}) || !released[0].Lost || released[0].State != store.JobWaiting || released[0].Run != "j.1" {
			t.Fatalf("ClaimJobs of one that waits without a lease: got %+v", released)
		}
		u = updateOf(released[0], store.JobWaiting)
		u.Release = true
		_, err = s.UpdateJob(ctx, u)
		wantErr(t, "UpdateJob with Release", err, nil)
		time.Sleep(time.Second)
		released, _ = claimJobs(t, s, "w2", 1)
		u = updateOf(released[0], store.JobWaiting)
		u.Release, u.NotBefore = true, time.Now().Add(24*time.Hour)
		_, err = s.UpdateJob(ctx, u)
		wantErr(t, "UpdateJob with Release and NotBefore", err, nil)
		_, err = s.RetryJob(ctx, "j", true)
		wantErr(t, "RetryJob from the start of one whose run has not ended", err, store.ErrInvalid)
		time.Sleep(time.Hour)
		if _, ids := claimJobs(t, s, "w3", 5); !slices.Equal(ids, []string{"k"}) {
			t.Errorf("ClaimJobs: got %v, want the lost k", ids)
		}
		got, err := s.RetryJob(ctx, "j", false)
		if err != nil || got.State != store.JobWaiting || got.Attempts != 1 || got.From != "" || got.Run != "j.1" {
			t.Errorf("RetryJob of one that waits alone: got %+v, %v", got, err)
		}
		if _, ids := claimJobs(t, s, "w3", 5); !slices.Equal(ids, []string{"j"}) {
			t.Errorf("ClaimJobs: got %v, want j, which waits no longer", ids)
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
			_, err := s.Append(t.Context(), store.Append{Run: run.ID, Owner: "w", Epoch: run.Epoch, After: store.Unchecked, Events: []store.Event{event(store.AskSettled, 1)},
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
				run, err := s.Create(ctx, store.Run{ID: "j.1", Agent: "a"}, "w", 24*time.Hour) // not of the job's tree
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
				if tt.wake == nil {
					time.Sleep(time.Second)
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

// testJobRests: what a worker gives back is given out again after a second at the earliest, whatever wakes it, and
// without more to wait for then.
func testJobRests(t *testing.T, open func(t *testing.T) store.Store) {
	settle := func(t *testing.T, s store.Store) {
		_, err := s.SettleAsk(t.Context(), "q", store.Decision{Status: store.AskAccepted})
		wantErr(t, "SettleAsk", err, nil)
	}
	cancel := func(t *testing.T, s store.Store) {
		_, err := s.CancelJob(t.Context(), "j")
		wantErr(t, "CancelJob", err, nil)
	}
	for _, tt := range []struct {
		name  string
		u     store.JobUpdate
		later time.Duration // NotBefore
		meanwhile,
		after func(*testing.T, store.Store) // within the second, and after an hour of waiting
		want time.Duration // when it is given out, at the earliest; after comes in between
	}{
		{"queued", store.JobUpdate{State: store.JobQueued}, 0, nil, nil, time.Second},
		{"queued for soon", store.JobUpdate{State: store.JobQueued}, 300 * time.Millisecond, nil, nil, time.Second},
		{"queued for later", store.JobUpdate{State: store.JobQueued}, time.Minute, nil, nil, time.Minute},
		{"released", store.JobUpdate{State: store.JobWaiting, Release: true}, 0, nil, nil, time.Second},
		{"released until later", store.JobUpdate{State: store.JobWaiting, Release: true}, time.Minute, nil, nil, time.Minute},
		{"cancelled at once", store.JobUpdate{State: store.JobWaiting, Release: true}, time.Hour, cancel, nil, time.Second},
		{"cancelled", store.JobUpdate{State: store.JobWaiting, Release: true}, 2 * time.Hour, nil, cancel, time.Hour},
		{"answered at once", store.JobUpdate{State: store.JobWaiting, Release: true, Waits: []string{"q"}}, 0, settle, nil, time.Second},
		{"answered", store.JobUpdate{State: store.JobWaiting, Release: true, Waits: []string{"q"}}, 0, nil, settle, time.Hour},
		{"answered before its time", store.JobUpdate{State: store.JobWaiting, Release: true, Waits: []string{"q"}}, 2 * time.Hour, nil, settle, time.Hour},
		{"not answered by its time", store.JobUpdate{State: store.JobWaiting, Release: true, Waits: []string{"q"}}, time.Minute, nil, nil, time.Minute},
		{"a question that has gone", store.JobUpdate{State: store.JobWaiting, Release: true, Waits: []string{"other"}}, time.Minute, nil, nil, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t)
				addJob(t, s, store.Job{ID: "j"})
				wantErr(t, "OpenAsk", s.OpenAsk(t.Context(), store.Ask{ID: "q", Kind: "tool"}), nil)
				list, _ := claimJobs(t, s, "w", 1)
				u := updateOf(list[0], tt.u.State)
				u.Release, u.Waits = tt.u.Release, tt.u.Waits
				if tt.later > 0 {
					u.NotBefore = time.Now().Add(tt.later)
				}
				_, err := s.UpdateJob(t.Context(), u)
				wantErr(t, "UpdateJob", err, nil)
				begun := time.Now()
				time.Sleep(100 * time.Millisecond)
				if tt.meanwhile != nil {
					tt.meanwhile(t, s)
				}
				if tt.after != nil {
					time.Sleep(tt.want - 200*time.Millisecond)
				} else {
					time.Sleep(tt.want - 101*time.Millisecond)
				}
				if _, ids := claimJobs(t, s, "w2", 1); len(ids) > 0 {
					t.Errorf("ClaimJobs after %v: got %v, want none before %v", time.Since(begun), ids, tt.want)
				}
				if tt.after != nil {
					tt.after(t, s)
				}
				time.Sleep(time.Millisecond)
				if _, ids := claimJobs(t, s, "w2", 1); !slices.Equal(ids, []string{"j"}) {
					t.Errorf("ClaimJobs after %v: got %v, want the job", time.Since(begun), ids)
				}
			})
		})
	}
}

// testJobLosses: lost workers are counted apart from failures, and anew once the run has come further between them; a
// human's retry forgets both.
func testJobLosses(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := open(t), t.Context()
		addJob(t, s, store.Job{ID: "j"})
		list, _ := claimJobs(t, s, "w", 1)
		lose := func(progress int64, losses int) {
			t.Helper()
			u := updateOf(list[0], "")
			u.Lost, u.Progress = true, progress
			got, err := s.UpdateJob(ctx, u)
			if err != nil || got.Losses != losses || got.Failures != 0 || got.State != store.JobRunning || got.Owner != "w" {
				t.Errorf("UpdateJob with Lost at %d: got %+v, %v, want %d losses and no failure", progress, got, err, losses)
			}
			read, err := s.Job(ctx, "j")
			wantErr(t, "Job", err, nil)
			wantEqual(t, "Job", read, got)
		}
		lose(0, 1)
		lose(0, 2)
		lose(7, 1)
		lose(7, 2)
		lose(7, 3)
		lose(9, 1)
		lose(0, 2)
		u := updateOf(list[0], store.JobQueued)
		u.Lost = true
		got, err := s.UpdateJob(ctx, u)
		if err != nil || got.Losses != 3 || got.Progress != 9 {
			t.Errorf("UpdateJob with Lost: got %+v, %v", got, err)
		}
		time.Sleep(time.Minute)
		if list, _ = claimJobs(t, s, "w", 1); len(list) != 1 || list[0].Losses != 3 || list[0].Progress != 0 {
			t.Fatalf("ClaimJobs: got %+v, want the losses, and no progress of the next attempt", list)
		}
		lose(0, 4)
		lose(2, 1)
		_, err = s.UpdateJob(ctx, updateOf(list[0], store.JobFailed))
		wantErr(t, "UpdateJob to failed", err, nil)
		if got, err := s.RetryJob(ctx, "j", true); err != nil || got.Losses != 0 {
			t.Errorf("RetryJob: got %+v, %v, want no losses", got, err)
		}
		u.Progress = -1
		_, err = s.UpdateJob(ctx, u)
		wantErr(t, "UpdateJob with a negative Progress", err, store.ErrInvalid)
	})
}

// testJobGoesOn: a job that is tried again goes on from its last run, if there is one, unless it is to begin anew.
func testJobGoesOn(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := open(t), t.Context()
		addJob(t, s, store.Job{ID: "j", From: "forged"})
		attempt := func(from string, begins bool) store.Job {
			t.Helper()
			time.Sleep(time.Minute)
			list, _ := claimJobs(t, s, "w", 1)
			if len(list) != 1 || list[0].From != from {
				t.Fatalf("ClaimJobs: got %+v, want the job, from %q", list, from)
			}
			if begins {
				_, err := s.Create(ctx, store.Run{ID: list[0].Run, Agent: "a", Job: "j", Epoch: list[0].Epoch}, "w", ttl)
				wantErr(t, "Create", err, nil)
			}
			return list[0]
		}
		queue := func(j store.Job, failed bool) {
			t.Helper()
			u := updateOf(j, store.JobQueued)
			u.Failed = failed
			_, err := s.UpdateJob(ctx, u)
			wantErr(t, "UpdateJob", err, nil)
		}
		fail := func(j store.Job, fromStart bool) {
			t.Helper()
			_, err := s.UpdateJob(ctx, updateOf(j, store.JobFailed))
			wantErr(t, "UpdateJob", err, nil)
			got, err := s.RetryJob(ctx, "j", fromStart)
			wantErr(t, "RetryJob", err, nil)
			read, err := s.Job(ctx, "j")
			wantErr(t, "Job", err, nil)
			wantEqual(t, "Job", read, got)
		}
		queue(attempt("", false), true) // 1 was never begun
		queue(attempt("", true), false) // 2 was given back
		queue(attempt("", true), true)
		queue(attempt("j.3", false), true) // 4 was never begun
		fail(attempt("j.3", false), false) // 5 neither
		fail(attempt("j.3", true), false)
		fail(attempt("j.6", true), true)
		attempt("", true)
	})
}
