// desk.go: the actor that claims jobs and has one child for each.
//
//	working ──── drain ────▶ draining ──── no job left, or its time is up ────▶ (stops)

package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/store"
)

// lastBound is how long the desk waits, once the time of a drain is over, for runs to
// end and for the store to take what is written of them.
const lastBound = 15 * time.Second

// maxRecovering is how many jobs of lost workers are looked into at once: one at a time
// may have to wait for the lease of its run, while there are others to do.
const maxRecovering = 256

// Messages.
type (
	lookNow struct{ whole bool } // also for cancels and schedules
	pollNow struct{}
	found   struct { // what a look has found
		claimed    []store.Job
		cancelling []string
		err        error
	}
	renewNow struct{}
	renewed  struct {
		asked map[string]int64
		held  []store.JobLease
		err   error
	}
	drain     struct{}
	drainOver struct{}
	lastOver  struct{}
)

// desk is touched by its own goroutine only.
type desk struct {
	w     *Worker
	jobs  map[string]*held
	refs  map[actors.Ref]*held
	poll  *actors.Timer
	renew *actors.Timer
	ends  *actors.Timer

	looking bool
	again   *lookNow // wanted after the look under way

	draining bool
	over     bool // the time of the drain
}

// held is a job that the worker has.
type held struct {
	id    string
	epoch int64
	ref   actors.Ref
}

func newDesk(w *Worker) *desk {
	return &desk{w: w, jobs: make(map[string]*held), refs: make(map[actors.Ref]*held)}
}

// Receive implements [actors.Actor].
func (d *desk) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		d.poll, d.renew, d.ends = c.NewTimer(pollNow{}), c.NewTimer(renewNow{}), c.NewTimer(drainOver{})
		d.renew.Set(d.w.opts.Lease / 3)
		d.look(c, lookNow{whole: true})
	case pollNow:
		d.look(c, lookNow{whole: true})
	case lookNow:
		d.look(c, m)
	case found:
		d.found(c, m)
	case renewNow:
		d.renewAll(c)
	case renewed:
		d.renewed(c, m)
	case drain:
		d.drain(c)
	case drainOver:
		d.drainOver(c)
	case lastOver:
		c.Stop()
	case actors.ChildStopped:
		d.ended(c, m)
	case actors.Stopping:
	default: // a bug of this package
		panic(fmt.Sprintf("the worker does not know the message %T", msg))
	}
}

// room is how many jobs may be claimed.
func (d *desk) room() int {
	n := d.w.board.count()
	if d.draining || n[parked] >= d.w.opts.MaxParked || n[recovering] >= maxRecovering || d.w.events.full() {
		return 0
	}
	return min(max(d.w.opts.Concurrency-n[active], 0), store.MaxClaim)
}

// look asks the store for work, and what else there is.
func (d *desk) look(c *actors.Context, m lookNow) {
	if d.looking {
		d.again = &lookNow{whole: m.whole || d.again != nil && d.again.whole}
		return
	}
	n := d.room()
	if !m.whole && n == 0 {
		return
	}
	d.looking = true
	d.poll.Set(d.w.opts.Poll)
	w, holds, draining := d.w, len(d.jobs) > 0, d.draining
	actors.Await(c, func(ctx context.Context) (found, error) { return w.look(ctx, m.whole, holds, draining, n) },
		func(f found, err error) any { f.err = errors.Join(f.err, err); return f })
}

// look is what a look does at the store. What it can not do it leaves to the next one.
func (w *Worker) look(ctx context.Context, whole, holds, draining bool, room int) (f found, err error) {
	var errs []error
	if whole && holds {
		jobs, err := w.store.Jobs(ctx, store.JobQuery{Owner: w.owner, Cancelling: true, Brief: true})
		for _, j := range jobs {
			f.cancelling = append(f.cancelling, j.ID)
		}
		errs = append(errs, err)
	}
	if whole && !draining {
		errs = append(errs, w.fire(ctx))
	}
	if room > 0 {
		f.claimed, err = w.store.ClaimJobs(ctx, w.owner, room, w.opts.Lease, w.names)
		errs = append(errs, err)
	}
	return f, errors.Join(errs...)
}

