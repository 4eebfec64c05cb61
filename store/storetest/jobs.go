package storetest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// addJob queues a job of agent "a".
func addJob(t *testing.T, s store.Store, j store.Job) store.Job {
	t.Helper()
	if j.Agent == "" {
		j.Agent = "a"
	}
	out, err := s.AddJob(t.Context(), j)
	if err != nil {
		t.Fatalf("AddJob(%q): %v", j.ID, err)
	}
	return out
}

// claimJobs claims up to n jobs of agent "a" and returns their IDs, too.
func claimJobs(t *testing.T, s store.Store, owner string, n int) ([]store.Job, []string) {
	t.Helper()
	list, err := s.ClaimJobs(t.Context(), owner, n, time.Minute, []string{"a"})
	if err != nil {
		t.Fatalf("ClaimJobs by %q: %v", owner, err)
	}
	return list, jobIDs(list)
}

func jobIDs(list []store.Job) []string {
	ids := make([]string, len(list))
	for i, j := range list {
		ids[i] = j.ID
	}
	return ids
}

func updateOf(j store.Job, state store.JobState) store.JobUpdate {
	return store.JobUpdate{JobLease: store.JobLease{ID: j.ID, Epoch: j.Epoch}, Owner: j.Owner, State: state}
}

// testJob follows a job through its life.
func testJob(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := open(t), t.Context()
		now := store.Clock(time.Now())
		in := store.Job{ID: "j", Agent: "a", Key: "k", Batch: "b", Prompt: "p", Input: json.RawMessage(`{"a": 1}`), MaxAttempts: 2,
			Expires: now.Add(time.Hour), Timeout: time.Minute, Hook: "https://example.com/h", Schedule: "s",
			State: store.JobDone, Attempts: 7, Run: "forged", Result: json.RawMessage(`1`), Owner: "forged", Epoch: 9, Cancelling: true}
		got := addJob(t, s, in)
		want := in
		want.State, want.Attempts, want.Run, want.Result, want.Owner, want.Cancelling = store.JobQueued, 0, "", nil, "", false
		want.Created, want.Updated, want.Epoch = now, now, got.Epoch
		wantEqual(t, "AddJob", got, want)

		list, _ := claimJobs(t, s, "w", 5)
		if len(list) != 1 {
			t.Fatalf("ClaimJobs: got %+v, want the job", list)
		}
		want.State, want.Attempts, want.Run, want.Owner, want.Epoch, want.Lease = store.JobRunning, 1, "j.1", "w", got.Epoch+1, now.Add(time.Minute)
		wantEqual(t, "ClaimJobs", list[0], want)
		got, err := s.Job(ctx, "j")
		wantErr(t, "Job", err, nil)
		wantEqual(t, "Job that was claimed", got, want)

		u := updateOf(want, store.JobWaiting)
		u.Error = "waits"
		time.Sleep(time.Second)
		got, err = s.UpdateJob(ctx, u)
		want.State, want.Error, want.Updated = store.JobWaiting, "waits", now.Add(time.Second)
		wantErr(t, "UpdateJob", err, nil)
		wantEqual(t, "UpdateJob", got, want)

		u = updateOf(want, store.JobQueued)
		u.Failed, u.NotBefore = true, now.Add(10*time.Second)
		_, err = s.UpdateJob(ctx, u)
		wantErr(t, "UpdateJob to queued", err, nil)
		if _, ids := claimJobs(t, s, "w2", 5); len(ids) != 0 {
			t.Errorf("ClaimJobs before it is due: got %v", ids)
		}
		time.Sleep(9 * time.Second)
		list, _ = claimJobs(t, s, "w2", 5)
		if len(list) != 1 || list[0].Attempts != 2 || list[0].Failures != 1 || list[0].Run != "j.2" || list[0].Epoch != want.Epoch+1 || list[0].Lost {
			t.Fatalf("ClaimJobs again: got %+v", list)
		}
		_, err = s.UpdateJob(ctx, updateOf(want, store.JobDone)) // the first owner's
		wantErr(t, "UpdateJob under an old lease", err, store.ErrFenced)

		u = updateOf(list[0], store.JobDone)
		u.Result = json.RawMessage(`{"text":"done"}`)
		got, err = s.UpdateJob(ctx, u)
		wantErr(t, "UpdateJob to done", err, nil)
		if got.State != store.JobDone || string(got.Result) != `{"text":"done"}` || got.Owner != "" || !got.Lease.IsZero() || got.Error != "" {
			t.Errorf("UpdateJob to done: got %+v", got)
		}
		_, err = s.UpdateJob(ctx, u)
		wantErr(t, "UpdateJob of a job that has ended", err, store.ErrFinished)
		again, err := s.CancelJob(ctx, "j")
		wantErr(t, "CancelJob of a job that has ended", err, store.ErrFinished)
		wantEqual(t, "the job it returns", again, got)
		_, err = s.RetryJob(ctx, "j", true)
		wantErr(t, "RetryJob of a job that is done", err, store.ErrInvalid)

		for what, err := range map[string]error{
			"Job": second(s.Job(ctx, "other")), "CancelJob": second(s.CancelJob(ctx, "other")), "RetryJob": second(s.RetryJob(ctx, "other", true)),
			"UpdateJob": second(s.UpdateJob(ctx, store.JobUpdate{JobLease: store.JobLease{ID: "other"}, Owner: "w"})), "DeleteJob": s.DeleteJob(ctx, "other"),
		} {
			wantErr(t, what+" of an unknown job", err, store.ErrNotFound)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// testJobKeys: the same job twice is one job.
func testJobKeys(t *testing.T, open func(t *testing.T) store.Store) {
	s, ctx := open(t), t.Context()
	first := addJob(t, s, store.Job{ID: "j", Key: "k", Prompt: "p", Input: json.RawMessage(`{"a":1,"b":2}`)})
	tests := []struct {
		what string
		in   store.Job
		want error
	}{
		{"the same key and input", store.Job{Agent: "a", Key: "k", Prompt: "p", Input: json.RawMessage(`{"b":2, "a":1}`)}, store.ErrRepeated},
		{"the same key, another prompt", store.Job{Agent: "a", Key: "k", Prompt: "q"}, store.ErrExists},
		{"the same key, another agent", store.Job{Agent: "b", Key: "k", Prompt: "p", Input: first.Input}, store.ErrExists},
		{"the same ID", store.Job{ID: "j", Agent: "a", Prompt: "p", Input: first.Input}, store.ErrRepeated},
		{"the same ID, another prompt", store.Job{ID: "j", Agent: "a", Key: "k2", Prompt: "q"}, store.ErrExists},
	}
	for _, tt := range tests {
		got, err := s.AddJob(ctx, tt.in)
		wantErr(t, "AddJob: "+tt.what, err, tt.want)
		wantEqual(t, "AddJob: "+tt.what, got, first)
	}
	a, b := addJob(t, s, store.Job{}), addJob(t, s, store.Job{})
	if a.ID == "" || a.ID == b.ID {
		t.Errorf("AddJob without ID and key: got %q and %q, want two", a.ID, b.ID)
	}
	wantErr(t, "DeleteJob", s.DeleteJob(ctx, "j"), nil)
	again := addJob(t, s, store.Job{ID: "j", Key: "k", Prompt: "other"})
	if again.Epoch < first.Epoch {
		t.Errorf("epoch of a job that takes the place of another: got %d, want at least %d", again.Epoch, first.Epoch)
	}
	// Many that come at once with one key add one job.
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids := map[string]int{}
	for range 16 {
		wg.Go(func() {
			j, err := s.AddJob(ctx, store.Job{Agent: "a", Key: "race"})
			if err != nil && !errors.Is(err, store.ErrRepeated) {
				t.Errorf("AddJob: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			ids[j.ID]++
		})
	}
	wg.Wait()
	if len(ids) != 1 {
		t.Errorf("AddJob 16 times with one key: got %v, want one job", ids)
	}
}

// testJobOrder: the longest due first, of the agents that are asked for.
func testJobOrder(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		now := time.Now()
		for _, j := range []store.Job{{ID: "2"}, {ID: "1"}, {ID: "later", NotBefore: now.Add(time.Minute)}, {ID: "b1", Agent: "b"},
			{ID: "3"}, {ID: "past", NotBefore: now.Add(-time.Hour)}, {ID: "b2", Agent: "b"}} {
			addJob(t, s, j)
		}
		time.Sleep(time.Second)
		addJob(t, s, store.Job{ID: "4"})
		_, got := claimJobs(t, s, "w", 2)
		_, more := claimJobs(t, s, "w", 10)
		if got = append(got, more...); !slices.Equal(got, []string{"2", "1", "3", "past", "4"}) {
			t.Errorf("ClaimJobs: got %v, want those of agent a in the order they were added", got)
		}
		time.Sleep(time.Minute)
		list, err := s.ClaimJobs(t.Context(), "w2", 3, time.Minute, []string{"b", "a", "a", "none"})
		ids := []string{}
		for _, j := range list {
			ids = append(ids, j.ID+fmt.Sprint(j.Lost))
		}
		if err != nil || !slices.Equal(ids, []string{"b1false", "b2false", "laterfalse"}) && len(ids) != 3 {
			t.Errorf("ClaimJobs of two agents: got %v, %v", ids, err)
		}
		none, err := s.ClaimJobs(t.Context(), "w", 5, time.Minute, nil)
		if err != nil || len(none) != 0 {
			t.Errorf("ClaimJobs of no agent: got %v, %v", none, err)
		}
	})
}

// testJobRace: many workers, and each job goes to one of them.
func testJobRace(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	const jobs = 200
	for i := range jobs {
		addJob(t, s, store.Job{ID: fmt.Sprint("j", i)})
	}
	var mu sync.Mutex
	owners := map[string]string{}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			owner := fmt.Sprint("w", w)
			for {
				list, err := s.ClaimJobs(t.Context(), owner, 7, ttl, []string{"a"})
				if err != nil {
					t.Errorf("ClaimJobs: %v", err)
					return
				}
				mu.Lock()
				for _, j := range list {
					if other := owners[j.ID]; other != "" {
						t.Errorf("job %q was given to %s and %s", j.ID, other, owner)
					}
					owners[j.ID] = owner
				}
				all := len(owners) == jobs
				mu.Unlock()
				if all {
					return
				}
			}
		})
	}
	wg.Wait()
	counts, err := s.JobCounts(t.Context())
	if err != nil || counts[store.JobRunning] != jobs || len(counts) != len(store.JobStates()) {
		t.Errorf("JobCounts: got %v, %v", counts, err)
	}
}

