package memstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// shelf holds what a user has decided, under three names. Its methods run under the
// store's lock.
type shelf[T any] struct {
	field string // for errors
	most  int
	rows  map[[3]string]T
	size  func(*T) int64
	at    func(*T) *time.Time // when it was decided; zero is now
}

// put adds a row, or replaces the one of those names.
func (f *shelf[T]) put(s *Store, now time.Time, key [3]string, row T) error {
	old, replaces := f.rows[key]
	if !replaces && len(f.rows) >= f.most {
		return &store.LimitError{Field: f.field, Size: len(f.rows) + 1, Max: f.most}
	}
	n := f.size(&row)
	if replaces {
		n -= f.size(&old)
	}
	if err := s.grow(n); err != nil {
		return err
	}
	at := f.at(&row)
	if at.IsZero() {
		*at = now
	}
	*at = store.Clock(*at)
	f.rows[key] = row
	return nil
}

// all returns the rows by their names.
func (f *shelf[T]) all() []T {
	keys := make([][3]string, 0, len(f.rows))
	for key := range f.rows {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b [3]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]), cmp.Compare(a[2], b[2]))
	})
	list := make([]T, len(keys))
	for i, key := range keys {
		list[i] = f.rows[key]
	}
	return list
}

// remove takes a row away; all that begin with the first two names if the third is
// empty.
func (f *shelf[T]) remove(s *Store, key [3]string) error {
	found := false
	for k, row := range f.rows {
		if k[0] == key[0] && k[1] == key[1] && (key[2] == "" || k[2] == key[2]) {
			found = true
			s.used -= f.size(&row)
			delete(f.rows, k)
		}
	}
	if !found {
		return store.ErrNotFound
	}
	return nil
}
