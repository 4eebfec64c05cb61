package storetest

import (
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// testSchedules: a firing is one caller's, and is left out while the last job runs.
func testSchedules(t *testing.T, open func(t *testing.T) store.Store) {
	s, ctx := open(t), t.Context()
	at := store.Clock(time.Now()).Add(-time.Minute)
	in := store.Schedule{Name: "s", Cron: "* * * * *", Zone: "UTC", Agent: "a", Prompt: "p", Input: json.RawMessage(`{"x":1}`), Batch: "b",
		MaxAttempts: 2, Timeout: time.Minute, Hook: "https://example.com", Next: at, LastJob: "forged", Last: at}
	put, err := s.PutSchedule(ctx, in)
	want := in
	want.LastJob, want.Last, want.Created, want.Updated = "", time.Time{}, put.Created, put.Updated
	wantErr(t, "PutSchedule", err, nil)
	wantEqual(t, "PutSchedule", put, want)

	var wg sync.WaitGroup
	var mu sync.Mutex
	var fired []store.Job
	for range 16 {
		wg.Go(func() {
			j, err := s.FireSchedule(ctx, "s", at, at.Add(time.Minute))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				fired = append(fired, j)
			} else if !errors.Is(err, store.ErrFenced) {
				t.Errorf("FireSchedule: %v", err)
			}
		})
	}
	wg.Wait()
	if len(fired) != 1 || fired[0].ID == "" || fired[0].Prompt != "p" || fired[0].Schedule != "s" || fired[0].Timeout != time.Minute {
		t.Fatalf("FireSchedule by 16: got %+v, want one job", fired)
	}
	list, err := s.Schedules(ctx)
	if err != nil || len(list) != 1 || list[0].LastJob != fired[0].ID || !list[0].Last.Equal(at) || !list[0].Next.Equal(at.Add(time.Minute)) {
		t.Errorf("Schedules: got %+v, %v", list, err)
	}
	at = at.Add(time.Minute)
	j, err := s.FireSchedule(ctx, "s", at, at.Add(time.Minute))
	if err != nil || j.ID != "" {
		t.Errorf("FireSchedule while the last job has not ended: got %+v, %v, want none", j, err)
	}
	if _, err := s.CancelJob(ctx, fired[0].ID); err != nil {
		t.Fatal(err)
	}
	at = at.Add(time.Minute)
	if j, err := s.FireSchedule(ctx, "s", at, time.Time{}); err != nil || j.ID == "" {
		t.Errorf("FireSchedule after it has ended: got %+v, %v, want a job", j, err)
	}
	_, err = s.FireSchedule(ctx, "s", time.Now(), time.Time{})
	wantErr(t, "FireSchedule of one that does not fire any more", err, store.ErrFenced)
	in.Paused = true
	_, err = s.PutSchedule(ctx, in)
	wantErr(t, "PutSchedule, paused", err, nil)
	_, err = s.FireSchedule(ctx, "s", in.Next, time.Time{})
	wantErr(t, "FireSchedule of a paused one", err, store.ErrFenced)
	_, err = s.FireSchedule(ctx, "other", at, at.Add(1))
	wantErr(t, "FireSchedule that does not go on", err, store.ErrInvalid)
	_, err = s.FireSchedule(ctx, "other", at, at.Add(time.Second))
	wantErr(t, "FireSchedule of an unknown one", err, store.ErrNotFound)
	wantErr(t, "DeleteSchedule", s.DeleteSchedule(ctx, "s"), nil)
	wantErr(t, "DeleteSchedule again", s.DeleteSchedule(ctx, "s"), store.ErrNotFound)
}

// testScheduleNext: to put a schedule again neither undoes a firing nor moves it.
func testScheduleNext(t *testing.T, open func(t *testing.T) store.Store) {
	s, ctx := open(t), t.Context()
	first := store.Clock(time.Now())
	second, third := first.Add(time.Minute), first.Add(time.Hour)
	in := store.Schedule{Name: "s", Cron: "* * * * *", Agent: "a", Prompt: "p", Next: first}
	put := func(what string, in store.Schedule, want time.Time) {
		t.Helper()
		got, err := s.PutSchedule(ctx, in)
		wantErr(t, "PutSchedule "+what, err, nil)
		if !got.Next.Equal(want) {
			t.Errorf("PutSchedule %s: got %v as the next time, want %v", what, got.Next, want)
		}
	}
	put("of a new one", in, first)
	_, err := s.FireSchedule(ctx, "s", first, second)
	wantErr(t, "FireSchedule", err, nil)
	put("with the time that has fired", in, second)
	_, err = s.FireSchedule(ctx, "s", first, second)
	wantErr(t, "FireSchedule for that time again", err, store.ErrFenced)
	in.Next, in.Prompt = third, "q"
	put("with another prompt", in, second)
	in.Cron = "0 * * * *"
	put("with another cron expression", in, third)
	in.Next, in.Zone = first, "Europe/Berlin"
	put("with another zone", in, first)
	in.Paused = true
	put("paused", in, first)
	in.Paused, in.Next = false, third
	put("that was paused", in, third)
	_, err = s.FireSchedule(ctx, "s", third, time.Time{})
	wantErr(t, "FireSchedule for the last time", err, nil)
	put("that does not fire any more", in, third)
}
