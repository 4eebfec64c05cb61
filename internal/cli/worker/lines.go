package worker

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/internal/jobapi"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/store"
)

// jobLine is a line of a worker's stdout.
type jobLine struct {
	Type string    `json:"type"` // as of worker.Event, or "job.queued" and "job.refused" of a line of stdin
	Time time.Time `json:"time"`
	// Line is the number of the line of stdin that the job came by; zero for others.
	Line   int         `json:"line,omitzero"`
	Job    *jobapi.Job `json:"job,omitempty"`
	WaitMS int64       `json:"waitMs,omitzero"` // until the next attempt
	Error  string      `json:"error,omitempty"`
}

// jobLines writes what happens to jobs to stdout.
type jobLines struct {
	events string // as of --events

	mu    sync.Mutex
	w     io.Writer
	err   error                // of writing, the first
	since map[string]time.Time // by ID: when a job that is worked on was begun
	lines map[string]int       // by ID: the line of stdin that a job came by
	ended func(store.Job) bool // of stdin's jobs: whether this is the first to hear of it
}

func newJobLines(w io.Writer, events string) *jobLines {
	return &jobLines{w: w, events: events, since: make(map[string]time.Time), lines: make(map[string]int)}
}

// begun remembers when a job was begun.
func (l *jobLines) begun(ev worker.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since[ev.Job.ID] = ev.Time
}

// took is how long the last attempt of a job took, zero if it is unknown.
func (l *jobLines) took(ev worker.Event) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	since, ok := l.since[ev.Job.ID]
	delete(l.since, ev.Job.ID)
	if !ok {
		return 0
	}
	return ev.Time.Sub(since)
}

// event writes an event.
func (l *jobLines) event(ev worker.Event) {
	switch ev.Type {
	case worker.JobEnded:
		if l.numbered(ev.Job.ID) && !l.ended(ev.Job) {
			return // stdin's follower was faster
		}
		defer l.number(ev.Job.ID, 0)
	case worker.JobRetried, worker.JobReturned, worker.JobLost: // another worker may end it
		l.mu.Lock()
		delete(l.since, ev.Job.ID)
		l.mu.Unlock()
	}
	if l.events == "none" || l.events == "ends" && ev.Type != worker.JobEnded {
		return
	}
	j := jobapi.Show(ev.Job)
	l.write(jobLine{Type: string(ev.Type), Time: ev.Time, Job: &j, WaitMS: ev.Wait.Milliseconds(), Error: ev.Error})
}

// number notes by which line of stdin a job came; zero forgets it.
func (l *jobLines) number(id string, line int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if line == 0 {
		delete(l.lines, id)
		return
	}
	l.lines[id] = line
}

// numbered reports whether a job came by a line of stdin and has not been told of yet.
func (l *jobLines) numbered(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines[id] > 0
}

// write writes one line. After an error nothing more is written.
func (l *jobLines) write(line jobLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if line.Job != nil && line.Line == 0 {
		line.Line = l.lines[line.Job.ID]
	}
	body, err := jsonx.Marshal(line)
	if err == nil && l.err == nil {
		_, err = l.w.Write(append(body, '\n'))
	}
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("writing to stdout: %w", err)
	}
}

func (l *jobLines) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
