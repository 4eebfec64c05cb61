package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/store"
)

func fullAsk(id, run string) store.Ask {
	return store.Ask{ID: id, Run: run, Kind: "tool", Server: "files", Origin: "stdio:files", Tool: "write",
		Path: []string{"lead", "helper"}, Trust: "untrusted", Payload: json.RawMessage(`{"path":"a\u0000b"}`), Hash: "h",
		Default: json.RawMessage(`true`)}
}

func testAsk(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	r := create(t, s, "r")
	in := fullAsk("q", "r")
	in.Expires = store.Clock(time.Now().Add(time.Hour))
	in.Decision = store.Decision{Status: store.AskAccepted, By: "forged", Answer: json.RawMessage(`1`)}
	wantErr(t, "OpenAsk", s.OpenAsk(t.Context(), in), nil)
	wantErr(t, "OpenAsk again", s.OpenAsk(t.Context(), in), store.ErrExists)

	want := in
	want.Decision = store.Decision{Status: store.AskPending}
	got, err := s.Ask(t.Context(), "q")
	if err != nil || got.Created.IsZero() {
		t.Fatalf("Ask: got %+v, %v", got, err)
	}
	want.Created = got.Created
	wantEqual(t, "Ask", got, want)

	d := store.Decision{Status: store.AskAccepted, Answer: json.RawMessage(`{"path":"c"}`), Scope: "once", By: "ada"}
	got, err = s.SettleAsk(t.Context(), "q", d)
	if err != nil || got.At.IsZero() {
		t.Fatalf("SettleAsk: got %+v, %v", got, err)
	}
	want.Decision, want.At = d, got.At
	wantEqual(t, "SettleAsk", got, want)
	again, err := s.SettleAsk(t.Context(), "q", store.Decision{Status: store.AskDeclined, By: "bob"})
	wantErr(t, "SettleAsk again", err, store.ErrSettled)
	wantEqual(t, "SettleAsk again", again, want)
	got, err = s.Ask(t.Context(), "q")
	wantErr(t, "Ask", err, nil)
	wantEqual(t, "Ask after SettleAsk", got, want)

	_, err = s.Ask(t.Context(), "other")
	wantErr(t, "unknown Ask", err, store.ErrNotFound)
	_, err = s.SettleAsk(t.Context(), "other", d)
	wantErr(t, "SettleAsk of an unknown ask", err, store.ErrNotFound)
	for _, status := range []store.AskStatus{"", store.AskPending, "maybe"} {
		_, err = s.SettleAsk(t.Context(), "q", store.Decision{Status: status})
		wantErr(t, fmt.Sprintf("SettleAsk with %q", status), err, store.ErrInvalid)
	}
	wantErr(t, "OpenAsk for an unknown run", s.OpenAsk(t.Context(), fullAsk("q2", "other")), store.ErrNotFound)
	if _, err := s.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: store.Unchecked, State: store.Cancelled}); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "OpenAsk for an ended run", s.OpenAsk(t.Context(), fullAsk("q3", "r")), store.ErrFinished)
}

// testAskRace: two approvers, a double click, an approval and a denial (SECA-51).
func testAskRace(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	wantErr(t, "OpenAsk", s.OpenAsk(t.Context(), fullAsk("q", "")), nil)
	var won atomic.Pointer[store.Ask]
	var mu sync.Mutex
	var lost []store.Ask
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			status := store.AskAccepted
			if i%2 == 0 {
				status = store.AskDeclined
			}
			a, err := s.SettleAsk(t.Context(), "q", store.Decision{Status: status, By: fmt.Sprint("human", i)})
			switch {
			case err == nil:
				if !won.CompareAndSwap(nil, &a) {
					t.Errorf("SettleAsk by %d: a second one got nil", i)
				}
			case errors.Is(err, store.ErrSettled):
				mu.Lock()
				lost = append(lost, a)
				mu.Unlock()
			default:
				t.Errorf("SettleAsk by %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if won.Load() == nil || len(lost) != 49 {
		t.Fatalf("50 deciders: got winner %v and %d others, want one and 49", won.Load(), len(lost))
	}
	for _, a := range lost {
		wantEqual(t, "the ask as a loser sees it", a, *won.Load())
	}
}

func testAskExpiry(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		expires := store.Clock(time.Now().Add(time.Minute))
		a := fullAsk("q", "")
		a.Expires = expires
		wantErr(t, "OpenAsk", s.OpenAsk(t.Context(), a), nil)
		wantErr(t, "OpenAsk without expiry", s.OpenAsk(t.Context(), fullAsk("never", "")), nil)
		time.Sleep(time.Minute - time.Microsecond)
		got, err := s.Ask(t.Context(), "q")
		if err != nil || got.Status != store.AskPending {
			t.Errorf("just before its expiry: got %q, %v, want pending", got.Status, err)
		}
		time.Sleep(time.Microsecond)
		want := store.Decision{Status: store.AskExpired, At: expires}
		got, err = s.Ask(t.Context(), "q")
		wantErr(t, "Ask", err, nil)
		wantEqual(t, "decision at its expiry", got.Decision, want)
		got, err = s.SettleAsk(t.Context(), "q", store.Decision{Status: store.AskAccepted}) // SECA-51: approve after expiry
		wantErr(t, "SettleAsk after its expiry", err, store.ErrSettled)
		wantEqual(t, "decision it returns", got.Decision, want)
		for status, id := range map[store.AskStatus]string{store.AskExpired: "q", store.AskPending: "never"} {
			list, err := s.Asks(t.Context(), store.AskQuery{Status: status})
			if err != nil || len(list) != 1 || list[0].ID != id || list[0].Status != status {
				t.Errorf("Asks(%q): got %+v, %v, want %s", status, list, err, id)
			}
		}
		_, err = s.SettleAsk(t.Context(), "never", store.Decision{Status: store.AskExpired})
		wantErr(t, "SettleAsk as expired", err, nil)
	})
}

