// journal.go: how a run writes its events.
//
//	        write              acknowledged
//	still ─────────▶ appending ─────────────▶ still: then runs, and what waits is next
//	                  │      ▲
//	 error that passes│      │ due
//	                  ▼      │
//	                 stalled ┘──── the lease is over, or another error ──▶ (the run fails)
//
// A run whose store does not take its events at the moment, as it is locked, full or out of
// reach, waits: nothing goes on without its acknowledgement, so that only the events under
// way are kept meanwhile.
//
// Events that nothing waits for are held: they go with those of the next step, or after a moment.

package loop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// Messages to itself.
type (
	appended    struct{ w *writing } // an append has ended
	appendAgain struct{}             // a wait for the store is over
	heldOver    struct{}             // what is held has waited for the next step long enough
)

// journal is a run's writer: one append at a time, all that waits in the next.
type journal struct {
	*parts

	recorded bool // the run is in the journal, if there is one
	final    bool // the run's last event is on its way

	epoch int64
	last  int64 // number of the last event that is durable
	lease lease

	waiting []*batch
	held    *actors.Timer           // of what is held; nil before something was
	under   *writing                // under way, stalled or unsure; nil for none
	unsure  bool                    // under is durable, and waits for a renewal of the lease
	cancel  context.CancelCauseFunc // of the append under way; nil while there is none
	stalled *stall                  // nil unless the store does not take the append under way
	err     error                   // why nothing is written any more
}

// receive takes the messages of the journal, and reports whether msg was one.
func (j *journal) receive(c *actors.Context, msg any) bool {
	switch m := msg.(type) {
	case appended:
		j.acked(c, m.w)
	case appendAgain:
		if j.under != nil && j.cancel == nil && !j.unsure {
			j.append(c)
		}
	case heldOver:
		j.flush(c)
	case renewLease:
		j.renew(c)
	case renewed:
		j.leaseRenewed(c, m)
	default:
		return false
	}
	return true
}

// opened notes under which lease the run writes, which it asked for at a time.
func (j *journal) opened(c *actors.Context, head store.Run, began time.Time) {
	j.epoch, j.last, j.recorded = head.Epoch, head.Seq, true
	if j.cfg.Journal != nil {
		j.lease.start(c, j.cfg.Lease, began)
	}
}

// write puts entries into the next append; then runs once they are durable, and
// not at all if they cannot be written. It must look whether the run is ending.
// Without a journal then runs at once.
func (j *journal) write(c *actors.Context, then func(*actors.Context), entries ...runlog.Entry) {
	j.writeBatch(c, &batch{entries: entries, then: then})
}

func (j *journal) writeBatch(c *actors.Context, b *batch) {
	if j.queue(c, b) {
		j.flush(c)
	}
}

// heldFor is how long entries are held for those of the run's next step. Most steps take less than
// a commit; one that takes longer, such as a condition that looks something up, is not waited for.
var heldFor = 50 * time.Millisecond // a variable for tests

// hold puts entries into the append of the next step, which follows at once as a rule, and so saves
// a commit. Nothing may depend on them but what that step writes: its effects begin once its own
// entries are durable, and these with them.
func (j *journal) hold(c *actors.Context, entries ...runlog.Entry) {
	j.holdBatch(c, &batch{entries: entries})
}

func (j *journal) holdBatch(c *actors.Context, b *batch) {
	switch {
	case !j.queue(c, b):
	case heldFor == 0:
		j.flush(c)
	case j.under == nil:
		j.held = timer(c, j.held, heldOver{})
		j.held.Set(heldFor)
	}
}

// queue puts a batch behind those that wait, and reports whether it has to be written.
func (j *journal) queue(c *actors.Context, b *batch) bool {
	now := store.Clock(time.Now())
	for i := range b.entries {
		b.entries[i].Time = now
	}
	if j.cfg.Journal == nil {
		j.written(c, b)
		return false
	}
	j.waiting = append(j.waiting, b)
	return true
}

// maxWaitingKept bounds the room for batches that a run keeps from one append to the next.
const maxWaitingKept = 4

