// limitreached.go: the reactions of a run that has reached a limit.
//
//	             stop, or wall time
//	limiting ──┬─────────────────────────────────────────▶ ending
//	           │ ask                  no, or no answer
//	           ├─────▶ asking ───────────────────────────▶ ending
//	           │           │ yes: the limit is raised
//	           │           └──▶ back to what was to be done
//	           │ wrap-up, or repeats      replied
//	           └─────▶ thinking (last) ───────▶ concluding ─▶ ending

package loop

import (
	"errors"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// hit sends a limit to the run itself, so that it is one of its messages.
func (r *run) hit(c *actors.Context, m limitHit) {
	r.state = (*run).limiting
	c.Self().Send(m)
}

// limiting goes on at a limit by the configuration.
func (r *run) limiting(c *actors.Context, msg any) {
	m, ok := msg.(limitHit)
	if !ok {
		return
	}
	switch limit := m.ask.err; {
	case r.cfg.Limits.OnLimit == runlog.LimitAsk && limit.At() != nil:
		r.state = (*run).asking
		r.limits.ask(c, m.before, m.ask)
	case r.cfg.Limits.OnLimit == runlog.LimitWrapUp, limit.Limit == budget.Repeats:
		r.last.begin(c, limit, m.before)
	default:
		r.limited(c, limit, m.before...)
	}
}

// limited ends the run at a limit.
func (r *run) limited(c *actors.Context, err error, why ...runlog.Entry) {
	if limit, ok := errors.AsType[*budget.LimitError](err); ok && r.out == nil && r.journal.Recorded() && r.limits.noted != limit {
		why = append(why, r.limits.reached(limit, runlog.LimitStop))
	}
	r.end(c, Outcome{State: store.Limited, Stop: stopAt(err), Err: err}, why...)
}

// stopAt is the reason to stop at a limit.
func stopAt(err error) string {
	if limit, ok := errors.AsType[*budget.LimitError](err); ok && limit.Limit == budget.Repeats {
		return runlog.StopRepeats
	}
	return runlog.StopLimit
}

// conclude looks at the last answer.
func (r *run) conclude(c *actors.Context) {
	r.state = (*run).concluding
	r.last.look(c)
}

func (r *run) concluding(c *actors.Context, msg any) {
	if m, ok := msg.(concluded); ok && m.turn == r.turn {
		r.last.ends(c, m)
	}
}
