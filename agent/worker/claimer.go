// claimer.go: the actor that claims jobs and has one child for each.
//
//	working ──── drain ────▶ draining ──── no job left, or its time is up ────▶ (stops)

package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/store"
)

// lastBound is how long the claimer waits, once the time of a drain is over, until runs have
// ended and the store has their outcomes.
const lastBound = 15 * time.Second

// maxRecovering bounds the jobs of lost workers that are examined at once: each may have to
// wait until the lease of its run expires.
const maxRecovering = 256

// Messages.
type (
	lookNow struct{ whole bool } // also for cancels and schedules
	pollNow struct{}
	found   struct { // the outcome of a look
		claimed    []store.Job
		cancelling []string
		adopted    []store.Job // by a claim whose outcome was not known
		unsure     bool        // whether this one's is
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
	pruneNow  struct{}
	pruned    struct { // the outcome of a pruning
		store.Pruned
		err error
	}
)

// claimer is touched by its own goroutine only.
type claimer struct {
	w     *Worker
	jobs  map[string]*held
	refs  map[actors.Ref]*held
	poll  *actors.Timer
	renew *actors.Timer
	ends  *actors.Timer
	prune *actors.Timer

	looking bool
	again   *lookNow // wanted after the look under way
	unsure  bool     // a claim failed, and may have been made

	ticks     ticks
	claimFrom time.Time // no jobs are claimed before: other workers renew their leases first
	full      bool      // as many jobs are parked as may be, and it is logged
	plenty    bool      // the last claim found jobs, and the store can start the next

	draining bool
	over     bool // the time of the drain
}

// held is a job that the worker has.
type held struct {
	id    string
	epoch int64
	ref   actors.Ref
}

func newClaimer(w *Worker) *claimer {
	return &claimer{w: w, jobs: make(map[string]*held), refs: make(map[actors.Ref]*held), ticks: ticks{wall: w.wall}}
}

// Receive implements [actors.Actor].
func (k *claimer) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		k.poll, k.renew, k.ends, k.prune = c.NewTimer(pollNow{}), c.NewTimer(renewNow{}), c.NewTimer(drainOver{}), c.NewTimer(pruneNow{})
		k.prune.Set(firstPrune)
		k.renew.Set(k.w.opts.Lease / 3)
		k.look(c, lookNow{whole: true})
	case pollNow:
		k.look(c, lookNow{whole: true})
	case lookNow:
		k.look(c, m)
	case found:
		k.found(c, m)
	case renewNow:
		k.renewAll(c)
	case renewed:
		k.renewed(c, m)
	case pruneNow:
		actors.Await(c, k.w.pruneStore, func(p pruned, err error) any { p.err = err; return p })
	case pruned:
		k.pruned(c, m)
	case drain:
		k.drain(c)
	case drainOver:
		k.drainOver(c)
	case lastOver:
		c.Stop()
	case actors.ChildStopped:
		k.ended(c, m)
	case actors.Stopping:
	default: // a bug of this package
		panic(fmt.Sprintf("the worker does not know the message %T", msg))
	}
}

// room returns how many jobs may be claimed. A job whose outcome is being committed has left its place:
// the claim of the next one shares the commit. As many as there are places may do so at once.
func (k *claimer) room() int {
	n, _ := k.w.board.count()
	k.notePlaces(n[parked])
	if k.draining || time.Now().Before(k.claimFrom) {
		return 0
	}
	return k.w.places()
}

// places is room but for what only the claimer knows. It may be called from any goroutine.
func (w *Worker) places() (free int) {
	w.board.update(func(b *board) {
		n, places := b.phases, w.opts.Concurrency
		if !b.draining && n[parked] < w.opts.MaxParked && n[recovering] < maxRecovering && n[aside]+b.suspects == 0 && !w.events.full() {
			free = min(max(places-n[active]-max(n[committing]-places, 0), 0), store.MaxClaim)
		}
	})
	return free
}

// notePlaces logs when parked jobs begin to stop the worker from claiming, and when they no
// longer do.
func (k *claimer) notePlaces(parked int) {
	full := parked >= k.w.opts.MaxParked
	switch {
	case full && !k.full:
		k.w.opts.Logger.Warn("no more jobs are claimed: the bound of jobs that wait for a person is reached; answer them (troupe inbox) or raise the bound (worker.max_parked)",
			"parked", parked, "max", k.w.opts.MaxParked)
	case !full && k.full:
		k.w.opts.Logger.Info("jobs are claimed again: fewer wait for a person", "parked", parked, "max", k.w.opts.MaxParked)
	}
	k.full = full
}