// flush begins an append unless one is under way.
func (j *journal) flush(c *actors.Context) {
	if j.under != nil || len(j.waiting) == 0 || j.err != nil && !j.final {
		return
	}
	w := &writing{last: j.last}
	w.batches = append(w.oneBatch[:0], j.waiting...)
	clear(j.waiting)
	if j.waiting = j.waiting[:0]; cap(j.waiting) > maxWaitingKept {
		j.waiting = nil
	}
	j.under = w
	j.held.Clear()
	j.append(c)
}

// append has the batches under way written, or the rest of them.
func (j *journal) append(c *actors.Context) {
	w, to, run, epoch := j.under, j.cfg.Journal, j.cfg.ID, j.epoch
	j.cancel = actors.Await(c,
		func(ctx context.Context) (struct{}, error) { return struct{}{}, w.append(ctx, to, run, epoch) },
		func(_ struct{}, err error) any { w.err = err; return appended{w} })
}

// acked goes on with the steps that were waiting for an append.
func (j *journal) acked(c *actors.Context, w *writing) {
	if w != j.under {
		return // given up
	}
	j.cancel = nil
	switch {
	case w.err == nil && !j.final && j.lease.over(j.cfg.Lease):
		// The process stood still, and another one may have the run by now: what follows, such as a
		// call, is that one's then.
		j.unsure = true
		j.renew(c)
		return
	case w.err == nil:
	case w.encoded && j.err == nil && j.stall(c, w.err):
		return
	default:
		j.fail(c, w.err)
		return
	}
	j.under, j.last, j.unsure = nil, w.last, false
	j.unstall(c)
	for _, b := range w.batches {
		if b.settle != nil && b.settle.beaten {
			b.settle.lost(c)
			continue
		}
		j.written(c, b)
	}
	j.flush(c)
	if probe != nil && !j.busy() {
		probe(j.parts, nil)
	}
}

// probe, which only tests set, receives the entries of a run that are durable, and none at each
// moment at which nothing is left to write.
var probe func(*parts, []runlog.Entry)

// written passes on durable entries and goes on with the step that was waiting for them.
func (j *journal) written(c *actors.Context, b *batch) {
	if len(b.entries) > 0 {
		j.cfg.Sink.Journalled(b.entries)
		if probe != nil {
			probe(j.parts, b.entries)
		}
	}
	if b.then != nil {
		b.then(c)
	}
}

// fail gives up writing.
func (j *journal) fail(c *actors.Context, err error) {
	first := j.err == nil
	if first {
		j.err = &JournalError{err}
	}
	j.drop()
	j.shutdown.journalFailed(c, first)
}

// drop gives up all entries that are not durable.
func (j *journal) drop() {
	batches := j.waiting
	if j.under != nil {
		batches = append(j.under.batches, batches...)
	}
	if j.cancel != nil {
		j.cancel(errGrace)
	}
	if j.stalled != nil {
		j.stalled.again.Clear()
	}
	j.waiting, j.under, j.cancel, j.unsure = nil, nil, nil, false
	for _, b := range batches {
		if b.settle != nil && b.settle.failed != nil {
			b.settle.failed(store.ErrFinished)
			b.settle.failed = nil
		}
	}
}

// fenced reports whether the run is another's now.
func (j *journal) fenced() bool { return isFenced(j.err) }

// isFenced reports whether a run, or one above it, was lost to another process by this error.
func isFenced(err error) bool {
	j, ok := errors.AsType[*JournalError](err)
	return ok && (errors.Is(j, store.ErrFenced) || errors.Is(j, store.ErrNotFound) || errors.Is(j, store.ErrFinished))
}

// busy reports whether an append is under way or waits.
func (j *journal) busy() bool { return j.under != nil || len(j.waiting) > 0 }

const (
	stallFirst = 50 * time.Millisecond
	stallMost  = 2 * time.Second
)

// errLeaseOver is the reason why a stalled run does not wait any longer.
var errLeaseOver = errors.New("the store did not take the run's events until its lease was over, and another may have it now")

// stall is a wait for the store.
type stall struct {
	since time.Time
	waits *backoff.ExponentialBackOff
	again *actors.Timer
}

