package loop

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/store"
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
	timer    *actors.Timer // of the next renewal; nil without a lease
	renewing bool
}

func (l *lease) start(c *actors.Context, lasts time.Duration, began time.Time) {
	l.ends = began.Add(lasts)
	l.timer = c.NewTimer(renewLease{})
	l.timer.Set(untilRenewal(time.Now(), lasts))
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
	case j.final: // the run is over, and its lease with it
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
	}
}
