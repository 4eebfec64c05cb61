package sqlite

import (
	"cmp"
	"context"
	"errors"

	"github.com/troupe-dev/troupe/store"
)

func scanApproval(row scanner) (a store.Approval, err error) {
	err = row.Scan(&a.File, &a.Server, &a.Hash, &a.Shown, &a.By, &a.Trusted, (*micros)(&a.At))
	return a, found(err)
}

// Approve implements [store.Approvals].
func (s *Store) Approve(ctx context.Context, a store.Approval) error {
	if err := a.Check(); err != nil {
		return err
	}
	return s.writer.do(ctx, "recording an approval", weight{events: 1}, func(t *tx) error {
		var others int
		if err := t.row("SELECT count(*) FROM approvals WHERE NOT (file = ? AND server = ? AND hash = ?)",
			a.File, a.Server, a.Hash).Scan(&others); err != nil {
			return err
		}
		if others >= store.MaxApprovals {
			return &store.LimitError{Field: "approvals", Size: others + 1, Max: store.MaxApprovals}
		}
		at := a.At
		if at.IsZero() {
			at = t.now
		}
		return t.exec("INSERT OR REPLACE INTO approvals (file, server, hash, shown, by, trusted, at) VALUES (?,?,?,?,?,?,?)",
			a.File, a.Server, a.Hash, a.Shown, a.By, a.Trusted, at.UnixMicro())
	})
}

// Approved implements [store.Approvals].
func (s *Store) Approved(ctx context.Context, file, server, hash string) (a store.Approval, ok bool, err error) {
	if err := checkApproval(file, server, hash); err != nil {
		return store.Approval{}, false, err
	}
	err = s.read(ctx, "looking for an approval", func(q reader) error {
		a, err = scanApproval(q.row("SELECT file, server, hash, shown, by, trusted, at FROM approvals WHERE file = ? AND server = ? AND hash = ?",
			file, server, hash))
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return store.Approval{}, false, nil
	}
	return a, err == nil, err
}

// Approvals implements [store.Approvals].
func (s *Store) Approvals(ctx context.Context) ([]store.Approval, error) {
	list := []store.Approval{}
	err := s.read(ctx, "listing approvals", func(q reader) error {
		return q.each("SELECT file, server, hash, shown, by, trusted, at FROM approvals ORDER BY file, server, hash LIMIT ?",
			[]any{store.MaxApprovals}, func(row scanner) (bool, error) {
				a, err := scanApproval(row)
				list = append(list, a)
				return true, err
			})
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Revoke implements [store.Approvals].
func (s *Store) Revoke(ctx context.Context, file, server, hash string) error {
	if err := checkApproval(file, server, hash); err != nil {
		return err
	}
	return s.writer.do(ctx, "revoking an approval", weight{events: 1}, func(t *tx) error {
		met, err := t.changed("DELETE FROM approvals WHERE file = ? AND server = ? AND (? = '' OR hash = ?)", file, server, hash, hash)
		if err == nil && !met {
			return store.ErrNotFound
		}
		return err
	})
}

func checkApproval(file, server, hash string) error {
	return cmp.Or(store.CheckText("file", file), store.CheckText("server", server), store.CheckText("hash", hash))
}
