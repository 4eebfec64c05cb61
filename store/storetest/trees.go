package storetest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// below makes a run that another one has started, by the owner of a lease.
func below(t *testing.T, s store.Store, id, parent, owner string, epoch int64) error {
	t.Helper()
	_, err := s.Create(t.Context(), store.Run{ID: id, Parent: parent, Agent: "a", InputHash: "h", Epoch: epoch}, owner, ttl, event("first", 1))
	return err
}

// write appends to a run under a lease.
func write(t *testing.T, s store.Store, run, owner string, epoch int64) error {
	t.Helper()
	_, err := s.Append(t.Context(), store.Append{Run: run, Owner: owner, Epoch: epoch, After: store.Unchecked, State: store.Running, Events: []store.Event{event("e", 1)}})
	if got := writeAfter(t, s, run, owner, epoch); (got == nil) != (err == nil) { // a store may know where the run ends
		t.Errorf("Append to %s: got %v, and %v where the end is known", run, err, got)
	}
	return err
}

func writeAfter(t *testing.T, s store.Store, run, owner string, epoch int64) error {
	t.Helper()
	head, err := s.Run(t.Context(), run)
	wantErr(t, "Run", err, nil)
	_, err = s.Append(t.Context(), store.Append{Run: run, Owner: owner, Epoch: epoch, After: head.Seq, Events: []store.Event{event("e", 2)}})
	return err
}

// wantLease checks who has the lease of runs, and that all of them say so.
func wantLease(t *testing.T, s store.Store, what, owner string, epoch int64, runs ...string) {
	t.Helper()
	for _, id := range runs {
		if r, err := s.Run(t.Context(), id); err != nil || r.Owner != owner || r.Epoch != epoch || (r.Owner == "") != r.Expires.IsZero() {
			t.Errorf("%s: %s: got %+v, %v, want the owner %q and epoch %d", what, id, r, err, owner, epoch)
		}
	}
}

