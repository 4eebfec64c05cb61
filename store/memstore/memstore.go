// Package memstore keeps a store in memory: for tests, for runs that need not
// outlive their process, and as the floor that other stores are measured
// against.
//
// It has the semantics of every store, under one mutex; durable here means until
// the process ends. It is bounded by [Options.MaxBytes]: beyond it writes fail
// with [store.ErrFull], until something is deleted. Nothing is evicted.
// It starts no goroutine, so it may be dropped without Close.
package memstore

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// Options changes how a store works; nil is the same as the zero value.
type Options struct {
	// MaxBytes bounds what the store holds: the bytes of all texts and bodies,
	// and a fixed sum for each entry. Zero means 256 MiB.
	MaxBytes int64
	// Now is the clock of leases and expiry. Nil means time.Now.
	Now func() time.Time
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	d.MaxBytes = cmp.Or(d.MaxBytes, 256<<20)
	if d.Now == nil {
		d.Now = time.Now
	}
	return d
}

// Store is a [store.Store] in memory. Make it with [New].
type Store struct {
	opts Options

	mu        sync.Mutex
	closed    bool
	used      int64 // bytes, as Options.MaxBytes counts them
	deleted   int64 // highest epoch of a deleted run; a new run starts above it
	runs      map[string]*run
	asks      map[string]*store.Ask
	approvals shelf[store.Approval] // by file, server and hash
	pins      shelf[store.Pin]      // by source, server and tool
	records   records
	settled   settledList
	jobs      jobs
	schedules map[string]*store.Schedule
}

// run is a run with its events; the event with number n is at index n-1.
type run struct {
	head   store.Run
	events []store.Event
	bytes  int64 // its share of Store.used
}

var _ store.Store = (*Store)(nil)

// New makes an empty store.
func New(opts *Options) *Store {
	return &Store{
		opts:      opts.withDefaults(),
		runs:      map[string]*run{},
		asks:      map[string]*store.Ask{},
		approvals: newApprovals(),
		pins:      newPins(),
		records:   newRecords(),
		jobs:      newJobs(),
		schedules: map[string]*store.Schedule{},
	}
}

// Close ends the store and frees what it holds.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.runs, s.asks, s.approvals.rows, s.pins.rows, s.records = nil, nil, nil, nil, records{}
	s.settled, s.jobs, s.schedules = settledList{}, jobs{}, nil
	return nil
}

// do runs f under the lock, with the time by the store's clock, unless the
// context or the store has ended. All access goes through it.
func (s *Store) do(ctx context.Context, f func(now time.Time) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return f(store.Clock(s.opts.Now()))
}

// entryBytes is what an entry counts beside its texts.
const entryBytes = 256

// grow counts n more bytes, or refuses them.
func (s *Store) grow(n int64) error {
	if n > 0 && s.used+n > s.opts.MaxBytes {
		return store.ErrFull
	}
	s.used += n
	return nil
}
