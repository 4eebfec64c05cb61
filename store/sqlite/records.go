package sqlite

import (
	"context"

	"github.com/troupe-dev/troupe/store"
)

// records holds the statements on values that expire.
type records struct{ *database }

// recordColumns are those of a record, in the order of scanRecord.
const recordColumns = "kind, owner, key, expires, value"

func scanRecord(row scanner) (r store.Record, err error) {
	err = row.Scan(&r.Kind, &r.Owner, &r.Key, (*micros)(&r.Expires), (*body)(&r.Value))
	return r, found(err)
}

// maxSwept bounds how many expired records one write removes.
const maxSwept = 100

// PutRecord implements [store.Records].
func (s *records) PutRecord(ctx context.Context, r store.Record) error {
	if err := r.Check(); err != nil {
		return err
	}
	return s.writer.do(ctx, "keeping a record", weight{1, r.Bytes()}, func(t *tx) error { return t.putRecord(r) })
}

func (t *tx) putRecord(r store.Record) error {
	if err := roomFor(t, r); err != nil {
		return err
	}
	if err := t.exec("DELETE FROM records WHERE rowid IN (SELECT rowid FROM records WHERE expires <= ? LIMIT ?)",
		t.now.UnixMicro(), maxSwept); err != nil {
		return err
	}
	return t.exec("INSERT OR REPLACE INTO records (kind, owner, key, expires, size, value) VALUES (?,?,?,?,?,?)",
		r.Kind, r.Owner, r.Key, r.Expires.UnixMicro(), r.Bytes(), string(r.Value))
}

// roomFor holds a record to the limits. The expired take no room.
func roomFor(t *tx, r store.Record) error {
	now := t.now.UnixMicro()
	var others, owned, bytes int
	if err := t.row("SELECT count(*) FROM records WHERE expires > ?", now).Scan(&others); err != nil {
		return err
	}
	if err := t.row("SELECT count(*), coalesce(sum(size), 0) FROM records WHERE owner = ? AND expires > ? AND NOT (kind = ? AND key = ?)",
		r.Owner, now, r.Kind, r.Key).Scan(&owned, &bytes); err != nil {
		return err
	}
	switch {
	case others >= store.MaxRecords && !exists(t, r):
		return &store.LimitError{Field: "records", Size: others + 1, Max: store.MaxRecords}
	case owned >= store.MaxOwned:
		return &store.LimitError{Field: "records of one owner", Size: owned + 1, Max: store.MaxOwned}
	case bytes+r.Bytes() > store.MaxOwnedBytes:
		return &store.LimitError{Field: "values of one owner", Size: bytes + r.Bytes(), Max: store.MaxOwnedBytes}
	}
	return nil
}

// exists reports whether r would replace a record that has not expired.
func exists(t *tx, r store.Record) bool {
	_, err := scanRecord(t.row("SELECT "+recordColumns+" FROM records WHERE kind = ? AND owner = ? AND key = ? AND expires > ?",
		r.Kind, r.Owner, r.Key, t.now.UnixMicro()))
	return err == nil
}

// Record implements [store.Records].
func (s *records) Record(ctx context.Context, kind, owner, key string) (r store.Record, err error) {
	if err := store.CheckRecord(kind, owner, key); err != nil {
		return r, err
	}
	err = s.read(ctx, "reading a record", func(q reader) error {
		r, err = scanRecord(q.row("SELECT "+recordColumns+" FROM records WHERE kind = ? AND owner = ? AND key = ? AND expires > ?",
			kind, owner, key, s.now().UnixMicro()))
		return err
	})
	if err != nil {
		return store.Record{}, err
	}
	return r, nil
}

// Records implements [store.Records].
func (s *records) Records(ctx context.Context, q store.RecordQuery) ([]store.Record, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	return list(ctx, s.database, "listing records",
		"SELECT "+recordColumns+" FROM records WHERE kind = ? AND owner = ? AND key > ? AND expires > ? ORDER BY key LIMIT ?",
		[]any{q.Kind, q.Owner, q.After, s.now().UnixMicro(), store.PageSize(q.Limit)}, scanRecord, store.Record.Bytes)
}

// DeleteRecord implements [store.Records].
func (s *records) DeleteRecord(ctx context.Context, kind, owner, key string) error {
	if err := store.CheckRecord(kind, owner, key); err != nil {
		return err
	}
	return s.writer.do(ctx, "removing a record", weight{events: 1}, func(t *tx) error {
		met, err := t.changed("DELETE FROM records WHERE kind = ? AND owner = ? AND key = ? AND expires > ?",
			kind, owner, key, t.now.UnixMicro())
		if err == nil && !met {
			return store.ErrNotFound
		}
		return err
	})
}
