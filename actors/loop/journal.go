package loop

import (
	"errors"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/journal"
	"github.com/troupe-dev/troupe/internal/runlog"
)

// recorded is a run as its journal knows it.
type recorded struct{ *parts }

// probe, which only tests set, receives the entries of a run that are durable, and none at each
// moment at which nothing is left to write.
var probe func(*parts, []runlog.Entry)

func (r recorded) Target() journal.Target {
	return journal.Target{Store: r.cfg.Journal, Run: r.cfg.ID, Owner: r.cfg.Owner, Lease: r.cfg.Own.Lease}
}

func (r recorded) Written(entries []runlog.Entry) {
	if len(entries) > 0 {
		r.cfg.Sink.Journalled(entries)
	}
	if probe != nil {
		probe(r.parts, entries)
	}
}

// Stalled has the wall time stand still: the run does nothing.
func (r recorded) Stalled(err error) {
	r.clock.hold()
	r.cfg.Sink.Stalled(err)
}

func (r recorded) Resumed() {
	r.clock.release()
	r.cfg.Sink.Resumed()
}

func (r recorded) Ending() bool { return r.out != nil }

func (r recorded) Failed(c *actors.Context, err error, first bool) {
	r.shutdown.journalFailed(c, err, first)
}

// isFenced reports whether a run, or one above it, is another process's by this error.
func isFenced(err error) bool {
	j, ok := errors.AsType[*JournalError](err)
	return ok && journal.Lost(j) || errors.Is(err, ErrLeft)
}
