package memstore

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// Claim implements [store.Leases].
func (s *Store) Claim(ctx context.Context, id, owner string, ttl time.Duration) (store.Run, error) {
	if err := checkLease(id, owner, ttl); err != nil {
		return store.Run{}, err
	}
	var out store.Run
	err := s.do(ctx, func(now time.Time) error {
		r, err := s.writable(id)
		if r != nil {
			out = r.head
		}
		if err != nil {
			return err
		}
		if r.head.Owner != owner && r.head.Leased(now) {
			return store.ErrLeased
		}
		r.head.Owner, r.head.Expires = owner, now.Add(ttl)
		r.head.Epoch++
		out = r.head
		return nil
	})
	return out, err
}

// Renew implements [store.Leases].
func (s *Store) Renew(ctx context.Context, id, owner string, epoch int64, ttl time.Duration) error {
	if err := checkLease(id, owner, ttl); err != nil {
		return err
	}
	return s.do(ctx, func(now time.Time) error {
		r, err := s.writable(id)
		if err != nil {
			return err
		}
		if r.head.Owner != owner || r.head.Epoch != epoch {
			return store.ErrFenced
		}
		r.head.Expires = now.Add(ttl)
		return nil
	})
}

// Release implements [store.Leases].
func (s *Store) Release(ctx context.Context, id, owner string, epoch int64) error {
	if err := checkLease(id, owner, time.Second); err != nil {
		return err
	}
	return s.do(ctx, func(time.Time) error {
		r, ok := s.runs[id]
		if !ok {
			return store.ErrNotFound
		}
		if r.head.Epoch != epoch || r.head.Owner != "" && r.head.Owner != owner {
			return store.ErrFenced
		}
		r.head.Owner, r.head.Expires = "", time.Time{}
		return nil
	})
}

func checkLease(run, owner string, ttl time.Duration) error {
	if err := store.CheckID("run", run); err != nil {
		return err
	}
	return store.CheckLease(owner, ttl)
}
