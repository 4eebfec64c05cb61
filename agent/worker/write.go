package worker

import (
	"context"
	"errors"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/store"
)

// write queues an update of the job.
func (j *work) write(c *actors.Context, w write) {
	if w.last {
		j.state = j.leaving
	}
	j.updates.add(c, w)
}

// leaving waits for the last write.
func (j *work) leaving(c *actors.Context, msg any) {
	if _, ok := msg.(drainOver); ok {
		j.over = true
		if !j.updates.writing { // the store fails: the lease expires
			j.leave(c, report{})
		}
	}
}

func (j *work) wrote(c *actors.Context, m wrote) {
	j.updates.writing = false
	switch {
	case errors.Is(m.err, store.ErrFinished) && endedUnder(j.job.Epoch, &m.job, nil):
		if j.updates.last { // its run's last event has ended it, which the run does not know
			j.leaveEnded(c, &m.job)
			return
		}
		j.updates.last = true // the outcome of its run follows
		return
	case errors.Is(m.err, store.ErrFenced), errors.Is(m.err, store.ErrNotFound), errors.Is(m.err, store.ErrFinished):
		j.lost(c)
		return
	case m.err != nil && j.over:
		j.leave(c, report{})
		return
	case m.err != nil:
		if j.updates.again == nil { // not by later, which another step may use
			j.updates.again = c.NewTimer(tryWrite{})
		}
		j.updates.again.Set(j.storeDelay(m.err))
		return
	}
	j.failures = 0
	w := j.updates.taken()
	m.job.Lost = false
	j.job = &m.job
	if w.last {
		if w.update.State == store.JobQueued && m.job.State.Ended() { // it was cancelled meanwhile
			w.event.typ, w.event.wait, w.event.err = JobEnded, 0, ""
		}
		j.leave(c, w.event)
		return
	}
	if w.event.typ != "" {
		w.event.job = j.job
		j.w.events.emit(w.event)
	}
	if w.then != nil {
		w.then(c)
	}
	j.updates.flush(c)
}

// checkLost finds out what became of a lease that is no longer held: the job may have ended with its
// run, which can be over before this actor knows that it has begun.
func (j *work) checkLost(c *actors.Context) {
	switch {
	case j.updates.last: // the last write releases the lease, or finds it lost
	case j.run == nil && !j.begins:
		j.lost(c)
	default:
		s, id := j.w.store, j.job.ID
		actors.Await(c, func(ctx context.Context) (store.Job, error) { return s.Job(ctx, id) },
			func(job store.Job, err error) any { return leaseChecked{job, err} })
	}
}

func (j *work) leaseChecked(c *actors.Context, m leaseChecked) {
	switch {
	case j.updates.last:
	case endedUnder(j.job.Epoch, &m.job, m.err): // the outcome of the run follows
	case m.err != nil && store.Passing(m.err): // the next renewal finds it lost again
		c.Log().Warn("a lost lease was not looked at", "job", j.job.ID, "error", m.err)
	default:
		j.lost(c)
	}
}

// lost releases a job that another worker has now. Its run, if there is one, is or will be
// fenced off, and ends here.
func (j *work) lost(c *actors.Context) {
	if j.begins { // its run is about to exist
		j.dropped = true
		return
	}
	if j.run != nil {
		hooks.Leave(j.run, errLost)
	}
	j.leave(c, report{typ: JobLost})
}

// leave reports how the job has left the worker, and stops. A report without a type is none: the worker
// could not return the job.
func (j *work) leave(c *actors.Context, r report) {
	j.w.board.update(func(b *board) {
		switch r.typ {
		case JobEnded:
			b.ended[j.job.State]++
		case JobRetried:
			b.retried++
		case JobParked:
		case JobReturned:
			b.returns++
		case JobLost:
			b.lost++
		default: // not returned
			b.left = append(b.left, j.job.ID)
		}
		if e := b.jobs[j.job.ID]; e != nil && e.job.Epoch == j.job.Epoch {
			b.remove(j.job.ID)
		}
	})
	if r.typ != "" {
		r.job = j.job
		j.w.events.emit(r)
	}
	j.state = j.idle
	c.Stop()
}
