package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/store"
)

func testLargeBodies(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	r := create(t, s, "r")
	for i, n := range []int{3, 4 << 10, 1 << 20, store.MaxBody} {
		body := json.RawMessage(`"` + strings.Repeat(string(rune('a'+i)), n-2) + `"`)
		appendTo(t, s, r, store.Event{Type: "e", Body: body})
		page, err := s.Events(t.Context(), "r", int64(i), 1)
		if err != nil || len(page) != 1 || string(page[0].Body) != string(body) {
			t.Errorf("a body of %d bytes did not come back as it was (error %v)", n, err)
		}
	}
}

// testPageBytes: a page of large bodies is bounded in bytes, and still moves on.
func testPageBytes(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	r := create(t, s, "r")
	body := json.RawMessage(`"` + strings.Repeat("x", 15<<20) + `"`)
	for range 3 {
		appendTo(t, s, r, store.Event{Type: "e", Body: body})
	}
	page, err := s.Events(t.Context(), "r", 0, 0)
	if err != nil || len(page) != 2 {
		t.Errorf("Events of 3 bodies of 15 MiB: got %d, %v, want 2", len(page), err)
	}
	if n := len(replay(t, s, "r")); n != 3 {
		t.Errorf("Replay: got %d events, want 3", n)
	}
	for i := range 3 {
		wantErr(t, "OpenAsk", s.OpenAsk(t.Context(), store.Ask{ID: fmt.Sprint("q", i), Kind: "k", Payload: body}), nil)
	}
	asks, err := s.Asks(t.Context(), store.AskQuery{})
	if err != nil || len(asks) != 2 {
		t.Errorf("Asks of 3 payloads of 15 MiB: got %d, %v, want 2", len(asks), err)
	}
}

func testTimes(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	r := create(t, s, "r")
	zone := time.FixedZone("east", 7200)
	times := []time.Time{
		time.Date(2026, 7, 28, 1, 2, 3, 456789123, zone),
		time.Unix(0, 0),
		time.Unix(0, -1),
		time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC),
		time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC),
	}
	for _, at := range times {
		appendTo(t, s, r, store.Event{Type: "e", Time: at})
	}
	for i, e := range replay(t, s, "r") {
		wantEqual(t, fmt.Sprintf("time %v", times[i]), e.Time, store.Clock(times[i]))
	}
	appendTo(t, s, r, store.Event{Type: "now"})
	page, err := s.Events(t.Context(), "r", int64(len(times)), 1)
	if err != nil || len(page) != 1 || page[0].Time.Before(r.Created) || page[0].Time.Location() != time.UTC {
		t.Errorf("event without a time: got %+v, %v, want the time of the append in UTC", page, err)
	}
}

// testNoAliasing: what a caller does with its bytes afterwards changes nothing.
func testNoAliasing(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	r := create(t, s, "r")
	body := json.RawMessage(`{"a":1}`)
	appendTo(t, s, r, store.Event{Type: "e", Body: body})
	ask := store.Ask{ID: "q", Kind: "k", Payload: body, Path: []string{"a"}}
	wantErr(t, "OpenAsk", s.OpenAsk(t.Context(), ask), nil)
	record := store.Record{Kind: "k", Key: "a", Value: body, Expires: time.Now().Add(ttl)}
	wantErr(t, "PutRecord", s.PutRecord(t.Context(), record), nil)
	copy(body, "garbage")
	ask.Path[0] = "garbage"
	for range 2 { // what was handed out is not shared either
		e := replay(t, s, "r")[0]
		a, err := s.Ask(t.Context(), "q")
		if err != nil || string(e.Body) != `{"a":1}` || string(a.Payload) != `{"a":1}` || a.Path[0] != "a" {
			t.Errorf("got %s, %s, %v, %v, want what was written", e.Body, a.Payload, a.Path, err)
		}
		copy(e.Body, "garbage")
		copy(a.Payload, "garbage")
		a.Path[0] = "garbage"
		rec, err := s.Record(t.Context(), "k", "", "a")
		if err != nil || string(rec.Value) != `{"a":1}` {
			t.Errorf("got %s, %v, want what was written", rec.Value, err)
		}
		copy(rec.Value, "garbage")
	}
}

