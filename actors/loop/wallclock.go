package loop

import (
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// wallOver is a message to itself: the wall time of the run is over.
type wallOver struct{}

// wallClock is the wall time of a run. It stands still while a person is waited for
// (TIME-05): by the run, or by one that a call of it has started.
type wallClock struct {
	timer actors.Timer
	ends  time.Time
	left  time.Duration // while it stands still
	holds int
	over  bool // the run is ending: it goes on no more
}

func (w *wallClock) start(c *actors.Context, wall time.Duration) {
	w.timer.Init(c, wallOver{})
	w.ends = time.Now().Add(wall)
	w.timer.SetAt(w.ends)
}

// hold makes the clock stand still until as many releases have come.
func (w *wallClock) hold() {
	if w.holds == 0 {
		w.left = time.Until(w.ends)
		w.timer.Clear()
	}
	w.holds++
}

func (w *wallClock) release() {
	if w.holds--; w.holds == 0 && !w.over {
		w.ends = time.Now().Add(w.left)
		w.timer.SetAt(w.ends)
	}
}

func (w *wallClock) stop() {
	w.over = true
	w.timer.Clear()
}

// remaining is the rest of the wall time.
func (w *wallClock) remaining() time.Duration {
	if w.holds > 0 {
		return w.left
	}
	return time.Until(w.ends)
}
