package worker

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/store"
)

// Status is the state of a worker at one moment.
type Status struct {
	Owner       string    `json:"owner"` // its name in the store
	Started     time.Time `json:"started,omitzero"`
	Agents      []string  `json:"agents"` // whose jobs it claims, by name
	Draining    bool      `json:"draining"`
	Concurrency int       `json:"concurrency"`
	Running     int       `json:"running"`    // jobs at work
	Parked      int       `json:"parked"`     // jobs that wait for a person, or for an instance of a server
	MaxParked   int       `json:"maxParked"`  // at this bound no more are claimed
	Recovering  int       `json:"recovering"` // jobs of lost workers that are examined
	Aside       int       `json:"aside"`      // jobs that may end the process, and wait until they can run alone
	// Ended counts the jobs that have ended here, by their state; Retried the attempts
	// that another follows.
	Ended   map[store.JobState]int64 `json:"ended"`
	Retried int64                    `json:"retried"`
	Lost    int64                    `json:"lost"`     // jobs that other workers took over
	Returns int64                    `json:"returned"` // jobs that were returned to the queue
	Jobs    []JobStatus              `json:"jobs"`     // the longest held first, at most 1000
}

// JobStatus is a job that a worker has.
type JobStatus struct {
	ID      string         `json:"id"`
	Agent   string         `json:"agent"`
	Run     string         `json:"run"`
	State   store.JobState `json:"state"`
	Attempt int            `json:"attempt"`
	Since   time.Time      `json:"since"` // it was claimed
	// For is the reason of its wait, if not a person, such as: an instance of server "files"
	// (4 of 4 in use).
	For string `json:"for,omitempty"`
}

// phase is the stage of a job in the worker.
type phase uint8

const (
	active phase = iota
	parked
	recovering
	aside
	committing // its run has its outcome, and commits that with the job's end
)

const phases = int(committing) + 1

// suspectAfter is how often a job's worker is lost until the job runs alone.
const suspectAfter = 2

// entry is a job on the board.
type entry struct {
	job   *store.Job // never changed
	phase phase
	since time.Time
	run   *agent.Run // nil for none
	waits string     // the reason, if not a person
	alone bool       // it may have ended its workers, and has no other job beside it
}

// board is the state that the claimer, the jobs and readers of [Status] share.
type board struct {
	mu       sync.Mutex // guards all fields: Status, Counts and WaitsFor read them also when no claimer runs
	jobs     map[string]*entry
	phases   [phases]int // how many jobs are in each
	suspects int         // of them, the jobs that were begun and are not parked

	ended   map[store.JobState]int64
	retried int64
	lost    int64
	returns int64

	started  time.Time
	draining bool
	left     []string // jobs that could not be returned
}

// update changes the board.
func (b *board) update(f func(*board)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b)
}

// place notes the phase of a job.
func (b *board) place(j *store.Job, p phase, run *agent.Run) {
	b.update(func(b *board) {
		e := b.jobs[j.ID]
		switch {
		case e == nil:
			e = &entry{job: j, phase: p, since: time.Now()}
			b.jobs[j.ID] = e
			b.tally(e, 1)
		case e.job.Epoch > j.Epoch: // it was claimed again here
			return
		}
		if e.phase == committing && p == active && e.job.Epoch == j.Epoch {
			p = committing // its run had its outcome before the job's actor knew of the run
		}
		b.tally(e, -1)
		e.job, e.phase, e.run = j, p, run
		b.tally(e, 1)
	})
}

// putAside has a job wait until no other one runs.
func (b *board) putAside(j *store.Job) {
	b.update(func(b *board) {
		if e := b.jobs[j.ID]; e != nil && e.job.Epoch == j.Epoch {
			b.tally(e, -1)
			e.phase, e.alone = aside, true
			b.tally(e, 1)
		}
	})
}

// commits notes that the outcome of a job at work is being committed: it leaves its place to another job.
func (b *board) commits(j *store.Job) {
	b.update(func(b *board) {
		if e := b.jobs[j.ID]; e != nil && e.job.Epoch == j.Epoch && e.phase == active {
			b.tally(e, -1)
			e.phase = committing
			b.tally(e, 1)
		}
	})
}

// waits notes the reason of a wait; empty for none, or a person.
func (b *board) waits(id, what string) {
	b.update(func(b *board) {
		if e := b.jobs[id]; e != nil {
			e.waits = what
		}
	})
}

// WaitsFor returns why a run of one of the worker's jobs waits; empty if it does not, or waits
// for a person.
func (w *Worker) WaitsFor(run string) (what string) {
	id := run
	if dot := strings.LastIndexByte(run, '.'); dot >= 0 {
		id = run[:dot]
	}
	w.board.update(func(b *board) {
		if e := b.jobs[id]; e != nil && e.job.Run == run {
			what = e.waits
		}
	})
	return what
}

// remove takes a job off the board, and returns its entry, or nil.
func (b *board) remove(id string) *entry {
	e := b.jobs[id]
	if e != nil {
		b.tally(e, -1)
		delete(b.jobs, id)
	}
	return e
}

// tally counts an entry in or out.
func (b *board) tally(e *entry, by int) {
	b.phases[e.phase] += by
	if e.alone && e.phase != parked && e.phase != aside {
		b.suspects += by
	}
}

// count returns how many jobs are in each phase, and how many suspects were begun and are
// not parked, in constant time.
func (b *board) count() (n [phases]int, suspects int) {
	b.update(func(b *board) { n, suspects = b.phases, b.suspects })
	return n, suspects
}

// next begins the job that was put aside first, and names it; empty for none.
func (b *board) next() (id string) {
	b.update(func(b *board) {
		var first *entry
		for _, e := range b.jobs {
			if e.phase == aside && (first == nil || cmp.Or(e.since.Compare(first.since), cmp.Compare(e.job.ID, first.job.ID)) < 0) {
				first = e
			}
		}
		if first != nil {
			b.tally(first, -1)
			first.phase, id = active, first.job.ID
			b.tally(first, 1)
		}
	})
	return id
}

// Counts is [Worker.Status] without Jobs, in constant time.
func (w *Worker) Counts() Status {
	s := Status{Owner: w.owner, Agents: slices.Clone(w.names), Concurrency: w.opts.Concurrency, MaxParked: w.opts.MaxParked, Jobs: []JobStatus{}}
	w.board.update(func(b *board) {
		n := b.phases
		s.Running, s.Parked, s.Recovering, s.Aside = n[active]+n[committing], n[parked], n[recovering], n[aside]
		s.Started, s.Draining, s.Retried, s.Lost, s.Returns, s.Ended = b.started, b.draining, b.retried, b.lost, b.returns, maps.Clone(b.ended)
	})
	return s
}

// maxShown bounds the jobs of a [Status].
const maxShown = 1000

// Status returns the state of the worker.
func (w *Worker) Status() Status {
	s := w.Counts()
	w.board.update(func(b *board) {
		for _, e := range b.jobs {
			state := store.JobRunning
			if e.phase == parked {
				state = store.JobWaiting
			}
			s.Jobs = append(s.Jobs, JobStatus{e.job.ID, e.job.Agent, e.job.Run, state, e.job.Attempts, store.Clock(e.since), e.waits})
		}
	})
	slices.SortFunc(s.Jobs, func(a, b JobStatus) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
	s.Jobs = s.Jobs[:min(len(s.Jobs), maxShown)]
	return s
}