func testJobCancel(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := open(t), t.Context()
		for _, id := range []string{"queued", "running", "waiting"} {
			addJob(t, s, store.Job{ID: id, NotBefore: time.Now().Add(map[string]time.Duration{"queued": time.Hour}[id])})
		}
		list, _ := claimJobs(t, s, "w", 5)
		u := updateOf(list[1], store.JobWaiting)
		u.Release = true
		_, err := s.UpdateJob(ctx, u)
		wantErr(t, "UpdateJob", err, nil)
		for id, state := range map[string]store.JobState{"queued": store.JobCancelled, "running": store.JobRunning, "waiting": store.JobWaiting} {
			j, err := s.CancelJob(ctx, id)
			if err != nil || j.State != state || j.Cancelling == state.Ended() {
				t.Errorf("CancelJob(%q): got %+v, %v, want %s", id, j, err, state)
			}
		}
		found, err := s.Jobs(ctx, store.JobQuery{Owner: "w", Cancelling: true})
		if err != nil || len(found) != 1 || found[0].ID != "running" {
			t.Errorf("Jobs of w that are to be cancelled: got %+v, %v", found, err)
		}
		// One that waits without a lease is given to a worker that cancels it.
		time.Sleep(time.Second)
		lost, ids := claimJobs(t, s, "w2", 5)
		if !slices.Equal(ids, []string{"waiting"}) || !lost[0].Lost || !lost[0].Cancelling {
			t.Errorf("ClaimJobs: got %+v, want the one that waited", lost)
		}
		got, err := s.UpdateJob(ctx, updateOf(list[0], store.JobCancelled))
		if err != nil || got.Cancelling || got.State != store.JobCancelled {
			t.Errorf("UpdateJob to cancelled: got %+v, %v", got, err)
		}
		for _, state := range []store.JobState{store.JobFailed, store.JobCancelled, store.JobLimited, store.JobUnknown} {
			id := addJob(t, s, store.Job{}).ID
			list, _ := claimJobs(t, s, "w", 1)
			u := updateOf(list[0], state)
			u.Failed, u.Error, u.Result = true, "why", json.RawMessage(`1`)
			_, err := s.UpdateJob(ctx, u)
			wantErr(t, "UpdateJob", err, nil)
			got, err := s.RetryJob(ctx, id, true)
			if err != nil || got.State != store.JobQueued || got.Failures != 0 || got.Attempts != 1 || got.Error != "" || got.Result != nil {
				t.Errorf("RetryJob of one that is %s: got %+v, %v", state, got, err)
			}
			if again, _ := claimJobs(t, s, "w", 1); len(again) != 1 || again[0].Run != again[0].RunID(2) {
				t.Errorf("ClaimJobs after RetryJob: got %+v", again)
			}
		}
	})
}

