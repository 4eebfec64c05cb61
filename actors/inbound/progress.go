package inbound

import (
	"math"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// reported is one report of a handler.
type reported struct {
	progress float64
	total    float64 // zero when not known
	message  string  // for people; may be empty
}

// Progress reports how far the handler has come. A value that does not increase
// is dropped, as is everything after the outcome. A handler that reports all
// the time is slowed down to the newest value every 50 ms. The [Handler] must
// have a method Report.
func (c *Call) Progress(progress, total float64, message string) {
	if math.IsNaN(progress) || math.IsInf(progress, 0) || math.IsNaN(total) || math.IsInf(total, 0) {
		return // JSON has no text for it
	}
	if _, ok := c.handler.(reporter); !ok {
		return
	}
	c.actor.Ref().Send(&report{call: c, reported: reported{progress, total, message}})
}

// Reports may come in bursts of progressBurst, and one each progressEvery.
const (
	progressBurst = 16
	progressEvery = 50 * time.Millisecond
)

// progress is what a call knows of its reports; it is guarded by the call's mu.
type progress struct {
	last   float64
	credit int        // reports that may go out at once
	since  time.Time  // when credit was counted
	held   *reported  // the newest one that may not go out yet
	posted []reported // to be written
}

// admit reports whether one report may go out now.
func (p *progress) admit(now time.Time) bool {
	if gained := int(now.Sub(p.since) / progressEvery); gained > 0 {
		p.credit = min(p.credit+gained, progressBurst)
		p.since = p.since.Add(time.Duration(gained) * progressEvery)
	}
	if p.credit == 0 {
		return false
	}
	p.credit--
	return true
}

// report is a message to the call's actor.
type report struct {
	reported
	call *Call
}

// take handles a handler's report.
func (a *callee) take(ctx *actors.Context, m *report) {
	switch a.call.accept(m.reported) {
	case postedNow:
		a.Ref().Go(a.call.flush)
	case heldBack:
		if !a.pacing {
			a.pace(ctx)
		}
	}
}

func (a *callee) pace(ctx *actors.Context) {
	if a.pacer == nil {
		a.pacer = ctx.NewTimer(paceTick{})
	}
	a.pacing = true
	a.pacer.Set(progressEvery)
}

// paced lets the held report of the call go.
func (a *callee) paced(ctx *actors.Context) {
	a.pacing = false
	if a.call == nil || a.settled {
		return
	}
	switch a.call.acceptHeld() {
	case postedNow:
		a.Ref().Go(a.call.flush)
	case heldBack:
		a.pace(ctx)
	}
}

// What becomes of a report.
type acceptance uint8

const (
	dropped acceptance = iota
	postedNow
	heldBack
)

// accept decides on a new report.
func (c *Call) accept(report reported) acceptance {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.lazily()
	if x.progress == nil {
		x.progress = &progress{last: math.Inf(-1), credit: progressBurst, since: time.Now()}
	}
	p := x.progress
	if report.progress <= p.last {
		return dropped
	}
	p.last = report.progress
	if p.held != nil || !p.admit(time.Now()) {
		p.held = &report
		return heldBack
	}
	p.posted = append(p.posted, report)
	return postedNow
}

// acceptHeld decides again on the report that was held back.
func (c *Call) acceptHeld() acceptance {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.lazily().progress
	if p == nil || p.held == nil {
		return dropped
	}
	if !p.admit(time.Now()) {
		return heldBack
	}
	p.posted, p.held = append(p.posted, *p.held), nil
	return postedNow
}

// postHeld posts what is held back, for the answer to bring along.
func (c *Call) postHeld() {
	x := c.extra.Load()
	if x == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := x.progress; p != nil && p.held != nil {
		p.posted, p.held = append(p.posted, *p.held), nil
	}
}

// flush writes what was posted, unless the answer has been written.
func (c *Call) flush() {
	c.writing.Lock()
	defer c.writing.Unlock()
	if !c.answered {
		c.report()
	}
}

// report is called with writing held.
func (c *Call) report() {
	x := c.extra.Load()
	if x == nil {
		return
	}
	var posted []reported
	c.mu.Lock()
	if x.progress != nil {
		posted, x.progress.posted = x.progress.posted, nil
	}
	c.mu.Unlock()
	for _, p := range posted {
		c.handler.(reporter).Report(p.progress, p.total, p.message) // or nothing would have been posted
	}
}
