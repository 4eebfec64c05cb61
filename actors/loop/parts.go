package loop

import "github.com/troupe-dev/troupe/actors"

// parts are the parts of a run, each of which may use the others. Like the run itself they
// are touched by its own goroutine only, so there is no lock.
type parts struct {
	run      owner
	h        *Run    // the handle
	cfg      *config // a hand-off gives the run another
	clock    wallClock
	journal  journal
	asks     asks
	talk     conversation
	calls    calls
	limits   limits
	logins   logins
	shutdown shutdown
	turn     *turn    // nil before the first
	out      *Outcome // set once the run is ending

	suspending *actors.Reply[struct{}] // of the caller of Suspend; nil without one
}

// owner is the run, as its parts know it.
type owner interface {
	opened(c *actors.Context, err error)  // the run is recorded, or never will be
	list(c *actors.Context)               // the next turn begins
	hit(c *actors.Context, m limitHit)    // something does not fit a limit
	act()                                 // calls are being made
	acted(c *actors.Context)              // all calls of the turn have results
	failed(c *actors.Context, err error)  // the run ends
	limited(c *actors.Context, err error) // the run ends at a limit
	end(c *actors.Context, out Outcome)   // the run ends
}