// A job that goes back to the queue while its cancellation is requested is cancelled then:
// it might not be due for long.
func testJobCancelledMeanwhile(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := open(t), t.Context()
		addJob(t, s, store.Job{ID: "j"})
		list, _ := claimJobs(t, s, "w", 1)
		_, err := s.CancelJob(ctx, "j")
		wantErr(t, "CancelJob", err, nil)
		u := updateOf(list[0], store.JobQueued)
		u.NotBefore = time.Now().Add(time.Hour)
		got, err := s.UpdateJob(ctx, u)
		if err != nil || got.State != store.JobCancelled || got.Cancelling || got.Owner != "" {
			t.Errorf("UpdateJob to queued of one that is to be cancelled: got %+v, %v, want it cancelled", got, err)
		}
		if list, ids := claimJobs(t, s, "w", 1); len(list) != 0 {
			t.Errorf("ClaimJobs: got %q, want none", ids)
		}
	})
}

// The end of a job with a hook is told by exactly one, however it has ended, and can be
// found until a caller claims its notification.
func testJobUntold(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := open(t), t.Context()
		for _, id := range []string{"cancelled", "done", "failed", "retried", "running"} {
			addJob(t, s, store.Job{ID: id, Hook: "https://example.com/"})
			time.Sleep(time.Second)
		}
		addJob(t, s, store.Job{ID: "silent"})
		_, err := s.CancelJob(ctx, "cancelled")
		wantErr(t, "CancelJob", err, nil)
		list, _ := claimJobs(t, s, "w", 9)
		for _, j := range list {
			state := map[string]store.JobState{"done": store.JobDone, "failed": store.JobFailed, "retried": store.JobFailed, "silent": store.JobDone}[j.ID]
			_, err := s.UpdateJob(ctx, updateOf(j, cmp.Or(state, store.JobRunning)))
			wantErr(t, "UpdateJob", err, nil)
		}
		_, err = s.RetryJob(ctx, "retried", true)
		wantErr(t, "RetryJob", err, nil)
		record := func(key string) *store.Record {
			return &store.Record{Kind: "k", Owner: "o", Key: key, Value: json.RawMessage(`1`), Expires: time.Now().Add(time.Hour)}
		}
		broken := *record("x")
		broken.Kind = ""
		wantErr(t, "ClaimNotification with a record that is none", s.ClaimNotification(ctx, "done", 1, &broken), store.ErrInvalid)
		for _, want := range [][]string{{"failed", "done", "cancelled"}, {}} {
			found, err := s.Jobs(ctx, store.JobQuery{Untold: true})
			if err != nil || !slices.Equal(jobIDs(found), want) {
				t.Errorf("Jobs that are untold: got %q, %v, want %q", jobIDs(found), err, want)
			}
			for _, j := range found {
				wantErr(t, "ClaimNotification of another epoch", s.ClaimNotification(ctx, j.ID, j.Epoch+1, record(j.ID)), store.ErrFenced)
				wantErr(t, "ClaimNotification", s.ClaimNotification(ctx, j.ID, j.Epoch, record(j.ID)), nil)
				wantErr(t, "ClaimNotification again", s.ClaimNotification(ctx, j.ID, j.Epoch, record("late")), store.ErrFenced)
			}
		}
		kept, err := s.Records(ctx, store.RecordQuery{Kind: "k", Owner: "o"})
		if err != nil || len(kept) != 3 {
			t.Errorf("Records: got %v, %v, want those of the three that were told", kept, err)
		}
		wantErr(t, "ClaimNotification of one without a hook", s.ClaimNotification(ctx, "silent", 1, nil), store.ErrFenced)
		wantErr(t, "ClaimNotification of none", s.ClaimNotification(ctx, "none", 1, nil), store.ErrNotFound)
	})
}