// testTree: a run, and all that are below it, have one lease.
func testTree(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := open(t), t.Context()
		top := create(t, s, "top")
		wantErr(t, "Create below", below(t, s, "child", "top", "w", top.Epoch), nil)
		wantErr(t, "Create below a child", below(t, s, "grandchild", "child", "w", top.Epoch), nil)
		wantErr(t, "Create below by another", below(t, s, "x", "child", "w2", top.Epoch), store.ErrFenced)
		wantErr(t, "Create below under another epoch", below(t, s, "x", "child", "w", top.Epoch+1), store.ErrFenced)
		wantErr(t, "Create below of what is there", below(t, s, "child", "top", "w2", top.Epoch), store.ErrExists)
		wantErr(t, "Create below a run that is not here", below(t, s, "orphan", "gone", "w2", 0), nil)
		wantLease(t, s, "Create", "w", top.Epoch, "top", "child", "grandchild")
		for id, root := range map[string]string{"top": "top", "child": "top", "grandchild": "top", "orphan": "orphan"} {
			if r, err := s.Run(ctx, id); err != nil || r.Root != root || r.Job != "" {
				t.Errorf("%s: got %+v, %v, want the root %s", id, r, err, root)
			}
		}
		all := []string{"top", "child", "grandchild"}
		for _, id := range all {
			wantErr(t, "Append to "+id, write(t, s, id, "w", top.Epoch), nil)
			wantErr(t, "Append by another to "+id, write(t, s, id, "w2", top.Epoch), store.ErrFenced)
			wantErr(t, "Append under another epoch to "+id, write(t, s, id, "w", top.Epoch+1), store.ErrFenced)
			_, err := s.Claim(ctx, id, "w2", ttl)
			wantErr(t, "Claim by another of "+id, err, store.ErrLeased)
			wantErr(t, "Delete of "+id, s.Delete(ctx, id), store.ErrLeased)
		}
		time.Sleep(ttl - time.Second)
		wantErr(t, "Renew by another", s.Renew(ctx, "grandchild", "w2", top.Epoch, ttl), store.ErrFenced)
		wantErr(t, "Renew", s.Renew(ctx, "grandchild", "w", top.Epoch, ttl), nil)
		time.Sleep(ttl - time.Second)
		free, err := s.Runs(ctx, store.Query{Free: true})
		if err != nil || len(free) != 1 || free[0].ID != "orphan" {
			t.Errorf("Runs that are free: got %+v, %v, want the one without a tree", free, err)
		}
		time.Sleep(time.Second)
		if free, err = s.Runs(ctx, store.Query{Free: true}); err != nil || len(free) != 4 {
			t.Errorf("Runs that are free: got %+v, %v, want all", free, err)
		}
		now, err := s.Claim(ctx, "child", "w2", ttl)
		if err != nil || now.ID != "child" || now.Owner != "w2" || now.Epoch != top.Epoch+1 {
			t.Errorf("Claim: got %+v, %v", now, err)
		}
		wantLease(t, s, "Claim", "w2", now.Epoch, all...)
		for _, id := range all {
			wantErr(t, "Append by the owner of before to "+id, write(t, s, id, "w", top.Epoch), store.ErrFenced)
			wantErr(t, "Append to "+id, write(t, s, id, "w2", now.Epoch), nil)
			if events := replay(t, s, id); events[len(events)-1].Epoch != now.Epoch || events[0].Epoch != top.Epoch {
				t.Errorf("%s: got the events %+v", id, events)
			}
			wantErr(t, "Renew by the owner of before", s.Renew(ctx, id, "w", top.Epoch, ttl), store.ErrFenced)
			wantErr(t, "Release by the owner of before", s.Release(ctx, id, "w", top.Epoch), store.ErrFenced)
		}
		wantErr(t, "Create by the owner of before", below(t, s, "x", "top", "w", top.Epoch), store.ErrFenced)
		wantErr(t, "Release", s.Release(ctx, "grandchild", "w2", now.Epoch), nil)
		wantErr(t, "Release again", s.Release(ctx, "top", "w2", now.Epoch), nil)
		wantLease(t, s, "Release", "", now.Epoch, all...)
		for _, id := range all {
			wantErr(t, "Append after the release to "+id, write(t, s, id, "w2", now.Epoch), store.ErrFenced)
		}
		wantErr(t, "Create below a run that was released", below(t, s, "x", "top", "w2", now.Epoch), store.ErrFenced)
	})
}

// attempt claims a job and begins its run, with one below it.
func attempt(t *testing.T, s store.Store, owner string) (job store.Job, run, child string) {
	t.Helper()
	list, _ := claimJobs(t, s, owner, 1)
	if len(list) != 1 {
		t.Fatalf("ClaimJobs: got %+v, want a job", list)
	}
	job, child = list[0], "sub-"+list[0].Run
	r, err := s.Create(t.Context(), store.Run{ID: job.Run, Agent: "a", Job: job.ID, Epoch: job.Epoch}, owner, ttl, event("first", 1))
	if err != nil || r.Job != job.ID || r.Root != r.ID || r.Owner != owner || r.Epoch != job.Epoch || !r.Expires.Equal(job.Lease) {
		t.Fatalf("Create for a job: got %+v, %v", r, err)
	}
	wantErr(t, "Create below", below(t, s, child, job.Run, owner, job.Epoch), nil)
	if r, err := s.Run(t.Context(), child); err != nil || r.Job != job.ID || r.Root != job.Run {
		t.Errorf("Run of a child: got %+v, %v", r, err)
	}
	return job, job.Run, child
}

