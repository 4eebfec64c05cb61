// park.go: jobs that wait for a person, or for an instance of a server, without a worker.
//
//	running ── waits for ParkAfter, or the worker drains ──▶ looking ──▶ suspending ──▶ (its run ends,
//	   ▲  │                                                     │            │     ▲     and the job leaves)
//	   │  └──────────── the time of the drain is over ──────────┼────────────┼─────┘
//	   └────────── it waits for something else, or not any more ◀────────────┘
//
// A parked job holds no actor, no goroutine, no lease and no memory. The store gives it out once one of
// its questions is decided or has expired, and any worker with its agent goes on with its run. One that waits
// for an instance goes back to the queue after instanceAfter: nothing was sent, and another worker may have one. This
// one takes it again once it has an instance (away.go).

package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/agent"
)

// Messages to itself.
type (
	parkNow   struct{} // it has waited for ParkAfter
	questions struct { // of its run, that are open
		ids []string // nil where one is of a kind that a process has to wait for
		err error
	}
	setAside struct{ err error } // the outcome of parking it
)

// instanceAfter is how long a job waits here for an instance of a server.
const instanceAfter = 5 * time.Second

// waitsAlone reports whether the answer to a question of that kind is all that a run waits for: a
// login, say, has to be looked for.
func waitsAlone(kind string) bool {
	return slices.Contains([]string{agent.KindTool, agent.KindLimit, agent.KindOutcome, agent.KindJob}, kind)
}

// lookForQuestions asks the store which questions a run waits for. The job's actor receives [questions].
func (w *Worker) lookForQuestions(c *actors.Context, run string) {
	actors.Await(c, func(ctx context.Context) ([]string, error) {
		ids, _, err := w.openQuestions(ctx, run)
		return ids, err
	}, func(ids []string, err error) any { return questions{ids, err} })
}

// parking parks a job that waits for a person: after a while, and when the worker ends, as another
// one goes on with it then and its question stays open. A job that waits for something else has the
// time of the drain.
type parking struct {
	w          *Worker
	stands     agent.Standing // of the run, as was reported last
	run        *agent.Run     // nil where it is not to be parked: it has not begun, or is being ended
	suspending bool
	timer      *actors.Timer // nil before it has waited
}

// stop parks the job no more.
func (p *parking) stop() { p.run = nil }

// waits reports whether the job may be parked now.
func (p *parking) waits() bool { return p.run != nil && p.stands.Waiting && !p.suspending }

// stood follows a change of how the run stands.
func (p *parking) stood(c *actors.Context, draining bool) {
	if draining && p.waits() {
		p.suspend(c)
	}
	after := p.w.opts.ParkAfter
	switch {
	case p.forInstance():
		after = min(after, instanceAfter)
	case p.stands.For != "" || p.stands.Instance != "" || !p.stands.Waiting:
		after = 0
	}
	if after > 0 {
		p.set(c, after)
	} else if p.timer != nil {
		p.timer.Clear()
	}
}

// forInstance reports whether an instance of a server is all that the run waits for.
func (p *parking) forInstance() bool {
	return p.stands.Waiting && p.stands.For != "" && p.stands.Instance != ""
}

func (p *parking) set(c *actors.Context, after time.Duration) {
	if p.timer == nil {
		p.timer = c.NewTimer(parkNow{})
	}
	p.timer.Set(after)
}

// due parks the job as it has waited long enough, if all that it waits for are answers.
func (p *parking) due(c *actors.Context, draining bool) {
	switch {
	case !p.waits():
	case draining:
		p.suspend(c)
	case p.forInstance() && !p.w.mayPutBack():
		p.stood(c, draining)
	case p.forInstance():
		p.suspend(c)
	default:
		p.w.lookForQuestions(c, p.run.ID())
	}
}

// found parks the job if it has open questions, and all of them are such.
func (p *parking) found(c *actors.Context, m questions, draining bool) {
	if p.waits() && !draining && m.err == nil && len(m.ids) > 0 {
		p.suspend(c)
	}
}

func (p *parking) suspend(c *actors.Context) {
	p.suspending = true
	run := p.run
	actors.Await(c, func(ctx context.Context) (struct{}, error) { return struct{}{}, run.SuspendIdle(ctx) },
		func(_ struct{}, err error) any { return setAside{err} })
}

// suspended follows the attempt to park the job. If it succeeds the run's end follows.
func (p *parking) suspended(c *actors.Context, job string, err error, draining bool) {
	if err == nil {
		return
	}
	p.suspending = false
	if !errors.Is(err, agent.ErrNotWaiting) {
		c.Log().Warn("a job that waits was not parked", "job", job, "error", err)
	}
	switch {
	case !p.waits():
	case draining: // a call beside the question may return
		p.set(c, time.Second)
	default:
		p.stood(c, draining)
	}
}

// suspend leaves a job wherever it is, as the time of the drain is over: another worker goes on with
// it at once.
func (j *work) suspend(c *actors.Context) {
	if j.run == nil || j.stopped {
		return
	}
	j.parking.stop()
	run := j.run
	actors.Await(c, func(ctx context.Context) (struct{}, error) { return struct{}{}, run.Suspend(ctx) },
		func(_ struct{}, err error) any { return suspended{err} })
}
