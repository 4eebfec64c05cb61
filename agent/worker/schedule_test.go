package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

func TestNext(t *testing.T) {
	tests := []struct{ cron, zone, after, want string }{
		{"*/5 * * * *", "", "2026-03-01T10:02:00Z", "2026-03-01T10:05:00Z"},
		{"*/5 * * * *", "", "2026-03-01T10:05:00Z", "2026-03-01T10:10:00Z"},
		{"*/5 * * * *", "", "2026-03-01T10:05:30.5Z", "2026-03-01T10:10:00Z"},
		{"0 9 * * 1-5", "Europe/Berlin", "2026-01-02T09:00:00Z", "2026-01-05T08:00:00Z"}, // Friday after nine, there
		{"0 9 * * 1-5", "Europe/Berlin", "2026-07-03T06:30:00Z", "2026-07-03T07:00:00Z"}, // summer time
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T00:31:00Z", "2026-10-26T01:30:00Z"},  // comes twice that night, and counts once
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"},  // does not come that night
		{"@daily", "Asia/Kolkata", "2026-01-01T00:00:00Z", "2026-01-01T18:30:00Z"},
		{"0 0 29 2 *", "", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"10 * * * * *", "", "2026-01-01T00:00:10Z", "2026-01-01T00:01:10Z"},
	}
	for _, tt := range tests {
		after, err := time.Parse(time.RFC3339, tt.after)
		if err != nil {
			t.Fatal(err)
		}
		got, err := worker.Next(tt.cron, tt.zone, after)
		if err != nil || got.Format(time.RFC3339) != tt.want {
			t.Errorf("Next(%q, %q, %s): got %v, %v, want %s", tt.cron, tt.zone, tt.after, got, err, tt.want)
		}
	}
	for _, bad := range [][2]string{{"", ""}, {"* * * *", ""}, {"61 * * * *", ""}, {"* * * * *", "Nowhere/Land"}, {"* * * * *", "Local"},
		{"* * * * *", "../../etc/passwd"}, {"0 0 30 2 *", ""}, {"x", ""}, {"0 0 1 1 * 1999", ""}} {
		if next, err := worker.Next(bad[0], bad[1], time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)); err == nil {
			t.Errorf("Next(%q, %q): got %v, want an error", bad[0], bad[1], next)
		}
	}
}

// FuzzNext: an expression comes from a command line or a file. What is taken has a next
// time that is later, and soon found.
func FuzzNext(f *testing.F) {
	for _, seed := range []string{"* * * * *", "@daily", "0 0 29 2 *", "*/0 * * * *", "1-0 * * * *", "L * * * *", "* * L * 5L", "* * W * *", "99999999999 * * * *", "* * * * * * *", "*/-1 * * * *"} {
		f.Add(seed, "Europe/Berlin")
	}
	f.Fuzz(func(t *testing.T, cron, zone string) {
		after := time.Date(2026, 3, 29, 0, 59, 59, 0, time.UTC)
		if next, err := worker.Next(cron, zone, after); err == nil && !next.After(after) {
			t.Errorf("Next(%q, %q): got %v, want a later time", cron, zone, next)
		}
	})
}

// TestSchedules: each firing makes one job, however many workers there are; what was
// missed makes one; what is not done in time makes none.
func TestSchedules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at midnight UTC
		s := memory()
		put := func(in store.Schedule) {
			t.Helper()
			in.Agent, in.Prompt = "a", "go"
			if _, err := worker.PutSchedule(t.Context(), s, in); err != nil {
				t.Fatal(err)
			}
		}
		put(store.Schedule{Name: "five", Cron: "*/5 * * * *"})
		put(store.Schedule{Name: "paused", Cron: "* * * * *", Paused: true})
		if _, err := worker.PutSchedule(t.Context(), s, store.Schedule{Name: "bad", Cron: "nonsense", Agent: "a"}); err == nil {
			t.Error("PutSchedule of nonsense: got no error")
		}
		fired := func(name string) int {
			t.Helper()
			list, err := s.Jobs(t.Context(), store.JobQuery{Schedule: name})
			if err != nil {
				t.Fatal(err)
			}
			return len(list)
		}
		time.Sleep(3*time.Hour + time.Minute) // nobody is there
		var shops []*shop
		for range 3 {
			shops = append(shops, open(t, s, llmtest.Loop(llmtest.Say("ok")), nil, &worker.Options{Poll: 10 * time.Second}))
		}
		time.Sleep(10 * time.Second)
		if n := fired("five"); n != 1 {
			t.Errorf("after three hours without a worker: got %d jobs, want 1", n)
		}
		put(store.Schedule{Name: "five", Cron: "*/5 * * * *"}) // as a program does at each start
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := fired("five"); n != 13 {
			t.Errorf("an hour later: got %d jobs, want 13", n)
		}
		if n := fired("paused"); n != 0 {
			t.Errorf("paused: got %d jobs", n)
		}
		events := 0
		for _, sh := range shops {
			for _, ev := range sh.events {
				if ev.Type == worker.ScheduleFired {
					events++
				}
			}
		}
		if events != 13 {
			t.Errorf("events: got %d, want 13", events)
		}
		counts, err := s.JobCounts(t.Context())
		if err != nil || counts[store.JobDone] != 13 {
			t.Errorf("JobCounts: got %v, %v, want 13 done", counts, err)
		}
		// Jobs that take longer than the time between two firings do not pile up.
		for _, sh := range shops {
			sh.drain()
		}
		open(t, s, llmtest.Loop(llmtest.Slow(12*time.Minute), llmtest.Say("ok")), nil, &worker.Options{Poll: 10 * time.Second})
		time.Sleep(time.Hour)
		if n := fired("five") - 13; n < 3 || n > 6 {
			t.Errorf("with jobs of 12 minutes: got %d more in an hour, want about one each 15 minutes", n)
		}
	})
}

// racing is a queue in which a worker fires a schedule right before each put.
type racing struct {
	store.Store
	t *testing.T
}

func (r racing) PutSchedule(ctx context.Context, in store.Schedule) (store.Schedule, error) {
	list, err := r.Schedules(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, s := range list {
		next, err := worker.Next(s.Cron, s.Zone, time.Now())
		if err != nil {
			r.t.Fatal(err)
		}
		if _, err := r.FireSchedule(ctx, s.Name, s.Next, next); err != nil {
			r.t.Fatal(err)
		}
	}
	return r.Store.PutSchedule(ctx, in)
}

// TestPutScheduleRace: a worker that starts at a full minute puts its schedules while
// another fires them. The firing is not undone.
func TestPutScheduleRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory()
		five := store.Schedule{Name: "five", Cron: "*/5 * * * *", Agent: "a", Prompt: "go", Overlap: true}
		if _, err := worker.PutSchedule(t.Context(), s, five); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		got, err := worker.PutSchedule(t.Context(), racing{s, t}, five)
		if err != nil || !got.Next.Equal(time.Now().Add(5*time.Minute)) {
			t.Errorf("PutSchedule beside a firing: got %v as the next time, %v, want the one after the firing", got.Next, err)
		}
		open(t, s, llmtest.Loop(llmtest.Say("ok")), nil, nil)
		time.Sleep(time.Minute)
		if list, err := s.Jobs(t.Context(), store.JobQuery{Schedule: "five"}); err != nil || len(list) != 1 {
			t.Errorf("jobs of one firing: got %d, %v, want 1", len(list), err)
		}
	})
}