// testTreeOfJob: the lease of a job and that of the tree of its newest attempt are one.
func testTreeOfJob(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := open(t), t.Context()
		addJob(t, s, store.Job{ID: "j"})
		list, _ := claimJobs(t, s, "w", 1)
		lease := store.JobLease{ID: "j", Epoch: list[0].Epoch}
		for _, tt := range []struct {
			id, job, owner string
			epoch          int64
		}{
			{"j.1", "j", "w2", lease.Epoch}, {"j.1", "j", "w", lease.Epoch - 1}, {"j.1", "j", "w", lease.Epoch + 1},
			{"j.2", "j", "w", lease.Epoch}, {"other", "j", "w", lease.Epoch}, {"j.1", "k", "w", lease.Epoch},
		} {
			_, err := s.Create(ctx, store.Run{ID: tt.id, Job: tt.job, Epoch: tt.epoch}, tt.owner, ttl)
			wantErr(t, "Create for a job that is not held", err, store.ErrFenced)
		}
		_, err := s.Create(ctx, store.Run{ID: "j.1", Agent: "a", Job: "j", Epoch: lease.Epoch}, "w", ttl)
		wantErr(t, "Create", err, nil)
		_, err = s.Create(ctx, store.Run{ID: "j.1", Agent: "a", Job: "j", Epoch: lease.Epoch - 1}, "w", ttl)
		wantErr(t, "Create again", err, store.ErrExists)
		wantErr(t, "Create below", below(t, s, "sub", "j.1", "w", lease.Epoch), nil)
		wantLease(t, s, "Create", "w", lease.Epoch, "j.1", "sub")

		time.Sleep(59 * time.Second)
		wantErr(t, "Renew", s.Renew(ctx, "sub", "w", lease.Epoch, time.Minute), nil)
		time.Sleep(59 * time.Second)
		if _, ids := claimJobs(t, s, "w2", 1); len(ids) > 0 {
			t.Errorf("ClaimJobs of a job whose run was renewed: got %v", ids)
		}
		if held, err := s.RenewJobs(ctx, "w", time.Minute, []store.JobLease{lease}); err != nil || len(held) != 1 {
			t.Errorf("RenewJobs: got %v, %v", held, err)
		}
		time.Sleep(59 * time.Second)
		_, err = s.Claim(ctx, "sub", "w2", time.Minute)
		wantErr(t, "Claim of a run whose job was renewed", err, store.ErrLeased)
		wantErr(t, "Append", write(t, s, "sub", "w", lease.Epoch), nil)
		wantErr(t, "Append by another", write(t, s, "sub", "w2", lease.Epoch), store.ErrFenced)

		time.Sleep(time.Second)
		lost, _ := claimJobs(t, s, "w2", 1)
		if len(lost) != 1 || !lost[0].Lost || lost[0].Epoch != lease.Epoch+1 {
			t.Fatalf("ClaimJobs: got %+v, want the lost job", lost)
		}
		wantLease(t, s, "ClaimJobs", "w2", lost[0].Epoch, "j.1", "sub")
		for _, id := range []string{"j.1", "sub"} {
			wantErr(t, "Append by the owner of before to "+id, write(t, s, id, "w", lease.Epoch), store.ErrFenced)
			wantErr(t, "Append under the old epoch to "+id, write(t, s, id, "w2", lease.Epoch), store.ErrFenced)
			wantErr(t, "Append to "+id, write(t, s, id, "w2", lost[0].Epoch), nil)
			wantErr(t, "Renew by the owner of before", s.Renew(ctx, id, "w", lease.Epoch, ttl), store.ErrFenced)
			wantErr(t, "Release by the owner of before", s.Release(ctx, id, "w", lease.Epoch), store.ErrFenced)
		}
		wantErr(t, "Create by the owner of before", below(t, s, "x", "j.1", "w", lease.Epoch), store.ErrFenced)

		_, err = s.UpdateJob(ctx, updateOf(lost[0], store.JobCancelled))
		wantErr(t, "UpdateJob", err, nil)
		for _, id := range []string{"j.1", "sub"} {
			wantErr(t, "Append after the end of the job to "+id, write(t, s, id, "w2", lost[0].Epoch), store.ErrFenced)
		}
	})
}

