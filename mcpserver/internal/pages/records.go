package pages

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/actors/elicit"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// recordKind is the kind of the records of elicitations: their owner is the principal, and
// their value says whether it is done, to other servers too.
const recordKind = "page"

// records say which pages are done.
type records struct {
	store  store.Records
	expiry time.Duration
	shared bool // other servers use the records, too
}

type pageRecord struct {
	Done bool `json:"done"`
}

// recordsWait bounds a wait for the records, which may be on a disk.
const recordsWait = 10 * time.Second

func (s *records) put(ctx context.Context, principal, id string, done bool) error {
	raw, err := mcp.Marshal(pageRecord{done})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, recordsWait)
	defer cancel()
	return s.store.PutRecord(ctx, store.Record{Kind: recordKind, Owner: principal, Key: id, Value: raw, Expires: time.Now().Add(s.expiry)})
}

// done reports whether the page was visited, here or at another server.
func (s *records) done(ctx context.Context, principal, id string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, recordsWait)
	defer cancel()
	record, err := s.store.Record(ctx, recordKind, principal, id)
	if errors.Is(err, store.ErrNotFound) {
		return false, elicit.ErrExpired
	}
	if err != nil {
		return false, err
	}
	var r pageRecord
	err = mcp.Unmarshal(record.Value, &r)
	return r.Done, err
}

// doneElsewhere looks whether a page was visited at another server that shares the records;
// nil if there can be none.
func (s *records) doneElsewhere(principal, id string) func(context.Context) (bool, error) {
	if !s.shared {
		return nil
	}
	return func(ctx context.Context) (bool, error) { return s.done(ctx, principal, id) }
}
