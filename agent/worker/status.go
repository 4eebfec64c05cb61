package worker

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/store"
)

// Status is what a worker does at the moment.
type Status struct {
	Owner       string    `json:"owner"` // what it is called in the store
	Started     time.Time `json:"started,omitzero"`
	Draining    bool      `json:"draining"`
	Concurrency int       `json:"concurrency"`
	Running     int       `json:"running"`    // jobs worked on
	Parked      int       `json:"parked"`     // jobs that wait for a human
	Recovering  int       `json:"recovering"` // jobs of lost workers that are looked into
	// Ended counts the jobs that have ended here, by their state; Retried the attempts
	// that another follows.
	Ended   map[store.JobState]int64 `json:"ended"`
	Retried int64                    `json:"retried"`
	Lost    int64                    `json:"lost"`     // jobs that other workers took over
	Returns int64                    `json:"returned"` // jobs that were left to others
	Jobs    []JobStatus              `json:"jobs"`     // the longest held first
}

// JobStatus is a job that a worker has.
type JobStatus struct {
	ID      string         `json:"id"`
	Agent   string         `json:"agent"`
	Run     string         `json:"run"`
	State   store.JobState `json:"state"`
	Attempt int            `json:"attempt"`
	Since   time.Time      `json:"since"` // it was claimed
}

// phase is where a job is, for the worker.
type phase uint8

const (
	active phase = iota
	parked
	recovering
)

// entry is a job on the board.
type entry struct {
	job   store.Job
	phase phase
	since time.Time
	run   *agent.Run // nil for none
}

// board is what the worker and its jobs know together.
type board struct {
	mu      sync.Mutex
	jobs    map[string]*entry
	ended   map[store.JobState]int64
	retried int64
	lost    int64
	returns int64

	started  time.Time
	draining bool
	left     []string // jobs that could not be given back
}

// update changes the board.
func (b *board) update(f func(*board)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b)
}

// place notes how a job stands.
func (b *board) place(j store.Job, p phase, run *agent.Run) {
	b.update(func(b *board) {
		e := b.jobs[j.ID]
		switch {
		case e == nil:
			e = &entry{since: time.Now()}
			b.jobs[j.ID] = e
		case e.job.Epoch > j.Epoch: // it was claimed again here
			return
		}
		e.job, e.phase, e.run = j, p, run
	})
}

// count counts the jobs in each phase.
func (b *board) count() (n [3]int) {
	b.update(func(b *board) {
		for _, e := range b.jobs {
			n[e.phase]++
		}
	})
	return n
}

// Status returns what the worker does at the moment.
func (w *Worker) Status() Status {
	n := w.board.count()
	s := Status{Owner: w.owner, Concurrency: w.opts.Concurrency, Running: n[active], Parked: n[parked], Recovering: n[recovering], Jobs: []JobStatus{}}
	w.board.update(func(b *board) {
		s.Started, s.Draining, s.Retried, s.Lost, s.Returns, s.Ended = b.started, b.draining, b.retried, b.lost, b.returns, maps.Clone(b.ended)
		for _, e := range b.jobs {
			state := store.JobRunning
			if e.phase == parked {
				state = store.JobWaiting
			}
			s.Jobs = append(s.Jobs, JobStatus{e.job.ID, e.job.Agent, e.job.Run, state, e.job.Attempts, store.Clock(e.since)})
		}
	})
	slices.SortFunc(s.Jobs, func(a, b JobStatus) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
	return s
}