func testJobQueries(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		long := strings.Repeat("ü", store.BriefPrompt+1)
		for i := range 9 {
			if i%2 == 0 {
				time.Sleep(time.Second)
			}
			addJob(t, s, store.Job{ID: fmt.Sprint("j", i), Agent: fmt.Sprint("a", i%2), Batch: []string{"", "x", "_"}[i%3], Prompt: long, Input: json.RawMessage(`1`)})
		}
		if _, err := s.ClaimJobs(t.Context(), "w", 2, ttl, []string{"a1"}); err != nil {
			t.Fatal(err)
		}
		tests := []struct {
			q    store.JobQuery
			want []string
		}{
			{store.JobQuery{}, []string{"j8", "j7", "j6", "j5", "j4", "j3", "j2", "j1", "j0"}},
			{store.JobQuery{Beginning: "j7"}, []string{"j7"}},
			{store.JobQuery{Beginning: "j", Agent: "a1"}, []string{"j7", "j5", "j3", "j1"}},
			{store.JobQuery{Beginning: "%"}, nil}, // SECA-55: not a pattern
			{store.JobQuery{Beginning: "J"}, nil},
			{store.JobQuery{Agent: "a0"}, []string{"j8", "j6", "j4", "j2", "j0"}},
			{store.JobQuery{Batch: "x"}, []string{"j7", "j4", "j1"}},
			{store.JobQuery{Batch: "_"}, []string{"j8", "j5", "j2"}}, // SECA-55: not a pattern
			{store.JobQuery{States: []store.JobState{store.JobRunning}}, []string{"j3", "j1"}},
			{store.JobQuery{States: []store.JobState{store.JobQueued, store.JobRunning}, Agent: "a1"}, []string{"j7", "j5", "j3", "j1"}},
			{store.JobQuery{Owner: "w"}, []string{"j3", "j1"}},
			{store.JobQuery{Owner: "w", Cancelling: true}, nil},
			{store.JobQuery{Schedule: "s"}, nil},
		}
		for _, tt := range tests {
			for _, limit := range []int{0, 2} {
				got := []string{}
				q := tt.q
				q.Limit, q.Brief = limit, limit == 2
				for {
					page, err := s.Jobs(t.Context(), q)
					if err != nil {
						t.Fatalf("Jobs(%+v): %v", q, err)
					}
					if len(page) == 0 {
						break
					}
					for _, j := range page {
						got = append(got, j.ID)
						brief := j.Prompt == long[:2*store.BriefPrompt] && j.Input == nil
						if whole := j.Prompt == long && j.Input != nil; brief != q.Brief || whole == q.Brief {
							t.Errorf("Jobs(%+v): got %+v", q, j)
						}
					}
					q.After = page[len(page)-1].Cursor()
				}
				if !slices.Equal(got, tt.want) && len(got)+len(tt.want) > 0 {
					t.Errorf("Jobs(%+v) by %d: got %v, want %v", tt.q, limit, got, tt.want)
				}
			}
		}
	})
}

