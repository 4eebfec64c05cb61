package worker

import (
	"context"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/store"
)

// write is an update of the job in the store, and the event that follows it.
type write struct {
	update store.JobUpdate
	event  report                // without its job; none if it has no type
	last   bool                  // the job leaves the worker
	then   func(*actors.Context) // the next step, once it is written; nil for none
}

// wrote is a message to the job's actor itself: the store has answered an update.
type wrote struct {
	job store.Job
	err error
}

// updates are those of one job on their way to the store: one at a time, in order.
type updates struct {
	w       *Worker
	lease   store.JobLease
	queue   []write
	writing bool          // the first of them is being written
	last    bool          // the last of the job is among them, or was
	again   *actors.Timer // writes the first once more; nil before that was needed
}

// add queues an update.
func (u *updates) add(c *actors.Context, w write) {
	u.last = u.last || w.last
	u.queue = append(u.queue, w)
	if len(u.queue) > 2 && !u.writing { // of passing states the newest is enough
		newest := u.queue[len(u.queue)-1]
		newest.update.Lost = slices.ContainsFunc(u.queue, func(w write) bool { return w.update.Lost }) // it counts
		u.queue = []write{newest}
	}
	u.flush(c)
}

// flush writes the first update, unless that is under way. The job's actor receives [wrote].
func (u *updates) flush(c *actors.Context) {
	if u.writing || len(u.queue) == 0 {
		return
	}
	u.writing = true
	s, up := u.w.store, u.queue[0].update
	up.JobLease, up.Owner = u.lease, u.w.owner
	actors.Await(c, func(ctx context.Context) (store.Job, error) { return s.UpdateJob(ctx, up) },
		func(job store.Job, err error) any { return wrote{job, err} })
}

// taken removes the update that the store has taken.
func (u *updates) taken() write {
	w := u.queue[0]
	u.queue = u.queue[1:]
	return w
}

// drop returns the updates that come too late, and takes no more.
func (u *updates) drop() []write {
	late := u.queue
	u.queue, u.last = nil, true
	return late
}
