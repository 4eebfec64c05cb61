package journal

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

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
	timer    actors.Timer // of the next renewal
	renewing bool
}

func (l *lease) start(c *actors.Context, lasts time.Duration, began time.Time) {
	l.ends = began.Add(lasts)
	l.timer.Init(c, renewLease{})
	next := untilRenewal(time.Now(), lasts)
	if left := time.Until(l.ends); left < lasts/2 { // it was taken before the run began
		next = min(next, max(left/2, 0))
	}
	l.timer.Set(next)
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
func (j *Writer) renew(c *actors.Context) {
	if j.lease.renewing || j.left {
		return
	}
	to, epoch, began := j.run.Target(), j.epoch, time.Now()
	j.lease.renewing = true
	actors.Await(c, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, to.Store.Renew(ctx, to.Run, to.Owner, epoch, to.Lease)
	}, func(_ struct{}, err error) any { return renewed{began, err} })
}

func (j *Writer) leaseRenewed(c *actors.Context, m renewed) {
	j.lease.renewing = false
	to, err := j.run.Target(), m.err
	next := untilRenewal(time.Now(), to.Lease)
	switch {
	case j.final && !j.unsure: // the run is over or left, and its lease with it
	case Lost(err):
		j.Fail(c, err)
	default:
		if err == nil {
			j.lease.ends = m.begun.Add(to.Lease)
		} else {
			c.Log().Warn("a run's lease was not renewed", "run", to.Run, "error", err)
			next = to.Lease / 10
		}
		j.lease.timer.Set(next)
		if err == nil && j.unsure {
			j.sure(c, j.under)
		}
	}
}