func newStall(c *actors.Context, msg any) *stall {
	return &stall{since: time.Now(), again: c.NewTimer(msg), waits: backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(stallFirst), backoff.WithMaxInterval(stallMost),
		backoff.WithMultiplier(2), backoff.WithMaxElapsedTime(0))}
}

// passing reports whether a step that failed with err may be tried again. A panic is a bug.
func passing(err error) bool {
	_, panicked := errors.AsType[*actors.PanicError](err)
	return !panicked && store.Passing(err)
}

// stall has the append under way made again later, and reports whether it will be. A run
// whose lease others may claim does not wait for longer than that lasts.
func (j *journal) stall(c *actors.Context, err error) bool {
	if !passing(err) {
		return false
	}
	first := j.stalled == nil
	if first {
		j.stalled = newStall(c, appendAgain{})
	}
	wait := j.stalled.waits.NextBackOff()
	if j.cfg.claimed && !time.Now().Add(wait).Before(j.lease.ends) {
		j.fail(c, fmt.Errorf("%w: %w", errLeaseOver, err))
		return true
	}
	if first {
		c.Log().Warn("a run waits for its store", "run", j.cfg.ID, "error", err)
		j.cfg.Sink.Stalled(err)
	}
	j.stalled.again.Set(wait)
	return true
}

// unstall ends a stall: the store takes events again.
func (j *journal) unstall(c *actors.Context) {
	s := j.stalled
	if s == nil {
		return
	}
	j.stalled = nil
	s.again.Clear()
	c.Log().Info("a run goes on: its store takes its events again", "run", j.cfg.ID, "stalled", time.Since(s.since))
	j.cfg.Sink.Resumed()
	if j.out == nil {
		j.renew(c) // which may have failed, too
	}
}

// Messages to itself.
type (
	renewLease struct{}
	renewed    struct {
		begun time.Time
		err   error
	}
)

// lease is the time-limited right of a run to write.
type lease struct {
	ends     time.Time
	timer    *actors.Timer // of the next renewal; nil without a lease
	renewing bool
}

func (l *lease) start(c *actors.Context, lasts time.Duration, began time.Time) {
	l.ends = began.Add(lasts)
	l.timer = c.NewTimer(renewLease{})
	l.timer.Set(untilRenewal(time.Now(), lasts))
}

// over reports whether another process may have the run, or nearly so. The monotonic clock stands still
// while the machine sleeps, and the wall clock is set.
func (l *lease) over(lasts time.Duration) bool {
	soon := time.Now().Add(lasts / 10)
	return !soon.Before(l.ends) || !soon.Round(0).Before(l.ends.Round(0))
}

// untilRenewal is a third of the lease, or up to a tenth of that less, so that the runs of
// a process renew at the same moments: their store then commits them together, where a
// thousand runs that wait for a person would keep the disk busy.
func untilRenewal(now time.Time, lease time.Duration) time.Duration {
	third := lease / 3
	together := max(third/10, 1)
	return third - time.Duration(now.Add(third).UnixNano()%int64(together))
}

// renew keeps others from claiming the run.
func (j *journal) renew(c *actors.Context) {
	if j.lease.renewing {
		return
	}
	to, id, owner, epoch, lasts, began := j.cfg.Journal, j.cfg.ID, j.cfg.Owner, j.epoch, j.cfg.Lease, time.Now()
	j.lease.renewing = true
	actors.Await(c, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, to.Renew(ctx, id, owner, epoch, lasts)
	}, func(_ struct{}, err error) any { return renewed{began, err} })
}

func (j *journal) leaseRenewed(c *actors.Context, m renewed) {
	j.lease.renewing = false
	err, next := m.err, untilRenewal(time.Now(), j.cfg.Lease)
	switch {
	case j.final && !j.unsure: // the run is over, and its lease with it
	case errors.Is(err, store.ErrFenced), errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrFinished):
		j.fail(c, err)
	default:
		if err == nil {
			j.lease.ends = m.begun.Add(j.cfg.Lease)
		} else {
			c.Log().Warn("a run's lease was not renewed", "run", j.cfg.ID, "error", err)
			next = j.cfg.Lease / 10
		}
		j.lease.timer.Set(next)
		if err == nil && j.unsure {
			j.acked(c, j.under)
		}
	}
}
