package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// vault holds the statements on sealed secrets and the leases on them.
type vault struct{ *database }

const sealedColumns = "kind, key, version, value, updated"

func scanSealed(row scanner) (x store.Sealed, err error) {
	err = row.Scan(&x.Kind, &x.Key, &x.Version, &x.Value, (*micros)(&x.Updated))
	return x, found(err)
}

// PutSealed implements [store.Vault].
func (s *vault) PutSealed(ctx context.Context, x store.Sealed, replaces int64) error {
	if err := x.Check(); err != nil {
		return err
	}
	return s.writer.do(ctx, "keeping a secret", weight{1, len(x.Value)}, func(t *tx) error {
		old, err := scanSealed(t.row("SELECT "+sealedColumns+" FROM vault WHERE kind = ? AND key = ?", x.Kind, x.Key))
		switch {
		case errors.Is(err, store.ErrNotFound):
			if err := t.roomForSecret("vault", "secrets"); err != nil {
				return err
			}
		case err != nil:
			return err
		}
		if old.Version != replaces || x.Version <= old.Version {
			return store.ErrConflict
		}
		return t.exec("INSERT OR REPLACE INTO vault ("+sealedColumns+") VALUES (?,?,?,?,?)", x.Kind, x.Key, x.Version, x.Value, t.now.UnixMicro())
	})
}

// roomForSecret holds a table to the limit before a row is added.
func (t *tx) roomForSecret(table, field string) error {
	var n int
	if err := t.row("SELECT count(*) FROM " + table).Scan(&n); err != nil {
		return err
	}
	if n >= store.MaxSecrets {
		return &store.LimitError{Field: field, Size: n + 1, Max: store.MaxSecrets}
	}
	return nil
}

// Sealed implements [store.Vault].
func (s *vault) Sealed(ctx context.Context, kind, key string) (x store.Sealed, err error) {
	if err := store.CheckSealed(kind, key); err != nil {
		return x, err
	}
	err = s.read(ctx, "reading a secret", func(q reader) error {
		x, err = scanSealed(q.row("SELECT "+sealedColumns+" FROM vault WHERE kind = ? AND key = ?", kind, key))
		return err
	})
	if err != nil {
		return store.Sealed{}, err
	}
	return x, nil
}

// AllSealed implements [store.Vault].
func (s *vault) AllSealed(ctx context.Context, kind, after string, limit int) ([]store.Sealed, error) {
	if err := store.CheckSealedPage(kind, after); err != nil {
		return nil, err
	}
	return list(ctx, s.database, "listing secrets", "SELECT "+sealedColumns+" FROM vault WHERE kind = ? AND key > ? ORDER BY key LIMIT ?",
		[]any{kind, after, store.PageSize(limit)}, scanSealed, func(one store.Sealed) int { return len(one.Value) })
}

// DeleteSealed implements [store.Vault].
func (s *vault) DeleteSealed(ctx context.Context, kind, key string) error {
	if err := store.CheckSealed(kind, key); err != nil {
		return err
	}
	return s.writer.do(ctx, "removing a secret", weight{events: 1}, func(t *tx) error {
		met, err := t.changed("DELETE FROM vault WHERE kind = ? AND key = ?", kind, key)
		if err == nil && !met {
			return store.ErrNotFound
		}
		return err
	})
}

// LeaseSealed implements [store.Vault].
func (s *vault) LeaseSealed(ctx context.Context, kind, key, owner string, ttl time.Duration) error {
	if err := store.CheckSealedLease(kind, key, owner, ttl); err != nil {
		return err
	}
	return s.writer.do(ctx, "leasing a secret", weight{events: 1}, func(t *tx) error {
		now := t.now.UnixMicro()
		if err := t.exec("DELETE FROM vault_leases WHERE until <= ?", now); err != nil {
			return err
		}
		if err := t.roomForSecret("vault_leases", "leases on secrets"); err != nil {
			return err
		}
		met, err := t.changed("INSERT INTO vault_leases (kind, key, owner, until) VALUES (?,?,?,?) ON CONFLICT DO UPDATE SET until = excluded.until WHERE owner = excluded.owner",
			kind, key, owner, t.now.Add(ttl).UnixMicro())
		if err == nil && !met {
			return store.ErrLeased
		}
		return err
	})
}

// ReleaseSealed implements [store.Vault].
func (s *vault) ReleaseSealed(ctx context.Context, kind, key, owner string) error {
	if err := store.CheckSealed(kind, key); err != nil {
		return err
	}
	return s.writer.do(ctx, "releasing a secret", weight{events: 1}, func(t *tx) error {
		return t.exec("DELETE FROM vault_leases WHERE kind = ? AND key = ? AND owner = ?", kind, key, owner)
	})
}
