package worker

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/jobapi"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/netguard"
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

// maxOpen is how many jobs of stdin may be open: no more lines are read meanwhile.
const maxOpen = 10_000

// stdinJobs queues the jobs of stdin, and knows when they have ended.
type stdinJobs struct {
	in    io.Reader
	store store.Jobs
	guard *netguard.Guard
	out   *jobLines
	wake  func()
	room  chan struct{} // a place for each open job

	mu     sync.Mutex
	open   map[string]int // by ID: the line
	end    bool           // of the input
	failed int            // jobs and lines
	err    error          // of reading
}

func newStdinJobs(in io.Reader, s store.Jobs, guard *netguard.Guard, out *jobLines, wake func()) *stdinJobs {
	j := &stdinJobs{in: in, store: s, guard: guard, out: out, wake: wake, room: make(chan struct{}, maxOpen), open: make(map[string]int)}
	out.ended = j.ended
	return j
}

// read queues line by line.
func (s *stdinJobs) read(ctx context.Context) {
	lines := bufio.NewScanner(s.in)
	lines.Buffer(make([]byte, 64<<10), jobapi.MaxRequest+1)
	for n := 1; lines.Scan() && ctx.Err() == nil; n++ {
		if text := bytes.TrimSpace(lines.Bytes()); len(text) > 0 {
			select {
			case s.room <- struct{}{}:
			case <-ctx.Done():
				return
			}
			s.add(ctx, n, text)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end = true
	if err := lines.Err(); err != nil {
		s.err = fmt.Errorf("reading stdin: %w", err)
	}
}

// add queues one job.
func (s *stdinJobs) add(ctx context.Context, n int, text []byte) {
	j, err := s.queue(ctx, n, text)
	if err != nil {
		s.free()
		s.mu.Lock()
		s.failed++
		s.mu.Unlock()
		s.out.write(jobLine{Type: "job.refused", Time: time.Now().UTC(), Line: n, Error: err.Error()})
		return
	}
	if s.out.events == "all" {
		shown := jobapi.Show(j.Brief())
		s.out.write(jobLine{Type: "job.queued", Time: time.Now().UTC(), Line: n, Job: &shown})
	}
	s.wake()
}

// queue adds the job of a line to the queue. It is known here before it is there: it may
// have ended before AddJob returns.
func (s *stdinJobs) queue(ctx context.Context, n int, text []byte) (store.Job, error) {
	req, err := jobapi.ParseRequest(text)
	if err != nil {
		return store.Job{}, err
	}
	j, err := req.Job(s.guard)
	if err != nil {
		return j, err
	}
	if j.ID == "" {
		j.ID = store.NewJobID()
	}
	if !s.expect(j.ID, n) {
		return j, fmt.Errorf("the job %s was on a line before", j.ID)
	}
	added, err := s.store.AddJob(ctx, j)
	switch {
	case err == nil:
		return added, nil
	case errors.Is(err, store.ErrExists):
		err = fmt.Errorf("a job of that key or id is there already, and it is another one: %s", added.ID)
	case errors.Is(err, store.ErrRepeated) && (added.ID == j.ID || s.expect(added.ID, n)):
		if added.ID != j.ID {
			s.forget(j.ID)
		}
		return added, nil
	case errors.Is(err, store.ErrRepeated):
		err = fmt.Errorf("the job %s was on a line before", added.ID)
	}
	s.forget(j.ID)
	return added, err
}

// expect makes a job one of stdin's; false if it is already.
func (s *stdinJobs) expect(id string, line int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.open[id]; there {
		return false
	}
	s.open[id] = line
	s.out.number(id, line)
	return true
}

func (s *stdinJobs) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, id)
	s.out.number(id, 0)
}

// ended takes a job off the open ones, and reports whether it was among them.
func (s *stdinJobs) ended(j store.Job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.open[j.ID]; !ok {
		return false
	}
	delete(s.open, j.ID)
	s.free()
	if j.State != store.JobDone {
		s.failed++
	}
	return true
}

// follow waits until the input has ended and every job of it, also such as other
// workers had; false if ctx ends before.
func (s *stdinJobs) follow(ctx context.Context) bool {
	tick := time.NewTicker(env.LookEvery)
	defer tick.Stop()
	for {
		ids, over := s.left()
		if over {
			return true
		}
		for _, id := range ids {
			j, err := s.store.Job(ctx, id)
			if err != nil || !j.State.Ended() || !s.elsewhere(j) {
				continue
			}
			if !s.ended(j) {
				continue
			}
			if s.out.events != "none" {
				shown := jobapi.Show(j)
				shown.Prompt, shown.Input = "", nil
				s.out.write(jobLine{Type: string(worker.JobEnded), Time: time.Now().UTC(), Job: &shown, Error: j.Error})
			}
			s.out.number(id, 0)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

// elsewhere reports whether a job has ended without this worker: it was there already, or
// another worker had it. Of its own the worker says so itself.
func (s *stdinJobs) elsewhere(j store.Job) bool {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	_, here := s.out.since[j.ID]
	return !here && time.Since(j.Updated) > time.Second
}

// free gives the place of an open job to another.
func (s *stdinJobs) free() {
	select {
	case <-s.room:
	default:
	}
}

// left are the open jobs that are looked up, and whether there is nothing more to wait for.
func (s *stdinJobs) left() (ids []string, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.open {
		if ids = append(ids, id); len(ids) >= 200 {
			break
		}
	}
	return ids, s.end && len(s.open) == 0
}

// outcome is how it went.
func (s *stdinJobs) outcome() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return env.Usagef("%w", s.err)
	case len(s.open) > 0:
		return fmt.Errorf("%s of stdin have not ended, and are left in the queue", env.Count(len(s.open), "job"))
	case s.failed > 0:
		return env.ExitWith(env.ExitFailed, fmt.Errorf("%s of stdin failed", env.Count(s.failed, "job")))
	}
	return nil
}
