// decisions.go: decisions of a person, each under a key of three names: approvals and pins.

package sqlite

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// decisions is a table of decisions of one kind. Its statements are made of constants.
type decisions[T any] struct {
	*database
	table string
	most  int
	names [3]string // the columns of a key
	scan  func(scanner) (T, error)

	count, insert, one, list, remove string // statements
}

// newDecisions returns the decisions of a table with these columns, of which the first three
// are the key, and the last is when the decision was made.
func newDecisions[T any](d *database, table string, most int, columns string, scan func(scanner) (T, error)) decisions[T] {
	c := strings.Split(columns, ", ")
	key := c[0] + " = ? AND " + c[1] + " = ? AND " + c[2] + " = ?"
	return decisions[T]{
		database: d, table: table, most: most, names: [3]string(c), scan: scan,
		count:  "SELECT count(*) FROM " + table + " WHERE NOT (" + key + ")",
		insert: "INSERT OR REPLACE INTO " + table + " (" + columns + ") VALUES (?" + strings.Repeat(",?", len(c)-1) + ")",
		one:    "SELECT " + columns + " FROM " + table + " WHERE " + key,
		list:   "SELECT " + columns + " FROM " + table + " ORDER BY " + strings.Join(c[:3], ", ") + " LIMIT ?",
		remove: "DELETE FROM " + table + " WHERE " + c[0] + " = ? AND " + c[1] + " = ? AND (? = '' OR " + c[2] + " = ?)",
	}
}

// put adds a row, or replaces the one of that key; at is set if it is zero.
func (s *decisions[T]) put(ctx context.Context, doing string, key [3]string, at time.Time, rest ...any) error {
	return s.writer.do(ctx, doing, weight{events: 1}, func(t *tx) error {
		var others int
		if err := t.row(s.count, key[0], key[1], key[2]).Scan(&others); err != nil {
			return err
		}
		if others >= s.most {
			return &store.LimitError{Field: s.table, Size: others + 1, Max: s.most}
		}
		when := at
		if when.IsZero() {
			when = t.now
		}
		args := append([]any{key[0], key[1], key[2]}, rest...)
		return t.exec(s.insert, append(args, when.UnixMicro())...)
	})
}

// check validates the parts of a key.
func (s *decisions[T]) check(key [3]string) error {
	return cmp.Or(store.CheckText(s.names[0], key[0]), store.CheckText(s.names[1], key[1]), store.CheckText(s.names[2], key[2]))
}

// get returns the row of a key, if there is one.
func (s *decisions[T]) get(ctx context.Context, doing string, key [3]string) (row T, ok bool, err error) {
	if err := s.check(key); err != nil {
		return row, false, err
	}
	err = s.read(ctx, doing, func(q reader) error {
		row, err = s.scan(q.row(s.one, key[0], key[1], key[2]))
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return *new(T), false, nil
	}
	return row, err == nil, err
}

// all returns the rows by their keys.
func (s *decisions[T]) all(ctx context.Context, doing string) ([]T, error) {
	return list(ctx, s.database, doing, s.list, []any{s.most}, s.scan, nil)
}

// take removes a row; all whose keys begin with the first two names if the third is empty.
func (s *decisions[T]) take(ctx context.Context, doing string, key [3]string) error {
	if err := s.check(key); err != nil {
		return err
	}
	return s.writer.do(ctx, doing, weight{events: 1}, func(t *tx) error {
		met, err := t.changed(s.remove, key[0], key[1], key[2], key[2])
		if err == nil && !met {
			return store.ErrNotFound
		}
		return err
	})
}

// approvals are by file, server and hash.
type approvals struct{ decisions[store.Approval] }

func newApprovals(d *database) *approvals {
	return &approvals{newDecisions(d, "approvals", store.MaxApprovals, "file, server, hash, shown, by, trusted, at", func(row scanner) (a store.Approval, err error) {
		err = row.Scan(&a.File, &a.Server, &a.Hash, &a.Shown, &a.By, &a.Trusted, (*micros)(&a.At))
		return a, found(err)
	})}
}

// Approve implements [store.Approvals].
func (s *approvals) Approve(ctx context.Context, a store.Approval) error {
	if err := a.Check(); err != nil {
		return err
	}
	return s.put(ctx, "recording an approval", [3]string{a.File, a.Server, a.Hash}, a.At, a.Shown, a.By, a.Trusted)
}

// Approved implements [store.Approvals].
func (s *approvals) Approved(ctx context.Context, file, server, hash string) (store.Approval, bool, error) {
	return s.get(ctx, "looking for an approval", [3]string{file, server, hash})
}

// Approvals implements [store.Approvals].
func (s *approvals) Approvals(ctx context.Context) ([]store.Approval, error) {
	return s.all(ctx, "listing approvals")
}

// Revoke implements [store.Approvals].
func (s *approvals) Revoke(ctx context.Context, file, server, hash string) error {
	return s.take(ctx, "revoking an approval", [3]string{file, server, hash})
}

// pins are by source, server and tool.
type pins struct{ decisions[store.Pin] }

func newPins(d *database) *pins {
	return &pins{newDecisions(d, "pins", store.MaxPins, "source, server, tool, hash, at", func(row scanner) (p store.Pin, err error) {
		err = row.Scan(&p.Source, &p.Server, &p.Tool, &p.Hash, (*micros)(&p.At))
		return p, found(err)
	})}
}

// SetPin implements [store.Pins].
func (s *pins) SetPin(ctx context.Context, p store.Pin) error {
	if err := p.Check(); err != nil {
		return err
	}
	return s.put(ctx, "recording what a tool is", [3]string{p.Source, p.Server, p.Tool}, p.At, p.Hash)
}

// Pin implements [store.Pins].
func (s *pins) Pin(ctx context.Context, source, server, tool string) (store.Pin, bool, error) {
	return s.get(ctx, "looking for what a tool was", [3]string{source, server, tool})
}

// Pins implements [store.Pins].
func (s *pins) Pins(ctx context.Context) ([]store.Pin, error) {
	return s.all(ctx, "listing what tools were")
}

// Unpin implements [store.Pins].
func (s *pins) Unpin(ctx context.Context, source, server, tool string) error {
	return s.take(ctx, "forgetting what a tool was", [3]string{source, server, tool})
}