// testTreeClaimed: who claims the run of a job has the job.
func testTreeClaimed(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := open(t), t.Context()
		addJob(t, s, store.Job{ID: "j"})
		job, run, child := attempt(t, s, "w")
		_, err := s.Claim(ctx, run, "ada", ttl)
		wantErr(t, "Claim of a run whose job is held", err, store.ErrLeased)
		u := updateOf(job, store.JobWaiting)
		u.Release, u.NotBefore = true, time.Now().Add(time.Hour)
		_, err = s.UpdateJob(ctx, u)
		wantErr(t, "UpdateJob", err, nil)
		wantLease(t, s, "UpdateJob", "", job.Epoch, run, child)
		r, err := s.Claim(ctx, run, "ada", ttl)
		if err != nil || r.Owner != "ada" || r.Epoch != job.Epoch+1 || r.Job != "j" {
			t.Errorf("Claim: got %+v, %v", r, err)
		}
		if got, err := s.Job(ctx, "j"); err != nil || got.State != store.JobRunning || got.Owner != "ada" || got.Epoch != r.Epoch || got.Attempts != 1 || !got.Lease.Equal(r.Expires) {
			t.Errorf("Job whose run was claimed: got %+v, %v", got, err)
		}
		wantLease(t, s, "Claim", "ada", r.Epoch, run, child)
		time.Sleep(ttl - time.Minute)
		if _, ids := claimJobs(t, s, "w2", 1); len(ids) > 0 {
			t.Errorf("ClaimJobs of a job whose run was claimed: got %v", ids)
		}
		_, err = s.UpdateJob(ctx, updateOf(job, store.JobFailed))
		wantErr(t, "UpdateJob by the worker of before", err, store.ErrFenced)
		wantErr(t, "Append by the worker of before", write(t, s, run, "w", job.Epoch), store.ErrFenced)
		wantErr(t, "Append", write(t, s, child, "ada", r.Epoch), nil)
		time.Sleep(time.Minute)
		if list, _ := claimJobs(t, s, "w2", 1); len(list) != 1 || !list[0].Lost || list[0].Epoch != r.Epoch+1 {
			t.Errorf("ClaimJobs of a job whose run was left: got %+v", list)
		}
	})
}

// testTreeReleased: who releases the run of a job releases the job, until a question of the tree is decided.
func testTreeReleased(t *testing.T, open func(t *testing.T) store.Store) {
	for _, tt := range []struct {
		name   string
		expiry time.Duration // of the question; zero is none
		after  time.Duration // it is decided
		want   time.Duration // when it is given out, at the earliest
	}{
		{"no question", 0, 0, time.Second},
		{"expires", time.Hour, 0, time.Hour},
		{"decided", 24 * time.Hour, time.Hour, time.Hour},
		{"decided at once", 24 * time.Hour, 10 * time.Millisecond, time.Second},
		{"decided before", 24 * time.Hour, -time.Minute, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, ctx := open(t), t.Context()
				addJob(t, s, store.Job{ID: "j"})
				job, run, child := attempt(t, s, "w")
				create(t, s, "elsewhere")
				wantErr(t, "OpenAsk", s.OpenAsk(ctx, store.Ask{ID: "other", Run: "elsewhere", Kind: "tool"}), nil)
				if tt.expiry > 0 {
					wantErr(t, "OpenAsk", s.OpenAsk(ctx, store.Ask{ID: "q", Run: child, Kind: "tool", Expires: time.Now().Add(tt.expiry)}), nil)
				}
				decide := func() {
					_, err := s.SettleAsk(ctx, "q", store.Decision{Status: store.AskAccepted})
					wantErr(t, "SettleAsk", err, nil)
				}
				if tt.after < 0 {
					decide()
				}
				wantErr(t, "Release", s.Release(ctx, child, "w", job.Epoch), nil)
				begun := time.Now()
				if got, err := s.Job(ctx, "j"); err != nil || got.State != store.JobWaiting || got.Owner != "" || !got.Lease.IsZero() {
					t.Errorf("Job whose run was released: got %+v, %v", got, err)
				}
				wantErr(t, "Release again", s.Release(ctx, run, "w", job.Epoch), nil)
				wantErr(t, "Append after the release", write(t, s, run, "w", job.Epoch), store.ErrFenced)
				_, err := s.SettleAsk(ctx, "other", store.Decision{Status: store.AskAccepted})
				wantErr(t, "SettleAsk of another run's", err, nil)
				if tt.after > 0 {
					time.Sleep(tt.after - time.Millisecond)
					if _, ids := claimJobs(t, s, "w2", 1); len(ids) > 0 {
						t.Errorf("ClaimJobs before the decision: got %v", ids)
					}
					decide()
				}
				if tt.after < time.Second {
					time.Sleep(tt.want - time.Since(begun) - time.Microsecond)
					if _, ids := claimJobs(t, s, "w2", 1); len(ids) > 0 {
						t.Errorf("ClaimJobs after %v: got %v, want none before %v", time.Since(begun), ids, tt.want)
					}
					time.Sleep(time.Microsecond)
				}
				if list, _ := claimJobs(t, s, "w2", 1); len(list) != 1 || list[0].Run != run || list[0].Epoch != job.Epoch+1 {
					t.Errorf("ClaimJobs after %v: got %+v, want the job", time.Since(begun), list)
				}
			})
		})
	}
}

