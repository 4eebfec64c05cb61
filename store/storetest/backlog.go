package storetest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// testBacklog: what waits is counted, and dated by what has waited the longest.
func testBacklog(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := open(t), t.Context()
		backlog := func() store.Backlog {
			b, err := s.Backlog(ctx)
			wantErr(t, "Backlog", err, nil)
			return b
		}
		wantEqual(t, "Backlog of an empty store", backlog(), store.Backlog{Asks: map[string]int{}, Succeeded: map[string]time.Time{}})

		first := store.Clock(time.Now())
		for i, a := range []store.Ask{{ID: "settled", Kind: "tool"}, {ID: "expired", Kind: "form", Expires: first.Add(time.Minute)},
			{ID: "a", Kind: "tool"}, {ID: "b", Kind: "tool"}, {ID: "c", Kind: "form", Expires: first.Add(time.Hour)}} {
			wantErr(t, "OpenAsk", s.OpenAsk(ctx, a), nil)
			if i == 1 {
				time.Sleep(time.Minute)
			}
		}
		_, err := s.SettleAsk(ctx, "settled", store.Decision{Status: store.AskAccepted})
		wantErr(t, "SettleAsk", err, nil)

		start := store.Clock(time.Now())
		addJob(t, s, store.Job{ID: "later", NotBefore: start.Add(time.Hour)})
		addJob(t, s, store.Job{ID: "soon", NotBefore: start.Add(time.Second)})
		time.Sleep(time.Second)
		addJob(t, s, store.Job{ID: "parked", Agent: "a"})
		addJob(t, s, store.Job{ID: "waits", Agent: "a"})
		list, err := s.ClaimJobs(ctx, "w", 3, time.Minute, []string{"a"})
		if err != nil || len(list) < 2 {
			t.Fatalf("ClaimJobs: got %d, %v", len(list), err)
		}
		for _, j := range list {
			u := updateOf(j, store.JobWaiting)
			if u.Release = j.ID == "parked"; j.ID == "soon" {
				u.State, u.Release = store.JobQueued, true
			}
			_, err := s.UpdateJob(ctx, u)
			wantErr(t, "UpdateJob", err, nil)
		}
		wantEqual(t, "the oldest job while none is due", backlog().OldestJob, time.Time{})
		again := store.Clock(time.Now()).Add(time.Second) // a released job rests
		time.Sleep(time.Minute)
		addJob(t, s, store.Job{ID: "young"})
		b := backlog()
		wantEqual(t, "asks", b.Asks, map[string]int{"tool": 2, "form": 1})
		wantEqual(t, "the oldest ask", b.OldestAsk, first.Add(time.Minute))
		wantEqual(t, "parked", b.Parked, 1)
		wantEqual(t, "the oldest job", b.OldestJob, again)

		for _, name := range []string{"never", "done"} {
			_, err := s.PutSchedule(ctx, store.Schedule{Name: name, Cron: "c", Agent: "z", Prompt: "p", Next: start, Overlap: true})
			wantErr(t, "PutSchedule", err, nil)
		}
		var done time.Time
		at := start
		for _, end := range []store.JobState{store.JobDone, store.JobDone, store.JobFailed} {
			next := at.Add(time.Minute)
			_, err := s.FireSchedule(ctx, "done", at, next)
			wantErr(t, "FireSchedule", err, nil)
			at = next
			time.Sleep(time.Minute)
			list, err := s.ClaimJobs(ctx, "w", 1, time.Minute, []string{"z"})
			if err != nil || len(list) != 1 {
				t.Fatalf("ClaimJobs: got %d, %v", len(list), err)
			}
			time.Sleep(time.Second)
			j, err := s.UpdateJob(ctx, updateOf(list[0], end))
			wantErr(t, "UpdateJob", err, nil)
			if end == store.JobDone {
				done = j.Updated
			}
		}
		wantEqual(t, "the last successes", backlog().Succeeded, map[string]time.Time{"never": {}, "done": done})
	})
}