// tick compares the clocks. After a jump, a sleep or a pause it renews the leases before it
// claims jobs, and gives other workers, which noticed the same, the time to do so.
func (k *claimer) tick(c *actors.Context) {
	gap, jump := k.ticks.tick()
	late := k.w.late()
	if gap-k.w.opts.Poll < late && jump > -late {
		return
	}
	k.w.opts.Logger.Warn("the clock jumped, or the process stood still: leases are renewed before jobs are claimed", "gap", gap, "jump", jump)
	if jump > -late { // after a jump back leases last too long, and no other worker is in danger
		k.claimFrom = time.Now().Add(k.w.opts.Lease / 2) // a healthy worker renews three times in a lease
	}
	k.renewAll(c)
}

// late is the longest delay of a renewal: a third of the lease is still left then.
func (w *Worker) late() time.Duration { return w.opts.Lease / 3 }

// look asks the store for work, cancels and due schedules.
func (k *claimer) look(c *actors.Context, m lookNow) {
	if k.looking {
		k.again = &lookNow{whole: m.whole || k.again != nil && k.again.whole}
		return
	}
	k.tick(c)
	k.beginAside()
	n := k.room()
	if !m.whole && n == 0 {
		return
	}
	k.looking = true
	if m.whole { // jobs that end make looks for more of them, which must not put this one off
		k.poll.Set(k.w.opts.Poll)
	}
	if !m.whole && k.plenty && !k.unsure {
		if well, tries := k.w.split(); len(well) > 0 && len(tries) == 0 && len(k.w.leftToOthers()) == 0 {
			k.claimMore(c, well)
			return
		}
	}
	w, o := k.w, order{whole: m.whole, holds: len(k.jobs) > 0, draining: k.draining, room: n, ticks: k.ticks}
	if k.unsure {
		o.held = maps.Clone(k.jobs)
	}
	actors.Await(c, func(ctx context.Context) (found, error) { return w.look(ctx, o) },
		func(f found, err error) any { f.err = errors.Join(f.err, err); return f })
}

// claimMore claims jobs as the commit of those that end is made, which leave their places to them.
func (k *claimer) claimMore(c *actors.Context, of []string) {
	w, ticks, self := k.w, k.ticks, c.Self()
	places := func() int {
		if gap, _ := ticks.tick(); gap > w.late() { // the next look renews first
			return 0
		}
		return w.places()
	}
	w.claims.StartClaim(store.Claim{Owner: w.owner, TTL: w.opts.Lease, Agents: of, Places: places},
		func(jobs []store.Job, err error) { self.Send(found{claimed: jobs, err: err, unsure: err != nil}) })
}

// order is the work of a look.
type order struct {
	whole, holds, draining bool
	room                   int // jobs that may be claimed
	ticks                  ticks
	// held is not nil where the store may hold jobs for this worker that are not among these.
	held map[string]*held
}

// look carries out an order at the store. A part that fails is left to the next look.
func (w *Worker) look(ctx context.Context, o order) (f found, err error) {
	var errs []error
	if o.whole && o.holds {
		jobs, err := w.store.Jobs(ctx, store.JobQuery{Owner: w.owner, Cancelling: true, Brief: true})
		for _, j := range jobs {
			f.cancelling = append(f.cancelling, j.ID)
		}
		errs = append(errs, err)
	}
	if o.held != nil {
		f.adopted, err = w.unknown(ctx, o.held)
		f.unsure = err != nil
		errs = append(errs, err)
	}
	if o.whole && !o.draining {
		errs = append(errs, w.fire(ctx))
	}
	if gap, _ := o.ticks.tick(); gap > w.late() { // while it looked: the next look renews first
		return f, errors.Join(errs...)
	}
	if o.room > 0 && !f.unsure {
		f.claimed, err = w.claimJobs(ctx, o.room)
		f.unsure = err != nil
		errs = append(errs, err)
	}
	return f, errors.Join(errs...)
}

// unknown returns the jobs that the store has for this worker and the worker does not know:
// the answer to a claim was lost. ClaimJobs does not return them again.
func (w *Worker) unknown(ctx context.Context, held map[string]*held) (list []store.Job, err error) {
	for q := (store.JobQuery{Owner: w.owner, Brief: true}); ; {
		page, err := w.store.Jobs(ctx, q)
		if err != nil || len(page) == 0 {
			return list, err
		}
		for _, j := range page {
			if held[j.ID] == nil {
				list = append(list, j)
			}
		}
		q.After = page[len(page)-1].Cursor()
	}
}

