// decisions.go: decisions of a person, each under a key of three names: approvals and pins.

package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// decisions holds decisions of one kind.
type decisions[T any] struct {
	*memory
	field string // for errors
	most  int
	names [3]string // of the parts of a key, for errors
	rows  map[[3]string]T
	size  func(*T) int64
	at    func(*T) *time.Time // when it was decided; zero is now
}

// put adds a row, or replaces the one of that key.
func (s *decisions[T]) put(ctx context.Context, key [3]string, row T) error {
	return s.do(ctx, func(now time.Time) error {
		old, replaces := s.rows[key]
		if !replaces && len(s.rows) >= s.most {
			return &store.LimitError{Field: s.field, Size: len(s.rows) + 1, Max: s.most}
		}
		n := s.size(&row)
		if replaces {
			n -= s.size(&old)
		}
		if err := s.grow(n); err != nil {
			return err
		}
		at := s.at(&row)
		if at.IsZero() {
			*at = now
		}
		*at = store.Clock(*at)
		s.rows[key] = row
		return nil
	})
}

// check validates the parts of a key.
func (s *decisions[T]) check(key [3]string) error {
	return cmp.Or(store.CheckText(s.names[0], key[0]), store.CheckText(s.names[1], key[1]), store.CheckText(s.names[2], key[2]))
}

// get returns the row of a key, if there is one.
func (s *decisions[T]) get(ctx context.Context, key [3]string) (row T, ok bool, err error) {
	if err := s.check(key); err != nil {
		return row, false, err
	}
	err = s.do(ctx, func(time.Time) error {
		row, ok = s.rows[key]
		return nil
	})
	return row, ok, err
}

// all returns the rows by their keys.
func (s *decisions[T]) all(ctx context.Context) (list []T, err error) {
	err = s.do(ctx, func(time.Time) error {
		list = make([]T, 0, len(s.rows))
		for _, key := range slices.SortedFunc(maps.Keys(s.rows), func(a, b [3]string) int { return slices.Compare(a[:], b[:]) }) {
			list = append(list, s.rows[key])
		}
		return nil
	})
	return list, err
}

// remove takes a row away; all whose keys begin with the first two names if the third is
// empty.
func (s *decisions[T]) remove(ctx context.Context, key [3]string) error {
	if err := s.check(key); err != nil {
		return err
	}
	return s.do(ctx, func(time.Time) error {
		found := false
		for k, row := range s.rows {
			if k[0] == key[0] && k[1] == key[1] && (key[2] == "" || k[2] == key[2]) {
				found = true
				s.used -= s.size(&row)
				delete(s.rows, k)
			}
		}
		if !found {
			return store.ErrNotFound
		}
		return nil
	})
}

// approvals are by file, server and hash.
type approvals struct{ decisions[store.Approval] }

func newApprovals(m *memory) *approvals {
	return &approvals{decisions[store.Approval]{
		memory: m, field: "approvals", most: store.MaxApprovals, names: [3]string{"file", "server", "hash"}, rows: map[[3]string]store.Approval{},
		size: func(a *store.Approval) int64 {
			return int64(entryBytes + len(a.File) + len(a.Server) + len(a.Hash) + len(a.Shown) + len(a.By))
		},
		at: func(a *store.Approval) *time.Time { return &a.At },
	}}
}

// Approve implements [store.Approvals].
func (s *approvals) Approve(ctx context.Context, a store.Approval) error {
	if err := a.Check(); err != nil {
		return err
	}
	return s.put(ctx, [3]string{a.File, a.Server, a.Hash}, a)
}

// Approved implements [store.Approvals].
func (s *approvals) Approved(ctx context.Context, file, server, hash string) (store.Approval, bool, error) {
	return s.get(ctx, [3]string{file, server, hash})
}

// Approvals implements [store.Approvals].
func (s *approvals) Approvals(ctx context.Context) ([]store.Approval, error) { return s.all(ctx) }

// Revoke implements [store.Approvals].
func (s *approvals) Revoke(ctx context.Context, file, server, hash string) error {
	return s.remove(ctx, [3]string{file, server, hash})
}

// pins are by source, server and tool.
type pins struct{ decisions[store.Pin] }

func newPins(m *memory) *pins {
	return &pins{decisions[store.Pin]{
		memory: m, field: "pins", most: store.MaxPins, names: [3]string{"source", "server", "tool"}, rows: map[[3]string]store.Pin{},
		size: func(p *store.Pin) int64 {
			return int64(entryBytes + len(p.Source) + len(p.Server) + len(p.Tool) + len(p.Hash))
		},
		at: func(p *store.Pin) *time.Time { return &p.At },
	}}
}

// SetPin implements [store.Pins].
func (s *pins) SetPin(ctx context.Context, p store.Pin) error {
	if err := p.Check(); err != nil {
		return err
	}
	return s.put(ctx, [3]string{p.Source, p.Server, p.Tool}, p)
}

// Pin implements [store.Pins].
func (s *pins) Pin(ctx context.Context, source, server, tool string) (store.Pin, bool, error) {
	return s.get(ctx, [3]string{source, server, tool})
}

// Pins implements [store.Pins].
func (s *pins) Pins(ctx context.Context) ([]store.Pin, error) { return s.all(ctx) }

// Unpin implements [store.Pins].
func (s *pins) Unpin(ctx context.Context, source, server, tool string) error {
	return s.remove(ctx, [3]string{source, server, tool})
}
