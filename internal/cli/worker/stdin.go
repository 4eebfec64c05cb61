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
	"github.com/troupe-dev/troupe/internal/netguard"
	"github.com/troupe-dev/troupe/store"
)

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

// line is a line of stdin that is not empty.
type line struct {
	n    int // from one
	text []byte
	id   string    // of its job; empty if it has none
	job  store.Job // as it was added
	err  error     // why it is not
}

// maxBatch is how many jobs are added with one commit, if so many lines wait.
const maxBatch = 64

// read queues the jobs of stdin, in the order of their lines.
func (s *stdinJobs) read(ctx context.Context) {
	lines := make(chan line, maxBatch)
	go s.scan(ctx, lines) // ends with the input, which cannot be taken from it
	for l := range lines {
		batch := []line{l}
		for more := true; more && len(batch) < maxBatch; {
			select {
			case l, more = <-lines:
				if more {
					batch = append(batch, l)
				}
			default:
				more = false
			}
		}
		s.add(ctx, batch)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end = true
}

// scan reads lines, and takes the place of an open job for each.
func (s *stdinJobs) scan(ctx context.Context, to chan<- line) {
	defer close(to)
	lines := bufio.NewScanner(s.in)
	lines.Buffer(make([]byte, 64<<10), jobapi.MaxRequest+1)
	for n := 1; lines.Scan() && ctx.Err() == nil; n++ {
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		select {
		case s.room <- struct{}{}:
		case <-ctx.Done():
			return
		}
		select {
		case to <- line{n: n, text: bytes.Clone(text)}:
		case <-ctx.Done():
			return
		}
	}
	if err := lines.Err(); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.err = fmt.Errorf("reading stdin: %w", err)
	}
}

// add queues the jobs of some lines, and reports what has become of each.
func (s *stdinJobs) add(ctx context.Context, batch []line) {
	var under sync.WaitGroup
	for i := range batch {
		under.Add(1)
		s.queue(ctx, &batch[i], under.Done)
	}
	under.Wait()
	for _, l := range batch {
		if l.id != "" {
			l.err = s.added(l)
		}
		if l.err != nil {
			s.free()
			s.mu.Lock()
			s.failed++
			s.mu.Unlock()
			s.out.write(jobLine{Type: "job.refused", Time: time.Now().UTC(), Line: l.n, Error: l.err.Error()})
			continue
		}
		if s.out.events == "all" {
			shown := jobapi.Show(l.job.Brief())
			s.out.write(jobLine{Type: "job.queued", Time: time.Now().UTC(), Line: l.n, Job: &shown})
		}
	}
	s.wake()
}

// queue adds the job of a line to the queue, and calls done once that has come to an end. It is known here before it
// is there: it may have ended before.
func (s *stdinJobs) queue(ctx context.Context, l *line, done func()) {
	req, err := jobapi.ParseRequest(l.text)
	var j store.Job
	if err == nil {
		j, err = req.Job(s.guard)
	}
	if err == nil {
		if j.ID == "" {
			j.ID = store.NewJobID()
		}
		if !s.expect(j.ID, l.n) {
			err = fmt.Errorf("the job %s was on a line before", j.ID)
		}
	}
	if err != nil {
		l.err = err
		done()
		return
	}
	l.id = j.ID
	added := func(as store.Job, err error) {
		l.job, l.err = as, err
		done()
	}
	if to, ok := s.store.(store.JobStarter); ok {
		to.StartAdd(j, added)
		return
	}
	added(s.store.AddJob(ctx, j))
}

// added returns why the job of a line is not one of the open ones, by what the store has said of it.
func (s *stdinJobs) added(l line) (err error) {
	switch err = l.err; {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrExists):
		err = fmt.Errorf("a job of that key or id is there already, and it is another one: %s", l.job.ID)
	case errors.Is(err, store.ErrRepeated) && (l.job.ID == l.id || s.expect(l.job.ID, l.n)):
		if l.job.ID != l.id {
			s.forget(l.id)
		}
		return nil
	case errors.Is(err, store.ErrRepeated):
		err = fmt.Errorf("the job %s was on a line before", l.job.ID)
	}
	s.forget(l.id)
	return err
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
