package memstore

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// records holds values that expire.
type records struct {
	*memory
	rows   map[recordID]store.Record
	owners map[string]owned
	swept  time.Time // when the expired were last looked for
}

// recordID is kind, owner and key.
type recordID [3]string

// owned is what is kept for one owner.
type owned struct{ records, bytes int }

func newRecords(m *memory) *records {
	return &records{memory: m, rows: map[recordID]store.Record{}, owners: map[string]owned{}}
}

func recordSize(r *store.Record) int64 {
	return int64(entryBytes + len(r.Kind) + len(r.Owner) + len(r.Key) + len(r.Value))
}

// sweepEvery is how often all records are looked at, if there is room without it.
const sweepEvery = time.Minute

// sweep removes those that have expired.
func (s *records) sweep(now time.Time) {
	s.swept = now
	for id, r := range s.rows {
		if !r.Live(now) {
			s.remove(id, r)
		}
	}
}

func (s *records) remove(id recordID, r store.Record) {
	delete(s.rows, id)
	s.used -= recordSize(&r)
	s.count(r.Owner, -1, -len(r.Value))
}

func (s *records) count(owner string, n, bytes int) {
	o := s.owners[owner]
	o.records, o.bytes = o.records+n, o.bytes+bytes
	if o.records == 0 {
		delete(s.owners, owner)
		return
	}
	s.owners[owner] = o
}

// fit adds or replaces a record, within the limits.
func (s *records) fit(r store.Record) error {
	id := recordID{r.Kind, r.Owner, r.Key}
	old, replaces := s.rows[id]
	o, n, size := s.owners[r.Owner], 1, recordSize(&r)
	if replaces {
		n, size = 0, size-recordSize(&old)
	}
	bytes := len(r.Value) - len(old.Value)
	switch {
	case len(s.rows)+n > store.MaxRecords:
		return &store.LimitError{Field: "records", Size: len(s.rows) + n, Max: store.MaxRecords}
	case o.records+n > store.MaxOwned:
		return &store.LimitError{Field: "records of one owner", Size: o.records + n, Max: store.MaxOwned}
	case o.bytes+bytes > store.MaxOwnedBytes:
		return &store.LimitError{Field: "values of one owner", Size: o.bytes + bytes, Max: store.MaxOwnedBytes}
	}
	if err := s.grow(size); err != nil {
		return err
	}
	r.Value = slices.Clone(r.Value)
	r.Expires = store.Clock(r.Expires)
	s.rows[id] = r
	s.count(r.Owner, n, bytes)
	return nil
}

// PutRecord implements [store.Records].
func (s *records) PutRecord(ctx context.Context, r store.Record) error {
	if err := r.Check(); err != nil {
		return err
	}
	return s.do(ctx, func(now time.Time) error { return s.put(r, now) })
}

func (s *records) put(r store.Record, now time.Time) error {
	if now.Sub(s.swept) >= sweepEvery {
		s.sweep(now)
	}
	err := s.fit(r)
	if err != nil && s.swept != now { // the expired take no room
		s.sweep(now)
		err = s.fit(r)
	}
	return err
}

// Record implements [store.Records].
func (s *records) Record(ctx context.Context, kind, owner, key string) (r store.Record, err error) {
	if err := store.CheckRecord(kind, owner, key); err != nil {
		return r, err
	}
	err = s.do(ctx, func(now time.Time) error {
		found, ok := s.rows[recordID{kind, owner, key}]
		if !ok || !found.Live(now) {
			return store.ErrNotFound
		}
		r = found
		r.Value = slices.Clone(r.Value)
		return nil
	})
	return r, err
}

// Records implements [store.Records].
func (s *records) Records(ctx context.Context, q store.RecordQuery) ([]store.Record, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	list := []store.Record{}
	err := s.do(ctx, func(now time.Time) error {
		for id, r := range s.rows {
			if id[0] == q.Kind && id[1] == q.Owner && id[2] > q.After && r.Live(now) {
				list = append(list, r)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b store.Record) int { return strings.Compare(a.Key, b.Key) })
	return page(list, q.Limit, store.Record.Bytes, func(r store.Record) store.Record {
		r.Value = slices.Clone(r.Value)
		return r
	}), nil
}

// DeleteRecord implements [store.Records].
func (s *records) DeleteRecord(ctx context.Context, kind, owner, key string) error {
	if err := store.CheckRecord(kind, owner, key); err != nil {
		return err
	}
	return s.do(ctx, func(now time.Time) error {
		id := recordID{kind, owner, key}
		r, ok := s.rows[id]
		if ok {
			s.remove(id, r)
		}
		if !ok || !r.Live(now) {
			return store.ErrNotFound
		}
		return nil
	})
}
