package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// Approve implements [store.Approvals].
func (s *Store) Approve(ctx context.Context, a store.Approval) error {
	if err := a.Check(); err != nil {
		return err
	}
	return s.do(ctx, func(now time.Time) error {
		key := approvalKey{a.File, a.Server, a.Hash}
		old, replaces := s.approvals[key]
		if !replaces && len(s.approvals) >= store.MaxApprovals {
			return &store.LimitError{Field: "approvals", Size: len(s.approvals) + 1, Max: store.MaxApprovals}
		}
		n := sizeOfApproval(a)
		if replaces {
			n -= sizeOfApproval(old)
		}
		if err := s.grow(n); err != nil {
			return err
		}
		if a.At.IsZero() {
			a.At = now
		}
		a.At = store.Clock(a.At)
		s.approvals[key] = a
		return nil
	})
}

// Approved implements [store.Approvals].
func (s *Store) Approved(ctx context.Context, file, server, hash string) (a store.Approval, ok bool, err error) {
	if err := checkApproval(file, server, hash); err != nil {
		return a, false, err
	}
	err = s.do(ctx, func(time.Time) error {
		a, ok = s.approvals[approvalKey{file, server, hash}]
		return nil
	})
	return a, ok, err
}

// Approvals implements [store.Approvals].
func (s *Store) Approvals(ctx context.Context) (list []store.Approval, err error) {
	err = s.do(ctx, func(time.Time) error {
		list = slices.AppendSeq(make([]store.Approval, 0, len(s.approvals)), maps.Values(s.approvals))
		return nil
	})
	slices.SortFunc(list, func(a, b store.Approval) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Server, b.Server), cmp.Compare(a.Hash, b.Hash))
	})
	return list, err
}

// Revoke implements [store.Approvals].
func (s *Store) Revoke(ctx context.Context, file, server, hash string) error {
	if err := checkApproval(file, server, hash); err != nil {
		return err
	}
	return s.do(ctx, func(time.Time) error {
		found := false
		for key, a := range s.approvals {
			if key.file == file && key.server == server && (hash == "" || key.hash == hash) {
				found = true
				s.used -= sizeOfApproval(a)
				delete(s.approvals, key)
			}
		}
		if !found {
			return store.ErrNotFound
		}
		return nil
	})
}

func checkApproval(file, server, hash string) error {
	return cmp.Or(store.CheckText("file", file), store.CheckText("server", server), store.CheckText("hash", hash))
}

func sizeOfApproval(a store.Approval) int64 {
	return int64(entryBytes + len(a.File) + len(a.Server) + len(a.Hash) + len(a.Shown) + len(a.By))
}