// testTreeEnds: with the end of its root a tree has no lease. A job that does not end with it stays its holder's, who ends it.
func testTreeEnds(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := open(t), t.Context()
		finish := func(run, owner string, epoch int64, job *store.JobUpdate) {
			t.Helper()
			a := store.Append{Run: run, Owner: owner, Epoch: epoch, After: 1, State: store.Finished, Events: []store.Event{event(store.RunFinished, 1)}, Job: job}
			for range 2 { // also once more
				last, err := s.Append(ctx, a)
				wantErr(t, "Append that ends "+run, err, nil)
				wantEqual(t, "the last event", last, int64(2))
			}
		}
		r := create(t, s, "r", event("first", 1))
		wantErr(t, "Create below", below(t, s, "sub", "r", "w", r.Epoch), nil)
		wantErr(t, "Create below", below(t, s, "left", "r", "w", r.Epoch), nil)
		finish("sub", "w", r.Epoch, nil)
		wantLease(t, s, "the end of a child", "w", r.Epoch, "r", "left")
		wantLease(t, s, "the end of a child", "", r.Epoch, "sub")
		wantErr(t, "Create below a run that has ended", below(t, s, "x", "sub", "w", r.Epoch), store.ErrFenced)
		wantErr(t, "Release of one that has ended", s.Release(ctx, "sub", "w", r.Epoch), nil)
		wantErr(t, "Append", writeAfter(t, s, "left", "w", r.Epoch), nil)
		finish("r", "w", r.Epoch, nil)
		wantErr(t, "Append below a root that has ended", write(t, s, "left", "w", r.Epoch), store.ErrFenced)

		addJob(t, s, store.Job{ID: "j"})
		job, run, child := attempt(t, s, "w")
		finish(child, "w", job.Epoch, nil)
		if got, err := s.Job(ctx, "j"); err != nil || got.State != store.JobRunning || got.Owner != "w" {
			t.Errorf("Job after the end of a child: got %+v, %v", got, err)
		}
		finish(run, "w", job.Epoch, nil)
		if got, err := s.Job(ctx, "j"); err != nil || got.State != store.JobRunning || got.Owner != "w" || got.Run != run {
			t.Errorf("Job after the end of its run: got %+v, %v", got, err)
		}
		_, err := s.UpdateJob(ctx, updateOf(job, store.JobFailed))
		wantErr(t, "UpdateJob", err, nil)

		addJob(t, s, store.Job{ID: "k"})
		job, run, _ = attempt(t, s, "w")
		u := updateOf(job, store.JobDone)
		finish(run, "w", job.Epoch, &u)
		if got, err := s.Job(ctx, "k"); err != nil || got.State != store.JobDone || got.Owner != "" {
			t.Errorf("Job that has ended with its run: got %+v, %v", got, err)
		}
		wantLease(t, s, "the end of a job", "", job.Epoch, run)
	})
}