func testAskQueries(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		create(t, s, "r")
		for i := range 9 {
			if i%2 == 0 {
				time.Sleep(time.Second)
			}
			a := store.Ask{ID: fmt.Sprintf("q%d", i), Kind: "form", Server: fmt.Sprint("s", i%2)}
			if i%3 == 0 {
				a.Run = "r"
			}
			wantErr(t, "OpenAsk", s.OpenAsk(t.Context(), a), nil)
		}
		for i, status := range []store.AskStatus{store.AskAccepted, store.AskDeclined, store.AskCancelled} {
			_, err := s.SettleAsk(t.Context(), fmt.Sprintf("q%d", i), store.Decision{Status: status})
			wantErr(t, "SettleAsk", err, nil)
		}
		tests := []struct {
			q    store.AskQuery
			want []string
		}{
			{store.AskQuery{}, []string{"q8", "q7", "q6", "q5", "q4", "q3", "q2", "q1", "q0"}},
			{store.AskQuery{Status: store.AskPending}, []string{"q8", "q7", "q6", "q5", "q4", "q3"}},
			{store.AskQuery{Status: store.AskDeclined}, []string{"q1"}},
			{store.AskQuery{Status: store.AskExpired}, nil},
			{store.AskQuery{Run: "r"}, []string{"q6", "q3", "q0"}},
			{store.AskQuery{Run: "r", Status: store.AskPending}, []string{"q6", "q3"}},
			{store.AskQuery{Server: "s1"}, []string{"q7", "q5", "q3", "q1"}},
			{store.AskQuery{Server: "s_"}, nil}, // SECA-55: not a pattern
		}
		for _, tt := range tests {
			for _, limit := range []int{0, 2} {
				var got []string
				q := tt.q
				q.Limit = limit
				for {
					page, err := s.Asks(t.Context(), q)
					if err != nil {
						t.Fatalf("Asks(%+v): %v", q, err)
					}
					if len(page) == 0 {
						break
					}
					for _, a := range page {
						got = append(got, a.ID)
					}
					q.After = page[len(page)-1].Cursor()
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("Asks(%+v) by %d: got %v, want %v", tt.q, limit, got, tt.want)
				}
			}
		}
	})
}

// testSettledAsks: who looks again and again finds each ask once.
func testSettledAsks(t *testing.T, open func(t *testing.T) store.Store) {
	s, ctx := open(t), t.Context()
	settle := func(id string) {
		t.Helper()
		wantErr(t, "OpenAsk", s.OpenAsk(ctx, fullAsk(id, "")), nil)
		_, err := s.SettleAsk(ctx, id, store.Decision{Status: store.AskAccepted, By: "ada", At: time.Unix(1, 0)})
		wantErr(t, "SettleAsk", err, nil)
	}
	settle("before")
	list, last, err := s.SettledAsks(ctx, -1, 0)
	if err != nil || len(list) != 0 || last < 0 {
		t.Fatalf("SettledAsks from the end: got %v, %d, %v", list, last, err)
	}
	wantErr(t, "OpenAsk", s.OpenAsk(ctx, fullAsk("pending", "")), nil)
	create(t, s, "r")
	for _, id := range []string{"c", "a", "b"} {
		settle(id)
	}
	var got []string
	for range 5 {
		page, next, err := s.SettledAsks(ctx, last, 2)
		wantErr(t, "SettledAsks", err, nil)
		for _, a := range page {
			got = append(got, a.ID+string(a.Status))
		}
		if len(page) == 0 && next != last {
			t.Errorf("SettledAsks: nothing is new, and the place moved from %d to %d", last, next)
		}
		last = next
	}
	if !slices.Equal(got, []string{"caccepted", "aaccepted", "baccepted"}) {
		t.Errorf("SettledAsks: got %v, want c, a, b", got)
	}
	_, err = s.SettleAsk(ctx, "a", store.Decision{Status: store.AskDeclined})
	wantErr(t, "SettleAsk again", err, store.ErrSettled)
	if list, _, err := s.SettledAsks(ctx, last, 0); err != nil || len(list) != 0 {
		t.Errorf("SettledAsks: got %v, %v, want none", list, err)
	}
}