// calls makes every call of a store once.
func calls(ctx context.Context, s store.Store) map[string]error {
	errs := map[string]error{
		"Delete":  s.Delete(ctx, "r"),
		"Renew":   s.Renew(ctx, "r", "w", 1, ttl),
		"Release": s.Release(ctx, "r", "w", 1),
		"OpenAsk": s.OpenAsk(ctx, store.Ask{ID: "q", Kind: "k"}),
		"Approve": s.Approve(ctx, store.Approval{File: "f", Server: "s", Hash: "h"}),
		"Revoke":  s.Revoke(ctx, "f", "s", "h"),
		"SetPin":  s.SetPin(ctx, store.Pin{Source: "f", Server: "s", Tool: "t", Hash: "h"}),
		"Unpin":   s.Unpin(ctx, "f", "s", "t"),

		"PutRecord":     s.PutRecord(ctx, store.Record{Kind: "k", Key: "a", Expires: time.Now().Add(ttl)}),
		"DeleteRecord":  s.DeleteRecord(ctx, "k", "", "a"),
		"PutSealed":     s.PutSealed(ctx, store.Sealed{Kind: "k", Key: "a", Version: 1, Value: []byte("x")}, 0),
		"DeleteSealed":  s.DeleteSealed(ctx, "k", "a"),
		"LeaseSealed":   s.LeaseSealed(ctx, "k", "a", "w", ttl),
		"ReleaseSealed": s.ReleaseSealed(ctx, "k", "a", "w"),
	}
	_, errs["Sealed"] = s.Sealed(ctx, "k", "a")
	_, errs["AllSealed"] = s.AllSealed(ctx, "k", "", 0)
	_, errs["AddJob"] = s.AddJob(ctx, store.Job{Agent: "a"})
	_, errs["ClaimJobs"] = s.ClaimJobs(ctx, "w", 1, ttl, []string{"a"})
	_, errs["RenewJobs"] = s.RenewJobs(ctx, "w", ttl, []store.JobLease{{ID: "j", Epoch: 1}})
	_, errs["UpdateJob"] = s.UpdateJob(ctx, store.JobUpdate{JobLease: store.JobLease{ID: "j", Epoch: 1}, Owner: "w"})
	_, errs["CancelJob"] = s.CancelJob(ctx, "j")
	_, errs["RetryJob"] = s.RetryJob(ctx, "j", true)
	_, errs["Job"] = s.Job(ctx, "j")
	_, errs["Jobs"] = s.Jobs(ctx, store.JobQuery{})
	_, errs["JobCounts"] = s.JobCounts(ctx)
	_, errs["Backlog"] = s.Backlog(ctx)
	errs["DeleteJob"] = s.DeleteJob(ctx, "j")
	_, errs["PutSchedule"] = s.PutSchedule(ctx, store.Schedule{Name: "s", Cron: "c", Agent: "a"})
	_, errs["Schedules"] = s.Schedules(ctx)
	errs["DeleteSchedule"] = s.DeleteSchedule(ctx, "s")
	_, errs["FireSchedule"] = s.FireSchedule(ctx, "s", time.Unix(1, 0), time.Unix(2, 0))
	_, _, errs["SettledAsks"] = s.SettledAsks(ctx, 0, 0)
	_, errs["Create"] = s.Create(ctx, store.Run{ID: "n"}, "w", ttl)
	_, errs["Append"] = s.Append(ctx, store.Append{Run: "r", Owner: "w", Epoch: 1, After: store.Unchecked, Events: []store.Event{event("e", 1)}})
	_, errs["Events"] = s.Events(ctx, "r", 0, 0)
	_, errs["Run"] = s.Run(ctx, "r")
	_, errs["Runs"] = s.Runs(ctx, store.Query{})
	_, errs["Claim"] = s.Claim(ctx, "r", "w", ttl)
	_, errs["SettleAsk"] = s.SettleAsk(ctx, "q", store.Decision{Status: store.AskAccepted})
	_, errs["Ask"] = s.Ask(ctx, "q")
	_, errs["Asks"] = s.Asks(ctx, store.AskQuery{})
	_, _, errs["Approved"] = s.Approved(ctx, "f", "s", "h")
	_, errs["Approvals"] = s.Approvals(ctx)
	_, _, errs["Pin"] = s.Pin(ctx, "f", "s", "t")
	_, errs["Pins"] = s.Pins(ctx)
	_, errs["Record"] = s.Record(ctx, "k", "", "a")
	_, errs["Records"] = s.Records(ctx, store.RecordQuery{Kind: "k"})
	return errs
}

func testCancelled(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	r := create(t, s, "r")
	cause := errors.New("the user went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for what, err := range calls(ctx, s) {
		wantErr(t, what+" with an ended context", err, cause)
	}
	got, err := s.Run(t.Context(), "r")
	wantErr(t, "Run", err, nil)
	wantEqual(t, "Run after what was cancelled", got, r)
}

func testClosed(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	create(t, s, "r")
	wantErr(t, "Close", s.Close(), nil)
	wantErr(t, "Close again", s.Close(), nil)
	for what, err := range calls(t.Context(), s) {
		wantErr(t, what+" after Close", err, store.ErrClosed)
	}
}

// testCloseRace closes a store that is at work: each call gets its outcome or
// ErrClosed, and none hangs.
func testCloseRace(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	var wg sync.WaitGroup
	started := make(chan struct{}, 8)
	for w := range 8 {
		r := create(t, s, fmt.Sprint("r", w))
		wg.Go(func() {
			for i := 0; ; i++ {
				_, err := s.Append(t.Context(), store.Append{Run: r.ID, Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: []store.Event{event("e", i)}})
				if err == nil {
					_, err = s.Run(t.Context(), r.ID)
				}
				if i == 0 {
					started <- struct{}{}
				}
				if err != nil {
					wantErr(t, "call while closing", err, store.ErrClosed)
					return
				}
			}
		})
	}
	for range 8 {
		<-started
	}
	wantErr(t, "Close", s.Close(), nil)
	wg.Wait()
}
