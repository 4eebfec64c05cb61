package worker

import (
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// allowance is the time that an attempt may take. It stands still while the run waits (TIME-05).
type allowance struct {
	timer *actors.Timer // nil for a job without a bound
	left  time.Duration // while it stands still
	ends  time.Time
}

// start lets the time go on, if the job has a bound.
func (a *allowance) start(bound time.Duration) {
	if bound > 0 {
		a.ends = time.Now().Add(max(a.left, time.Millisecond))
		a.timer.SetAt(a.ends)
	}
}

// stop has the time stand still.
func (a *allowance) stop() {
	if a.timer != nil {
		a.left = time.Until(a.ends)
		a.timer.Clear()
	}
}
