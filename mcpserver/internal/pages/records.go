package pages

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors/elicit"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/questions"
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

// pageRecord is how an elicitation stands. One that has failed has a reason.
type pageRecord struct {
	Done   bool    `json:"done"`
	Failed *string `json:"failed,omitzero"`

	expires time.Time
}

// failure is the error of one that has failed, nil of any other. It ends the elicitation at
// every server.
func (r *pageRecord) failure() error {
	if r.Failed == nil {
		return nil
	}
	return failure{questions.DeclinedBecause(*r.Failed)}
}

// failure is [elicit.ErrCancelled] to the elicitation's actor, and a refusal to the handler.
type failure struct{ error }

func (f failure) Unwrap() []error { return []error{f.error, elicit.ErrCancelled} }

// recordsWait bounds a wait for the records, which may be on a disk.
const recordsWait = 10 * time.Second

func (s *records) put(ctx context.Context, principal, id string, r pageRecord) error {
	raw, err := mcp.Marshal(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, recordsWait)
	defer cancel()
	return s.store.PutRecord(ctx, store.Record{Kind: recordKind, Owner: principal, Key: id, Value: raw, Expires: r.expires})
}

// get returns how the page stands, here or at another server; [elicit.ErrExpired] if no
// principal of that ID has such a page.
func (s *records) get(ctx context.Context, principal, id string) (r pageRecord, err error) {
	ctx, cancel := context.WithTimeout(ctx, recordsWait)
	defer cancel()
	record, err := s.store.Record(ctx, recordKind, principal, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return r, elicit.ErrExpired
	case err != nil:
		return r, fmt.Errorf("reading the record of a page: %w", err)
	}
	err = mcp.Unmarshal(record.Value, &r)
	r.expires = record.Expires
	return r, err
}

// doneElsewhere looks whether a page was visited at another server that shares the records;
// nil if there can be none.
func (s *records) doneElsewhere(principal, id string) func(context.Context) (bool, error) {
	if !s.shared {
		return nil
	}
	return func(ctx context.Context) (bool, error) {
		r, err := s.get(ctx, principal, id)
		if err == nil {
			err = r.failure()
		}
		return r.Done, err
	}
}
