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
	"github.com/troupe-dev/troupe/store"
)

// Store is a [store.Store] in memory. Make it with [New]. Each of its parts has the methods
// of one interface, or of two that belong together, and what these keep.
type Store struct {
	*memory
	*journal
	*asks
	*approvals
	*pins
	*records
	*vault
	*jobs
	*schedules
}

var (
	_ store.Store      = (*Store)(nil)
	_ store.Starter    = (*Store)(nil)
	_ store.JobStarter = (*Store)(nil)
)

// New makes an empty store.
func New(opts *Options) *Store {
	m := &memory{opts: opts.withDefaults()}
	r := make(runs)
	s := &Store{memory: m, asks: newAsks(m, r), approvals: newApprovals(m), pins: newPins(m), records: newRecords(m), vault: newVault(m)}
	s.journal = &journal{memory: m, asks: s.asks, runs: r}
	s.jobs = newJobs(m, s.records)
	s.journal.jobs = s.jobs
	s.jobs.asks, s.asks.decided = s.asks, s.jobs.wake
	s.schedules = &schedules{memory: m, jobs: s.jobs, rows: map[string]*store.Schedule{}}
	return s
}

// Close ends the store and frees what it holds.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.approvals.rows, s.pins.rows, s.schedules.rows = nil, nil, nil
	s.journal.runs, s.asks.runs, s.asks.rows, s.asks.settled = nil, nil, nil, settledList{}
	s.records.rows, s.records.owners, s.jobs.queue = nil, nil, queue{}
	s.vault.rows, s.vault.leases = nil, nil
	return nil
}
