package loop

import (
	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/journal"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
)

// parts are the parts of a run, each of which may use the others. Like the run itself they
// are touched by its own goroutine only, so there is no lock.
type parts struct {
	run       owner
	h         *Run    // the handle
	cfg       *config // a hand-off gives the run another
	clock     wallClock
	journal   journal.Writer
	asks      asks
	talk      conversation
	approvals approvals
	calls     calls
	recovery  *recovery // nil but for a run that goes on here, or has had a call of unknown outcome
	check     answerCheck
	repeats   repeats
	limits    limits
	last      lastTurn
	logins    logins
	shutdown  shutdown
	parking   parking
	turn      *turn          // nil before the first
	out       *Outcome       // set once the run is ending
	away      *runlog.Outage // for which the run was left, while no answer has come since; nil else
}

// finishing reports whether nothing is recorded any more of the work under way.
func (p *parts) finishing() bool { return p.out != nil && (!p.parking.on || p.journal.Final()) }

// owner is the run, as its parts know it.
type owner interface {
	opened(c *actors.Context, err error)                                        // the run is recorded, or never will be
	firstTurn() ([]runlog.Entry, func(*actors.Context))                         // the first turn begins, to be recorded with the run
	list(c *actors.Context)                                                     // the next turn begins
	prepare(c *actors.Context, before ...runlog.Entry)                          // likewise, with the tools that it has
	begin(c *actors.Context, t *turn, req *llm.Request, before ...runlog.Entry) // the model is asked
	replied(c *actors.Context, resp *llm.Response, chosen *runlog.Chosen)       // the model has answered
	decide(c *actors.Context)                                                   // the answer is looked at
	conclude(c *actors.Context)                                                 // the last answer is
	hit(c *actors.Context, m limitHit)                                          // something does not fit a limit
	act()                                                                       // calls are being made
	acted(c *actors.Context)                                                    // all calls of the turn have results
	failed(c *actors.Context, err error, why ...runlog.Entry)                   // the run ends; why are the events that it follows from
	limited(c *actors.Context, err error, why ...runlog.Entry)                  // the run ends at a limit
	end(c *actors.Context, out Outcome, why ...runlog.Entry)                    // the run ends
	leave(c *actors.Context, err error)                                         // the work on it ends, and the run does not
	outage(c *actors.Context, out *OutageError, entries ...runlog.Entry)        // likewise, since a model cannot be asked
	drop(c *actors.Context, cause error)                                        // likewise, and nothing is written
}