// testJobStates: jobs in all states are listed by each set of states, and counted.
func testJobStates(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx, states := open(t), t.Context(), store.JobStates()
		of := make(map[string]store.JobState) // by job
		var waits store.JobUpdate             // of one that waits
		for i, state := range states {
			for n := range i%3 + 1 {
				time.Sleep(time.Second)
				id := fmt.Sprint(state, n)
				addJob(t, s, store.Job{ID: id})
				if of[id] = state; state == store.JobQueued {
					if _, err := s.CancelJob(ctx, id); err != nil {
						t.Fatal(err)
					}
					continue // queued again once no other is claimed
				}
				list, _ := claimJobs(t, s, "w", 1)
				u := updateOf(list[0], state)
				if state == store.JobRunning {
					u.Release = true
					_, err := s.UpdateJob(ctx, u)
					wantErr(t, "UpdateJob that releases one that is running", err, store.ErrInvalid)
					u.Release = false
				} else if state == store.JobWaiting {
					waits = u
				}
				_, err := s.UpdateJob(ctx, u)
				wantErr(t, "UpdateJob", err, nil)
			}
		}
		for id, state := range of {
			if state == store.JobQueued {
				if _, err := s.RetryJob(ctx, id, true); err != nil {
					t.Fatal(err)
				}
			}
		}
		waits.Release = true
		_, err := s.UpdateJob(ctx, waits)
		wantErr(t, "UpdateJob that releases one that waits", err, nil)
		all, err := s.Jobs(ctx, store.JobQuery{})
		if err != nil || len(all) != len(of) {
			t.Fatalf("Jobs: got %d, %v, want %d", len(all), err, len(of))
		}
		counts := make(map[store.JobState]int)
		for _, j := range all {
			if counts[j.State]++; j.State != of[j.ID] {
				t.Errorf("job %q is %s", j.ID, j.State)
			}
		}
		got, err := s.JobCounts(ctx)
		wantErr(t, "JobCounts", err, nil)
		wantEqual(t, "JobCounts", got, counts)
		for set := range 1 << len(states) {
			var q store.JobQuery
			for i, state := range states {
				if set>>i&1 == 1 {
					q.States = append(q.States, state)
				}
			}
			want := []string{}
			for _, j := range all {
				if set == 0 || slices.Contains(q.States, j.State) {
					want = append(want, j.ID)
				}
			}
			list, err := s.Jobs(ctx, q)
			wantErr(t, "Jobs", err, nil)
			wantEqual(t, fmt.Sprint("Jobs that are ", q.States), jobIDs(list), want)
			if len(want) > 1 {
				q.After = list[0].Cursor()
				list, err = s.Jobs(ctx, q)
				wantErr(t, "Jobs", err, nil)
				wantEqual(t, fmt.Sprint("the next page of jobs that are ", q.States), jobIDs(list), want[1:])
			}
		}
	})
}

