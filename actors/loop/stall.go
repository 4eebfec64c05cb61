// stall.go: a run whose store does not take its events at the moment, as it is locked,
// full, or out of reach. The run waits: nothing goes on without its acknowledgement,
// so that what is kept meanwhile is what was under way.

package loop

import (
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/store"
)

// StallSink is what a [Sink] may implement to be told when its run waits for the store,
// and when it goes on. Its methods must not block; the run's actor calls them.
type StallSink interface {
	// Stalled is called once for each stall, with the store's first error.
	Stalled(err error)
	// Resumed ends a stall. There is none at the end of the run.
	Resumed()
}

const (
	stallFirst = 50 * time.Millisecond
	stallMost  = 2 * time.Second
	// openFor is how long a run that has not begun waits for its store.
	openFor = 30 * time.Second
)

// errLeaseOver says why a stalled run does not wait any longer.
var errLeaseOver = errors.New("the store did not take the run's events until its lease was over, and another may have it now")

// stall is a wait for the store.
type stall struct {
	since time.Time
	waits *backoff.ExponentialBackOff
	again *actors.Timer
}

// Messages to itself: a wait for the store is over.
type (
	appendAgain struct{}
	createAgain struct{}
)

func newStall(c *actors.Context, msg any) *stall {
	return &stall{since: time.Now(), again: c.NewTimer(msg), waits: backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(stallFirst), backoff.WithMaxInterval(stallMost),
		backoff.WithMultiplier(2), backoff.WithMaxElapsedTime(0))}
}

// passing reports whether what has failed with err may be tried again. A panic is a bug.
func passing(err error) bool {
	_, panicked := errors.AsType[*actors.PanicError](err)
	return !panicked && store.Passing(err)
}

// stall has the append under way made again later, and reports whether it will be. A run
// whose lease others may claim does not wait for longer than that lasts.
func (r *run) stall(c *actors.Context, err error) bool {
	j := &r.journal
	if !passing(err) {
		return false
	}
	first := j.stalled == nil
	if first {
		j.stalled = newStall(c, appendAgain{})
	}
	wait := j.stalled.waits.NextBackOff()
	if r.cfg.claimed && !time.Now().Add(wait).Before(j.leased) {
		r.journalFailed(c, fmt.Errorf("%w: %w", errLeaseOver, err))
		return true
	}
	if first {
		c.Log().Warn("a run waits for its store", "run", r.cfg.ID, "error", err)
		if s, ok := r.cfg.Sink.(StallSink); ok {
			s.Stalled(err)
		}
	}
	j.stalled.again.Set(wait)
	return true
}

// unstall ends a stall: the store has taken what it did not take before.
func (r *run) unstall(c *actors.Context) {
	s := r.journal.stalled
	if s == nil {
		return
	}
	r.journal.stalled = nil
	s.again.Clear()
	c.Log().Info("a run goes on: its store takes its events again", "run", r.cfg.ID, "stalled", time.Since(s.since))
	if told, ok := r.cfg.Sink.(StallSink); ok {
		told.Resumed()
	}
	if r.out == nil {
		r.renew(c) // which may have failed, too
	}
}

// appendAgain makes the stalled append again.
func (r *run) appendAgain(c *actors.Context) {
	if r.journal.under != nil && r.journal.cancel == nil {
		r.append(c)
	}
}

// openLater has a run that could not be recorded tried again, and reports whether it will be.
func (r *run) openLater(c *actors.Context, err error) bool {
	if !passing(err) {
		return false
	}
	if r.journal.stalled == nil {
		r.journal.stalled = newStall(c, createAgain{})
	}
	s := r.journal.stalled
	wait := s.waits.NextBackOff()
	if time.Since(s.since)+wait > openFor {
		return false
	}
	r.notOpened = err
	s.again.Set(wait)
	return true
}
