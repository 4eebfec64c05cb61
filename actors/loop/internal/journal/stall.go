package journal

import (
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/store"
)

// Stall is a wait for the store, with longer and longer times between its tries: from 50 ms to 2 s.
type Stall struct {
	*actors.Timer // of the next try
	Since         time.Time
	waits         *backoff.ExponentialBackOff
}

// NewStall returns a wait that begins now, for an actor that gets msg at each try.
func NewStall(c *actors.Context, msg any) *Stall {
	return &Stall{c.NewTimer(msg), time.Now(), backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(50*time.Millisecond), backoff.WithMaxInterval(2*time.Second),
		backoff.WithMultiplier(2), backoff.WithMaxElapsedTime(0))}
}

// Next returns the time until the next try.
func (s *Stall) Next() time.Duration { return s.waits.NextBackOff() }

// Passing reports whether a step that failed with err may be tried again. A panic is a bug.
func Passing(err error) bool {
	_, panicked := errors.AsType[*actors.PanicError](err)
	return !panicked && store.Passing(err)
}