func (d *desk) found(c *actors.Context, m found) {
	d.looking = false
	if m.err != nil {
		c.Log().Warn("looking for work", "error", m.err)
	}
	for _, j := range m.claimed {
		d.begin(c, j)
	}
	for _, id := range m.cancelling {
		if h := d.jobs[id]; h != nil {
			h.ref.Send(cancelJob{})
		}
	}
	if d.again != nil {
		next := *d.again
		d.again = nil
		d.look(c, next)
	}
	d.finish(c)
}

// begin gives a job to an actor of its own.
func (d *desk) begin(c *actors.Context, j store.Job) {
	if old := d.jobs[j.ID]; old != nil { // lost, claimed again, and it does not know yet
		old.ref.Send(leaseLost{})
		delete(d.refs, old.ref)
	}
	w, draining := d.w, d.draining
	ref, err := c.Spawn(actors.Spec{Kind: actors.KindJob, New: func() actors.Actor { return newWork(w, j, draining) }})
	if err != nil { // the system ends
		c.Log().Warn("a job was not begun", "job", j.ID, "error", err)
		return
	}
	p := active
	if j.Lost {
		p = recovering
	}
	d.w.board.place(j, p, nil)
	h := &held{j.ID, j.Epoch, ref}
	d.jobs[j.ID], d.refs[ref] = h, h
}

// ended lets a job go. One whose actor failed is looked into as a lost one is.
func (d *desk) ended(c *actors.Context, m actors.ChildStopped) {
	h := d.refs[m.Ref]
	if h == nil {
		return
	}
	delete(d.refs, m.Ref)
	delete(d.jobs, h.id)
	var left *entry // nil where the job has left in order
	d.w.board.update(func(b *board) {
		left = b.jobs[h.id]
		delete(b.jobs, h.id)
	})
	if m.Err != nil && left != nil && !d.over {
		if left.run != nil {
			left.run.Cancel(errFailed)
		}
		left.job.Lost = true
		d.begin(c, left.job)
	}
	d.look(c, lookNow{})
	d.finish(c)
}

// renewAll renews the leases of all jobs.
func (d *desk) renewAll(c *actors.Context) {
	d.renew.Set(d.w.opts.Lease / 3)
	asked := make(map[string]int64, len(d.jobs))
	leases := make([]store.JobLease, 0, len(d.jobs))
	for id, h := range d.jobs {
		asked[id] = h.epoch
		leases = append(leases, store.JobLease{ID: id, Epoch: h.epoch})
	}
	if len(leases) == 0 {
		return
	}
	w := d.w
	actors.Await(c, func(ctx context.Context) (held []store.JobLease, err error) {
		for len(leases) > 0 && err == nil {
			n := min(len(leases), store.MaxClaim)
			var some []store.JobLease
			some, err = w.store.RenewJobs(ctx, w.owner, w.opts.Lease, leases[:n])
			held, leases = append(held, some...), leases[n:]
		}
		return held, err
	}, func(held []store.JobLease, err error) any { return renewed{asked, held, err} })
}

// renewed tells the jobs that are others' now.
func (d *desk) renewed(c *actors.Context, m renewed) {
	if m.err != nil {
		c.Log().Warn("the leases of jobs were not renewed", "error", m.err)
		d.renew.Set(min(d.w.opts.Lease/10, time.Second))
		return
	}
	for _, l := range m.held {
		delete(m.asked, l.ID)
	}
	for id, epoch := range m.asked {
		if h := d.jobs[id]; h != nil && h.epoch == epoch {
			h.ref.Send(leaseLost{})
		}
	}
}

// drain takes no more jobs; the second time, those under way have no more time.
func (d *desk) drain(c *actors.Context) {
	if d.draining {
		d.drainOver(c)
		return
	}
	d.draining = true
	d.w.board.update(func(b *board) { b.draining = true })
	d.ends.Set(d.w.opts.Drain)
	for _, h := range d.jobs {
		h.ref.Send(drain{})
	}
	d.finish(c)
}

func (d *desk) drainOver(c *actors.Context) {
	if d.over {
		return
	}
	d.over = true
	c.After(lastBound, lastOver{})
	for _, h := range d.jobs {
		h.ref.Send(drainOver{})
	}
}

// finish stops a desk that is drained.
func (d *desk) finish(c *actors.Context) {
	if d.draining && len(d.jobs) == 0 && !d.looking {
		c.Stop()
	}
}