// testTreeOfEarlierAttempt: the tree of an attempt that is not the job's newest one any more, or whose job has gone, has a
// lease of its own, which no writer of before has.
func testTreeOfEarlierAttempt(t *testing.T, open func(t *testing.T) store.Store) {
	for name, leave := range map[string]func(t *testing.T, s store.Store, j store.Job){
		"another attempt": func(t *testing.T, s store.Store, j store.Job) {
			_, err := s.UpdateJob(t.Context(), updateOf(j, store.JobQueued))
			wantErr(t, "UpdateJob", err, nil)
			time.Sleep(time.Minute)
			attempt(t, s, "w")
		},
		"ended": func(t *testing.T, s store.Store, j store.Job) {
			_, err := s.UpdateJob(t.Context(), updateOf(j, store.JobFailed))
			wantErr(t, "UpdateJob", err, nil)
		},
		"deleted": func(t *testing.T, s store.Store, j store.Job) {
			_, err := s.UpdateJob(t.Context(), updateOf(j, store.JobFailed))
			wantErr(t, "UpdateJob", err, nil)
			wantErr(t, "DeleteJob", s.DeleteJob(t.Context(), "j"), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, ctx := open(t), t.Context()
				addJob(t, s, store.Job{ID: "j"})
				job, run, child := attempt(t, s, "w")
				for range 3 { // the job's epoch is above that of the run's creation
					time.Sleep(2 * time.Minute)
					list, _ := claimJobs(t, s, job.Owner+"x", 1)
					job = list[0]
				}
				wantErr(t, "Append", write(t, s, child, job.Owner, job.Epoch), nil)
				leave(t, s, job)
				for _, id := range []string{run, child} {
					wantErr(t, "Append under the job's lease to "+id, write(t, s, id, job.Owner, job.Epoch), store.ErrFenced)
				}
				r, err := s.Claim(ctx, child, job.Owner, ttl)
				if err != nil || r.Epoch <= job.Epoch || r.Owner != job.Owner {
					t.Errorf("Claim: got %+v, %v, want an epoch above %d", r, err, job.Epoch)
				}
				wantLease(t, s, "Claim", job.Owner, r.Epoch, run, child)
				wantErr(t, "Append", write(t, s, run, job.Owner, r.Epoch), nil)
				wantErr(t, "Append under the job's lease", write(t, s, run, job.Owner, job.Epoch), store.ErrFenced)
				wantErr(t, "Renew", s.Renew(ctx, run, job.Owner, r.Epoch, ttl), nil)
				wantErr(t, "Release", s.Release(ctx, child, job.Owner, r.Epoch), nil)
				wantLease(t, s, "Release", "", r.Epoch, run, child)
			})
		})
	}
}

// testTreeWithoutRoot: a run whose root was deleted can be claimed, by itself.
func testTreeWithoutRoot(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := open(t), t.Context()
		top := create(t, s, "top")
		wantErr(t, "Create below", below(t, s, "child", "top", "w", top.Epoch), nil)
		wantErr(t, "Append", write(t, s, "child", "w", top.Epoch), nil)
		time.Sleep(2 * ttl)
		wantErr(t, "Delete", s.Delete(ctx, "top"), nil)
		wantErr(t, "Append", write(t, s, "child", "w", top.Epoch), store.ErrFenced)
		r, err := s.Claim(ctx, "child", "w2", ttl)
		if err != nil || r.Owner != "w2" || r.Root != "top" {
			t.Errorf("Claim: got %+v, %v", r, err)
		}
		wantErr(t, "Append", write(t, s, "child", "w2", r.Epoch), nil)
		wantErr(t, "Append by the owner of before", write(t, s, "child", "w", top.Epoch), store.ErrFenced)
		wantErr(t, "Renew", s.Renew(ctx, "child", "w2", r.Epoch, ttl), nil)
		wantErr(t, "Release", s.Release(ctx, "child", "w2", r.Epoch), nil)
		wantLease(t, s, "Release", "", r.Epoch, "child")

		create(t, s, "again") // a run of another tree takes an ID that a writer may know the place of
		time.Sleep(2 * ttl)
		wantErr(t, "Delete", s.Delete(ctx, "again"), nil)
		top = create(t, s, "top2")
		wantErr(t, "Create below", below(t, s, "again", "top2", "w", top.Epoch), nil)
		wantErr(t, "Append", write(t, s, "again", "w", top.Epoch), nil)
	})
}
