// lease.go: how a run is recorded, and keeps its lease.

package loop

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// create has the run recorded.
func (r *run) create(c *actors.Context, first runlog.Entry) {
	h, again, began := r.h, r.journal.stalled != nil, time.Now()
	r.notOpened = nil
	actors.Await(c, func(ctx context.Context) (store.Run, error) { return h.create(ctx, first, again) },
		func(head store.Run, err error) any { return created{first, began, head, err} })
}

// create writes the first event. It answers whoever waits for the start itself,
// unless it may be tried again, and ends the run again if the actor is gone by then.
func (r *Run) create(ctx context.Context, first runlog.Entry, again bool) (store.Run, error) {
	ev, err := first.Encode()
	if err != nil {
		r.opened.Complete(begun{}, err)
		return store.Run{}, err
	}
	head := store.Run{ID: r.cfg.ID, Agent: r.cfg.Agent, Title: title(r.cfg.Origin.Input), InputHash: r.cfg.Origin.InputHash, Parent: r.cfg.Origin.Parent}
	hash := head.InputHash
	head, err = r.cfg.Journal.Create(ctx, head, r.cfg.Owner, r.cfg.Lease, ev)
	if again && errors.Is(err, store.ErrExists) && head.Owner == r.cfg.Owner && head.InputHash == hash && head.Seq == 1 {
		err = nil // an attempt that seemed to fail had come through
	}
	if passing(err) {
		return head, err
	}
	if err == nil {
		first.Seq = head.Seq
		r.cfg.Sink.Journalled([]runlog.Entry{first})
	}
	b := begun{epoch: head.Epoch}
	if err != nil {
		b.taken = &head
	}
	if !r.opened.Complete(b, err) && err == nil {
		out := Outcome{State: store.Failed, Stop: runlog.StopFailed, Err: actors.ErrStopped}
		err = errors.Join(actors.ErrStopped, r.recordDeath(head.Epoch, out, nil))
	}
	return head, err
}

func (r *run) opening(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case created:
		switch {
		case m.err == nil:
			r.isOpened(c, m)
			r.list(c)
		case r.openLater(c, m.err):
			r.first = &m.first
		default:
			r.refused(c, m.err)
		}
	case createAgain:
		r.create(c, *r.first)
	}
}

// isOpened notes that the run is recorded, and since when it has its lease.
func (r *run) isOpened(c *actors.Context, m created) {
	r.journal.stalled, r.first = nil, nil
	r.journal.leased = m.began.Add(r.cfg.Lease)
	r.opened(c, m.head)
}

// opened notes under which lease the run writes.
func (r *run) opened(c *actors.Context, head store.Run) {
	r.h.cfg.Origin = nil // the history goes on with it
	r.journal.epoch, r.journal.last, r.recorded = head.Epoch, head.Seq, true
	if r.cfg.Journal != nil {
		r.renewal = c.NewTimer(renewLease{})
		r.renewal.Set(untilRenewal(time.Now(), r.cfg.Lease))
	}
}

// untilRenewal is a third of the lease, or up to a tenth of that less, so that the runs of
// a process renew at the same moments: their store then commits them together, where a
// thousand runs that wait for a human would keep the disk busy.
func untilRenewal(now time.Time, lease time.Duration) time.Duration {
	third := lease / 3
	together := max(third/10, 1)
	return third - time.Duration(now.Add(third).UnixNano()%int64(together))
}

// renew keeps others from claiming the run.
func (r *run) renew(c *actors.Context) {
	if r.renewing {
		return
	}
	j, id, owner, epoch, lease, began := r.cfg.Journal, r.cfg.ID, r.cfg.Owner, r.journal.epoch, r.cfg.Lease, time.Now()
	r.renewing = true
	actors.Await(c, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, j.Renew(ctx, id, owner, epoch, lease)
	}, func(_ struct{}, err error) any { return renewed{began, err} })
}

func (r *run) leaseRenewed(c *actors.Context, m renewed) {
	r.renewing = false
	err, next := m.err, untilRenewal(time.Now(), r.cfg.Lease)
	switch {
	case r.last: // the run is over, and its lease with it
	case errors.Is(err, store.ErrFenced), errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrFinished):
		r.journalFailed(c, err)
	default:
		if err == nil {
			r.journal.leased = m.begun.Add(r.cfg.Lease)
		} else {
			c.Log().Warn("a run's lease was not renewed", "run", r.cfg.ID, "error", err)
			next = r.cfg.Lease / 10
		}
		r.renewal.Set(next)
	}
}