// testJobLimits: what is too large or no name is refused (SECA-55).
func testJobLimits(t *testing.T, open func(t *testing.T) store.Store) {
	s, ctx := open(t), t.Context()
	long := strings.Repeat("x", store.MaxText+1)
	for what, tt := range map[string]struct {
		j    store.Job
		want error
	}{
		"no agent":              {store.Job{}, store.ErrInvalid},
		"an agent with a break": {store.Job{Agent: "a\n"}, store.ErrInvalid},
		"an ID too long":        {store.Job{Agent: "a", ID: strings.Repeat("x", store.MaxJobID+1)}, store.ErrTooLarge},
		"an ID with NUL":        {store.Job{Agent: "a", ID: "\x00"}, store.ErrInvalid},
		"a key too long":        {store.Job{Agent: "a", Key: long}, store.ErrTooLarge},
		"a batch with NUL":      {store.Job{Agent: "a", Batch: "\x00"}, store.ErrInvalid},
		"a prompt too long":     {store.Job{Agent: "a", Prompt: strings.Repeat("x", store.MaxInput+1)}, store.ErrTooLarge},
		"a prompt not UTF-8":    {store.Job{Agent: "a", Prompt: "\xff"}, store.ErrInvalid},
		"an input not JSON":     {store.Job{Agent: "a", Input: json.RawMessage(`{`)}, store.ErrInvalid},
		"an input too large":    {store.Job{Agent: "a", Input: json.RawMessage(`"` + strings.Repeat("x", store.MaxInput) + `"`)}, store.ErrTooLarge},
		"too many attempts":     {store.Job{Agent: "a", MaxAttempts: store.MaxAttempts + 1}, store.ErrInvalid},
		"a negative timeout":    {store.Job{Agent: "a", Timeout: -1}, store.ErrInvalid},
		"a year 20000":          {store.Job{Agent: "a", NotBefore: time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)}, store.ErrInvalid},
	} {
		_, err := s.AddJob(ctx, tt.j)
		wantErr(t, "AddJob with "+what, err, tt.want)
		if tt.j.ID == "" && tt.j.Key == "" && tt.j.NotBefore.IsZero() {
			_, err = s.PutSchedule(ctx, store.Schedule{Name: "n", Cron: "* * * * *", Agent: tt.j.Agent, Prompt: tt.j.Prompt, Input: tt.j.Input, Batch: tt.j.Batch,
				MaxAttempts: tt.j.MaxAttempts, Timeout: tt.j.Timeout})
			wantErr(t, "PutSchedule with "+what, err, tt.want)
		}
	}
	_, err := s.ClaimJobs(ctx, "w", store.MaxClaim+1, ttl, []string{"a"})
	wantErr(t, "ClaimJobs of too many", err, store.ErrInvalid)
	_, err = s.RenewJobs(ctx, "w", ttl, make([]store.JobLease, store.MaxClaim+1))
	wantErr(t, "RenewJobs of too many", err, store.ErrTooLarge)
	for _, name := range hostile {
		in := store.Job{ID: clipID(name), Agent: name, Key: name, Batch: name, Prompt: name, Hook: name, Schedule: name}
		j, err := s.AddJob(ctx, in)
		if err != nil {
			t.Errorf("AddJob(%q): %v", name, err)
			continue
		}
		list, err := s.Jobs(ctx, store.JobQuery{Batch: name, Agent: name, Schedule: name})
		if err != nil || len(list) != 1 || list[0].ID != j.ID || list[0].Key != name {
			t.Errorf("Jobs of %q: got %+v, %v, want one", name, list, err)
		}
		claimed, err := s.ClaimJobs(ctx, name, 5, ttl, []string{name})
		if err != nil || len(claimed) != 1 {
			t.Errorf("ClaimJobs of %q: got %+v, %v, want one", name, claimed, err)
		}
	}
}

// clipID makes a job's ID of a name.
func clipID(name string) string {
	runes := []rune(name)
	return string(runes[:min(len(runes), store.MaxJobID)])
}
