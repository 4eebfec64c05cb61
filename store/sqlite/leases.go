package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// Claim implements [store.Leases].
func (s *Store) Claim(ctx context.Context, run, owner string, ttl time.Duration) (store.Run, error) {
	if err := checkLease(run, owner, ttl); err != nil {
		return store.Run{}, err
	}
	var r store.Run
	err := s.writer.do(ctx, "claiming a run", weight{events: 1}, func(t *tx) (err error) {
		if r, err = t.writable(run); err != nil {
			return err
		}
		if r.Owner != owner && r.Leased(t.now) {
			return store.ErrLeased
		}
		r.Owner, r.Epoch, r.Expires = owner, r.Epoch+1, t.now.Add(ttl)
		return t.exec("UPDATE runs SET owner = ?, epoch = ?, expires = ? WHERE id = ?",
			r.Owner, r.Epoch, r.Expires.UnixMicro(), run)
	})
	if err != nil && !errors.Is(err, store.ErrLeased) && !errors.Is(err, store.ErrFinished) {
		return store.Run{}, err
	}
	return r, err
}

// Renew implements [store.Leases].
func (s *Store) Renew(ctx context.Context, run, owner string, epoch int64, ttl time.Duration) error {
	if err := checkLease(run, owner, ttl); err != nil {
		return err
	}
	return s.writer.do(ctx, "renewing a lease", weight{events: 1}, func(t *tx) error {
		r, err := t.writable(run)
		if err != nil {
			return err
		}
		if r.Owner != owner || r.Epoch != epoch {
			return store.ErrFenced
		}
		return t.exec("UPDATE runs SET expires = ? WHERE id = ?", t.now.Add(ttl).UnixMicro(), run)
	})
}

// Release implements [store.Leases].
func (s *Store) Release(ctx context.Context, run, owner string, epoch int64) error {
	if err := checkLease(run, owner, time.Second); err != nil {
		return err
	}
	return s.writer.do(ctx, "releasing a lease", weight{events: 1}, func(t *tx) error {
		r, err := t.head(run)
		if err != nil {
			return err
		}
		if r.Epoch != epoch || r.Owner != "" && r.Owner != owner {
			return store.ErrFenced
		}
		return t.exec("UPDATE runs SET owner = '', expires = ? WHERE id = ?", time.Time{}.UnixMicro(), run)
	})
}

func checkLease(run, owner string, ttl time.Duration) error {
	if err := store.CheckID("run", run); err != nil {
		return err
	}
	return store.CheckLease(owner, ttl)
}
