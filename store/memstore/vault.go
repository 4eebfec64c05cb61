package memstore

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// vault holds sealed secrets by kind and key, and the leases on them.
type vault struct {
	*memory
	rows   map[[2]string]store.Sealed
	leases map[[2]string]lease
}

type lease struct {
	owner string
	until time.Time
}

func newVault(m *memory) *vault {
	return &vault{memory: m, rows: map[[2]string]store.Sealed{}, leases: map[[2]string]lease{}}
}

func sealedSize(x *store.Sealed) int64 {
	return int64(entryBytes + len(x.Kind) + len(x.Key) + len(x.Value))
}

// PutSealed implements [store.Vault].
func (s *vault) PutSealed(ctx context.Context, x store.Sealed, replaces int64) error {
	if err := x.Check(); err != nil {
		return err
	}
	return s.do(ctx, func(now time.Time) error {
		id := [2]string{x.Kind, x.Key}
		old, ok := s.rows[id]
		size := sealedSize(&x)
		switch {
		case old.Version != replaces || x.Version <= old.Version:
			return store.ErrConflict
		case ok:
			size -= sealedSize(&old)
		case len(s.rows) >= store.MaxSecrets:
			return &store.LimitError{Field: "secrets", Size: len(s.rows) + 1, Max: store.MaxSecrets}
		}
		if err := s.grow(size); err != nil {
			return err
		}
		x.Value, x.Updated = slices.Clone(x.Value), now
		s.rows[id] = x
		return nil
	})
}

// Sealed implements [store.Vault].
func (s *vault) Sealed(ctx context.Context, kind, key string) (x store.Sealed, err error) {
	if err := store.CheckSealed(kind, key); err != nil {
		return x, err
	}
	err = s.do(ctx, func(time.Time) error {
		found, ok := s.rows[[2]string{kind, key}]
		if !ok {
			return store.ErrNotFound
		}
		x = found
		x.Value = slices.Clone(x.Value)
		return nil
	})
	return x, err
}

// AllSealed implements [store.Vault].
func (s *vault) AllSealed(ctx context.Context, kind, after string, limit int) ([]store.Sealed, error) {
	if err := store.CheckSealedPage(kind, after); err != nil {
		return nil, err
	}
	list := []store.Sealed{}
	err := s.do(ctx, func(time.Time) error {
		for id, x := range s.rows {
			if id[0] == kind && id[1] > after {
				list = append(list, x)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b store.Sealed) int { return strings.Compare(a.Key, b.Key) })
	return page(list, limit, func(x store.Sealed) int { return len(x.Value) }, func(x store.Sealed) store.Sealed {
		x.Value = slices.Clone(x.Value)
		return x
	}), nil
}

// DeleteSealed implements [store.Vault].
func (s *vault) DeleteSealed(ctx context.Context, kind, key string) error {
	if err := store.CheckSealed(kind, key); err != nil {
		return err
	}
	return s.do(ctx, func(time.Time) error {
		id := [2]string{kind, key}
		x, ok := s.rows[id]
		if !ok {
			return store.ErrNotFound
		}
		s.used -= sealedSize(&x)
		delete(s.rows, id)
		return nil
	})
}

// LeaseSealed implements [store.Vault].
func (s *vault) LeaseSealed(ctx context.Context, kind, key, owner string, ttl time.Duration) error {
	if err := store.CheckSealedLease(kind, key, owner, ttl); err != nil {
		return err
	}
	return s.do(ctx, func(now time.Time) error {
		id := [2]string{kind, key}
		held, ok := s.leases[id]
		if ok && held.owner != owner && now.Before(held.until) {
			return store.ErrLeased
		}
		if !ok && len(s.leases) >= store.MaxSecrets {
			for id, l := range s.leases {
				if !now.Before(l.until) {
					delete(s.leases, id)
				}
			}
			if len(s.leases) >= store.MaxSecrets {
				return &store.LimitError{Field: "leases on secrets", Size: len(s.leases) + 1, Max: store.MaxSecrets}
			}
		}
		s.leases[id] = lease{owner, now.Add(ttl)}
		return nil
	})
}

// ReleaseSealed implements [store.Vault].
func (s *vault) ReleaseSealed(ctx context.Context, kind, key, owner string) error {
	if err := store.CheckSealed(kind, key); err != nil {
		return err
	}
	return s.do(ctx, func(time.Time) error {
		if id := [2]string{kind, key}; s.leases[id].owner == owner {
			delete(s.leases, id)
		}
		return nil
	})
}
