package worker

import "time"

// ticks watches how regularly the claimer looks for work. Leases expire by the wall clock,
// timers go by the monotonic one, which stands still while the machine sleeps: after a
// sleep, a pause of the process or a jump of the wall clock all leases look expired
// before any worker could renew its own.
type ticks struct {
	wall func() time.Time // tests set it
	last time.Time        // by the monotonic clock; zero before the first tick
	seen time.Time        // the same moment by the wall clock
}

// tick returns how far the clocks have moved since the last tick, by the one that has moved
// further, and how far the wall clock has jumped against the monotonic one.
func (t *ticks) tick() (gap, jump time.Duration) {
	now, wall := time.Now(), t.wall().Round(0)
	if !t.last.IsZero() {
		passed := now.Sub(t.last)
		jump = wall.Sub(t.seen) - passed
		gap = max(passed, passed+jump)
	}
	t.last, t.seen = now, wall
	return gap, jump
}
