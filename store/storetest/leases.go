package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/store"
)

func testFencing(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		old := create(t, s, "r")
		time.Sleep(2 * ttl)
		now, err := s.Claim(t.Context(), "r", "new", ttl)
		if err != nil || now.Epoch != old.Epoch+1 || now.Owner != "new" {
			t.Fatalf("Claim: got %+v, %v, want epoch %d", now, err, old.Epoch+1)
		}
		write := func(owner string, epoch int64) error {
			_, err := s.Append(t.Context(), store.Append{Run: "r", Owner: owner, Epoch: epoch, After: store.Unchecked, State: store.Waiting, Events: []store.Event{event("e", 1)}})
			return err
		}
		wantErr(t, "Append by the old owner", write("w", old.Epoch), store.ErrFenced)
		wantErr(t, "Append by the old owner under the new epoch", write("w", now.Epoch), store.ErrFenced)
		wantErr(t, "Append from the future", write("new", now.Epoch+1), store.ErrFenced)
		wantErr(t, "Renew by the old owner", s.Renew(t.Context(), "r", "w", old.Epoch, ttl), store.ErrFenced)
		wantErr(t, "Renew with a stolen epoch", s.Renew(t.Context(), "r", "w", now.Epoch, ttl), store.ErrFenced)
		wantErr(t, "Release by the old owner", s.Release(t.Context(), "r", "w", old.Epoch), store.ErrFenced)
		wantErr(t, "Release with a stolen epoch", s.Release(t.Context(), "r", "w", now.Epoch), store.ErrFenced)
		got, err := s.Run(t.Context(), "r")
		wantErr(t, "Run", err, nil)
		wantEqual(t, "Run after what was refused", got, now)
		wantErr(t, "Append by the new owner", write("new", now.Epoch), nil)
		wantEqual(t, "epoch of the event", replay(t, s, "r")[0].Epoch, now.Epoch)

		again, err := s.Claim(t.Context(), "r", "new", ttl)
		if err != nil || again.Epoch != now.Epoch+1 {
			t.Errorf("Claim of one's own lease: got %+v, %v, want epoch %d", again, err, now.Epoch+1)
		}
		wantErr(t, "Append under one's own earlier lease", write("new", now.Epoch), store.ErrFenced)
	})
}

// testDeleteFences: a writer of a deleted run must not reach a new one of its ID.
func testDeleteFences(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		old := create(t, s, "r")
		time.Sleep(2 * ttl)
		wantErr(t, "Delete", s.Delete(t.Context(), "r"), nil)
		now := create(t, s, "r")
		_, err := s.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: old.Epoch, After: store.Unchecked, Events: []store.Event{event("e", 1)}})
		wantErr(t, "Append by the deleted run's owner", err, store.ErrFenced)
		appendTo(t, s, now, event("e", 1))
	})
}

func testLeaseExpiry(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		r, err := s.Create(t.Context(), store.Run{ID: "r"}, "w", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		claim := func() error { _, err := s.Claim(t.Context(), "r", "x", time.Minute); return err }

		time.Sleep(59 * time.Second)
		held, err := s.Claim(t.Context(), "r", "x", time.Minute)
		wantErr(t, "Claim after 59 s of 60", err, store.ErrLeased)
		wantEqual(t, "run of the refused Claim", held, r)
		wantErr(t, "Renew", s.Renew(t.Context(), "r", "w", r.Epoch, time.Minute), nil)
		time.Sleep(59 * time.Second)
		wantErr(t, "Claim after 59 s of the renewed 60", claim(), store.ErrLeased)

		// Expired, but no other owner claimed it: the holder goes on.
		time.Sleep(time.Second)
		appendTo(t, s, r, event("e", 1))
		wantErr(t, "Renew of an expired lease", s.Renew(t.Context(), "r", "w", r.Epoch, time.Minute), nil)
		wantErr(t, "Claim of a renewed lease", claim(), store.ErrLeased)

		time.Sleep(time.Minute)
		wantErr(t, "Claim at expiry", claim(), nil)
		wantErr(t, "Renew after another's Claim", s.Renew(t.Context(), "r", "w", r.Epoch, time.Minute), store.ErrFenced)
	})
}

func testRelease(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	r := create(t, s, "r")
	wantErr(t, "Release", s.Release(t.Context(), "r", "w", r.Epoch), nil)
	wantErr(t, "Release again", s.Release(t.Context(), "r", "w", r.Epoch), nil)
	_, err := s.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: []store.Event{event("e", 1)}})
	wantErr(t, "Append after Release", err, store.ErrFenced)
	wantErr(t, "Renew after Release", s.Renew(t.Context(), "r", "w", r.Epoch, ttl), store.ErrFenced)
	next, err := s.Claim(t.Context(), "r", "x", ttl)
	if err != nil || next.Epoch <= r.Epoch {
		t.Fatalf("Claim after Release: got %+v, %v, want an epoch above %d", next, err, r.Epoch)
	}
	if _, err := s.Append(t.Context(), store.Append{Run: "r", Owner: "x", Epoch: next.Epoch, After: store.Unchecked, State: store.Finished}); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "Release after the end", s.Release(t.Context(), "r", "x", next.Epoch), nil)
	wantErr(t, "Renew after the end", s.Renew(t.Context(), "r", "x", next.Epoch, ttl), store.ErrFinished)
	ended, err := s.Claim(t.Context(), "r", "x", ttl)
	wantErr(t, "Claim after the end", err, store.ErrFinished)
	wantEqual(t, "state of the refused Claim", ended.State, store.Finished)

	_, err = s.Claim(t.Context(), "other", "x", ttl)
	wantErr(t, "Claim of an unknown run", err, store.ErrNotFound)
	wantErr(t, "Renew of an unknown run", s.Renew(t.Context(), "other", "x", 1, ttl), store.ErrNotFound)
	wantErr(t, "Release of an unknown run", s.Release(t.Context(), "other", "x", 1), store.ErrNotFound)
}

func testClaimRace(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	r := create(t, s, "r")
	wantErr(t, "Release", s.Release(t.Context(), "r", "w", r.Epoch), nil)
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			_, err := s.Claim(t.Context(), "r", fmt.Sprint("w", i), ttl)
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, store.ErrLeased) {
				t.Errorf("Claim: got %v, want %v", err, store.ErrLeased)
			}
		})
	}
	wg.Wait()
	if n := won.Load(); n != 1 {
		t.Errorf("16 claims of a free run: got %d winners, want 1", n)
	}
}