func (k *claimer) found(c *actors.Context, m found) {
	k.looking, k.unsure = false, m.unsure
	k.plenty = len(m.claimed) > 0 && k.w.claims != nil
	if m.err != nil {
		c.Log().Warn("looking for work", "error", m.err)
	}
	for i := range m.adopted {
		m.adopted[i].Lost = true // it goes on like the job of a lost worker
		k.begin(c, &m.adopted[i])
	}
	for i := range m.claimed { // until it changes, a job keeps those beside it
		k.begin(c, &m.claimed[i])
	}
	k.beginAside()
	for _, id := range m.cancelling {
		if h := k.jobs[id]; h != nil {
			h.ref.Send(cancelJob{})
		}
	}
	if k.again != nil {
		next := *k.again
		k.again = nil
		k.look(c, next)
	}
	k.finish(c)
}

// beginAside begins a job that was put aside, once no other job runs.
func (k *claimer) beginAside() {
	n, suspects := k.w.board.count()
	if n[aside] == 0 || n[active]+n[committing]+suspects > 0 {
		return
	}
	if h := k.jobs[k.w.board.next()]; h != nil {
		h.ref.Send(beginAlone{})
	}
}

// begin gives a job, which is not changed any more, to an actor of its own.
func (k *claimer) begin(c *actors.Context, j *store.Job) {
	if old := k.jobs[j.ID]; old != nil { // lost, claimed again, and it does not know yet
		old.ref.Send(leaseLost{})
		delete(k.refs, old.ref)
	}
	w, draining := k.w, k.draining
	p := active
	if j.Lost {
		p = recovering
	}
	w.board.place(j, p, nil) // before its actor, which places it from then on
	ref, err := c.Spawn(actors.Spec{Kind: actors.KindJob, New: func() actors.Actor { return newWork(w, j, draining) }})
	if err != nil { // the system ends
		c.Log().Warn("a job was not begun", "job", j.ID, "error", err)
		w.board.update(func(b *board) { b.remove(j.ID) })
		return
	}
	h := &held{j.ID, j.Epoch, ref}
	k.jobs[j.ID], k.refs[ref] = h, h
}

// ended releases a job. A job whose actor failed is examined like a lost one.
func (k *claimer) ended(c *actors.Context, m actors.ChildStopped) {
	h := k.refs[m.Ref]
	if h == nil {
		return
	}
	delete(k.refs, m.Ref)
	delete(k.jobs, h.id)
	var left *entry // nil where the job has left in order
	k.w.board.update(func(b *board) { left = b.remove(h.id) })
	if m.Err != nil && left != nil && !k.over {
		if left.run != nil {
			hooks.Leave(left.run, errFailed)
		}
		lost := *left.job
		lost.Lost = true
		k.begin(c, &lost)
	}
	k.look(c, lookNow{})
	k.finish(c)
}

// renewAll renews the leases of all jobs.
func (k *claimer) renewAll(c *actors.Context) {
	k.renew.Set(k.w.opts.Lease / 3)
	asked := make(map[string]int64, len(k.jobs))
	leases := make([]store.JobLease, 0, len(k.jobs))
	for id, h := range k.jobs {
		asked[id] = h.epoch
		leases = append(leases, store.JobLease{ID: id, Epoch: h.epoch})
	}
	if len(leases) == 0 {
		return
	}
	w := k.w
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

// renewed notifies the jobs whose leases are lost.
func (k *claimer) renewed(c *actors.Context, m renewed) {
	if m.err != nil {
		c.Log().Warn("the leases of jobs were not renewed", "error", m.err)
		k.renew.Set(min(k.w.opts.Lease/10, time.Second))
		return
	}
	for _, l := range m.held {
		delete(m.asked, l.ID)
	}
	for id, epoch := range m.asked {
		if h := k.jobs[id]; h != nil && h.epoch == epoch {
			h.ref.Send(leaseLost{})
		}
	}
}

// drain claims no more jobs; the second time, those under way have no more time.
func (k *claimer) drain(c *actors.Context) {
	if k.draining {
		k.drainOver(c)
		return
	}
	k.draining = true
	k.w.board.update(func(b *board) { b.draining = true })
	k.ends.Set(k.w.opts.Drain)
	for _, h := range k.jobs {
		h.ref.Send(drain{})
	}
	k.finish(c)
}

func (k *claimer) drainOver(c *actors.Context) {
	if k.over {
		return
	}
	k.over = true
	c.After(lastBound, lastOver{})
	for _, h := range k.jobs {
		h.ref.Send(drainOver{})
	}
}

// finish stops a claimer that is drained.
func (k *claimer) finish(c *actors.Context) {
	if k.draining && len(k.jobs) == 0 && !k.looking {
		c.Stop()
	}
}
