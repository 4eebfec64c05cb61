// outage.go: a model that cannot be asked at the moment. What is the state of its provider ends no run that goes on in a
// store: the turn is lost, and the run is left until it is resumed (parking.go).
//
//	thinking ── the retries are exhausted ──▶ model.failed, run.parked ──▶ releasing ──▶ (stops)
//	acting ─── a run that a call has started was left so ──▶ parking: other calls have the grace
//
// What the provider has refused counts as no request, and the time that was waited for it against no limit.

package loop

import (
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/journal"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
)

// OutageError ends the work on a run whose model cannot be asked at the moment, or that of a run that it has started. The run
// is left as by a suspension, so that [ErrSuspended] is one too.
type OutageError struct {
	Provider string // empty where the error does not say
	Class    string // see [llm.Outage]
	Since    time.Time
	RetryAt  time.Time // when the run may be resumed
	Err      error     // the model's
}

func (e *OutageError) Error() string {
	return fmt.Sprintf("asking the model: %v; the run is left as it is, and goes on when it is resumed", e.Err)
}

// Is implements the interface that [errors.Is] uses.
func (e *OutageError) Is(target error) bool { return target == ErrSuspended }

// Unwrap returns the model's error.
func (e *OutageError) Unwrap() error { return e.Err }

// Bounds of the time until a run is resumed that was left because of an outage. Where the provider says nothing, it is as
// long as the outage has lasted.
const (
	minWake  = time.Second
	maxWake  = time.Minute
	maxAsked = time.Hour // that a provider may ask for
)

// outageOf is the outage that an error of the model is, if it leaves the run; nil for any other. A conversation that is
// too long for the one model that could answer is the run's to mend.
func (p *parts) outageOf(err error) *OutageError {
	class, after, ok := llm.Outage(err)
	if !ok || !p.cfg.Stored || p.cfg.Journal == nil || errors.Is(err, llm.ErrContextLength) {
		return nil
	}
	now := time.Now()
	out := &OutageError{Class: class, Since: now, Err: err}
	if e, ok := errors.AsType[*llm.Error](err); ok {
		out.Provider = e.Provider
	}
	if p.away != nil {
		out.Since = p.away.Since
	}
	wait := min(max(now.Sub(out.Since), minWake), maxWake)
	if after > 0 {
		wait = min(after, maxAsked)
	}
	out.RetryAt = now.Add(wait)
	return out
}

// outage leaves the run. The entries are still to be written.
func (r *run) outage(c *actors.Context, out *OutageError, entries ...runlog.Entry) {
	if len(entries) > 0 {
		r.journal.Hold(c, journal.Batch{}, entries...)
	}
	r.parking.start(c, out, runlog.RunParked{Why: clip.Short(out.Err.Error()), Class: out.Class, Since: out.Since, Wake: out.RetryAt})
}

// outOfTime ends the run, unless the time went by in the wait for a provider.
func (r *run) outOfTime(c *actors.Context) {
	if t := r.turn; r.out == nil && t != nil && t.asking && t.task != nil && t.spend.Silent() {
		if err := t.asks.failed.Load(); err != nil && r.outageOf(*err) != nil {
			t.asking = false
			t.task.Cancel(*err)
			r.lostTurn(c, *err, true) // the attempt under way may be billed
			return
		}
	}
	r.limited(c, overLimit("wall time", r.cfg.Wall))
}
