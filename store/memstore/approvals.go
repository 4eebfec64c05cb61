package memstore

import (
	"cmp"
	"context"
	"time"

	"github.com/troupe-dev/troupe/store"
)

func newApprovals() shelf[store.Approval] {
	return shelf[store.Approval]{
		field: "approvals", most: store.MaxApprovals, rows: map[[3]string]store.Approval{},
		size: func(a *store.Approval) int64 {
			return int64(entryBytes + len(a.File) + len(a.Server) + len(a.Hash) + len(a.Shown) + len(a.By))
		},
		at: func(a *store.Approval) *time.Time { return &a.At },
	}
}

// Approve implements [store.Approvals].
func (s *Store) Approve(ctx context.Context, a store.Approval) error {
	if err := a.Check(); err != nil {
		return err
	}
	return s.do(ctx, func(now time.Time) error {
		return s.approvals.put(s, now, [3]string{a.File, a.Server, a.Hash}, a)
	})
}

// Approved implements [store.Approvals].
func (s *Store) Approved(ctx context.Context, file, server, hash string) (a store.Approval, ok bool, err error) {
	if err := checkApproval(file, server, hash); err != nil {
		return a, false, err
	}
	err = s.do(ctx, func(time.Time) error {
		a, ok = s.approvals.rows[[3]string{file, server, hash}]
		return nil
	})
	return a, ok, err
}

// Approvals implements [store.Approvals].
func (s *Store) Approvals(ctx context.Context) (list []store.Approval, err error) {
	err = s.do(ctx, func(time.Time) error {
		list = s.approvals.all()
		return nil
	})
	return list, err
}

// Revoke implements [store.Approvals].
func (s *Store) Revoke(ctx context.Context, file, server, hash string) error {
	if err := checkApproval(file, server, hash); err != nil {
		return err
	}
	return s.do(ctx, func(time.Time) error { return s.approvals.remove(s, [3]string{file, server, hash}) })
}

func checkApproval(file, server, hash string) error {
	return cmp.Or(store.CheckText("file", file), store.CheckText("server", server), store.CheckText("hash", hash))
}
