package call

import (
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
)

// actor works on one call at a time.
//
//	      begin, sent                  response, cancel, deadline,
//	idle ─────────────▶ in flight ───── connection lost, failed ──▶ idle
//	  │ begin,            ▲  │  │ connection lost or failed, and
//	  │ no connection     │  │  │ safe or not carried out
//	  └────────────▶ waiting ◀──┘
//	                  ▲   │ resend, followed: in flight, with a new id
//	                  │   └ cancel, deadline ─────────────────────▶ idle
//	                  │      │
//	                  │      │ response, and Follow wants more
//	           resumed│      ▼
//	                  └─ between ── cancel, deadline, resumed ────▶ idle
//
// It is run inline: it decides, and its sender does the writing.
type actor struct {
	actors.Worker
	table    *Table
	assigned *Call // the call it was taken for, until it is put back; the table's lock guards it
	timer    *actors.Timer

	call    *Call // nil when idle
	attempt int32 // 0 while it was never sent
	sends   int32 // of what Follow asked for last; see maxSends
	state   state
	stands  bool  // its clocks stand still
	waits   uint8 // in a row, see maxAttempts

	start, last time.Duration // of the call; of its newest sign of life, by the table's clock
	idle, most  time.Duration // its limits, 0 for none
	reached     float64       // the newest progress
	reported    bool          // there was one
}

// state is what an actor's call is doing.
type state uint8

const (
	inFlight state = iota
	waiting        // for a connection
	between        // two attempts
)

// Messages. Those about an attempt are dropped when another has begun.
type (
	begin struct {
		actors.Node
		call *Call
		sent bool // it has an id and is about to be written, as its first attempt
	}
	cancel struct {
		actors.Node
		call  *Call
		cause error
	}
	response struct {
		actors.Node
		call    *Call
		attempt int32
		result  Result
		err     error
	}
	progressReceived struct {
		actors.Node
		call    *Call
		attempt int32
		Progress
	}
	connectionLost struct { // also: could not be written
		actors.Node
		call    *Call
		attempt int32
		gen     uint64
		err     error
	}
	failed struct{ connectionLost } // this one alone
	resend struct {
		actors.Node
		call    *Call
		attempt int32
	}
	followed struct{ resend } // what Follow asked for is about to be written
	resumed  struct {         // the end of a Wait
		actors.Node
		wait *wait
		step Step
	}
	held        struct{ call *Call } // its clocks may have to stand still
	released    struct{ call *Call } // or not any more
	unavailable struct {             // there will be no connection soon
		actors.Node
		call *Call
		err  error
	}
	deadline struct{}
)

// Receive implements [actors.Actor].
func (a *actor) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case *begin:
		a.begin(c, m)
	case *response:
		if a.awaits(m.call, m.attempt) {
			a.answer(c, m.result, m.err)
		} else if m.call != a.call {
			passLate(a.table.sys, m.call.req.Late, m.result, m.err)
		}
	case *progressReceived:
		if a.awaits(m.call, m.attempt) || a.keepsToken(m.call) {
			a.progress(m.Progress)
		}
	case *cancel:
		if m.call == a.call {
			a.finish(c, Result{}, m.cause)
		}
	case deadline:
		a.deadline(c)
	default:
		a.seldom(c, msg)
	}
}

// seldom handles what has to do with lost connections and with further attempts.
func (a *actor) seldom(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case *connectionLost:
		if a.awaits(m.call, m.attempt) && !m.call.beingWritten(m.attempt) { // else its writer reports the loss, and knows whether it was sent
			a.lost(c, m, false)
		}
	case *failed:
		if a.awaits(m.call, m.attempt) {
			a.lost(c, &m.connectionLost, true)
		}
	case *resend:
		a.sent(c, m, a.sends+1)
	case *followed:
		a.sent(c, &m.resend, 1)
	case *resumed:
		if a.call != nil && a.call.more != nil && m.wait == a.call.more.wait {
			a.resumed(c, m)
		}
	case *unavailable:
		if m.call == a.call && a.state == waiting {
			a.answer(c, Result{}, &LostError{Method: a.call.req.Method, Unsent: a.attempt == 0, Err: m.err})
		}
	case *held:
		if m.call == a.call {
			a.look(c)
		}
	case *released:
		if m.call == a.call {
			a.look(c)
		}
	}
}

// awaits reports whether the attempt is the one whose answer is awaited.
func (a *actor) awaits(call *Call, attempt int32) bool {
	return call == a.call && a.state == inFlight && attempt == a.attempt
}

func (a *actor) begin(c *actors.Context, m *begin) {
	a.call, a.state, a.attempt, a.sends, a.waits = m.call, waiting, 0, 0, 0
	if m.sent {
		a.state, a.attempt, a.sends = inFlight, 1, 1
	}
	a.reported, a.stands = false, false
	a.idle, a.most = m.call.req.timeouts()
	if a.idle == 0 && a.most == 0 {
		return
	}
	a.start = a.table.now()
	a.last = a.start
	if m.call.holds.Load() > 0 {
		a.look(c)
	} else {
		a.arm(c)
	}
}

// sent says that another attempt is about to be written. It has a new id, and its
// own limit without progress (MRTR-16).
func (a *actor) sent(c *actors.Context, m *resend, sends int32) {
	if m.call != a.call || a.state != waiting {
		return
	}
	a.state, a.attempt, a.sends, a.waits = inFlight, m.attempt, sends, 0
	a.reported = false
	if x := a.call.more; x != nil {
		x.pause = 0
	}
	a.fresh()
	a.look(c)
}

// fresh begins the limit without progress anew.
func (a *actor) fresh() {
	a.last = a.table.now()
	if a.stands {
		a.last = a.call.more.since // look adds the time since then
	}
}

// left returns what is left of the call's maximum, 0 without one.
func (a *actor) left() time.Duration {
	if a.most == 0 {
		return 0
	}
	now := a.table.now()
	if a.stands {
		now = a.call.more.since
	}
	return max(a.start+a.most-now, 1)
}

// dueTo is why a deadline is one.
type dueTo uint8

const (
	noLimit dueTo = iota
	ofAll
	ofSilence
	ofPause
)

// due returns when the actor has to do something by itself.
func (a *actor) due() (at time.Duration, why dueTo) {
	earliest := func(t time.Duration, l dueTo) {
		if why == noLimit || t < at {
			at, why = t, l
		}
	}
	if a.most > 0 && !a.stands {
		earliest(a.start+a.most, ofAll)
	}
	if a.idle > 0 && !a.stands && a.state != between {
		earliest(a.last+a.idle, ofSilence)
	}
	if x := a.call.more; x != nil && x.pause > 0 {
		earliest(x.pause, ofPause)
	}
	return at, why
}

// arm sets the timer to what is due next.
func (a *actor) arm(c *actors.Context) {
	at, why := a.due()
	switch {
	case why == noLimit && a.timer == nil:
	case why == noLimit:
		a.timer.Clear()
	default:
		if a.timer == nil {
			a.timer = c.NewTimer(deadline{})
		}
		a.timer.SetAt(a.table.sys.Began().Add(at))
	}
}

// look stops the call's clocks or lets them go on, and sets the timer.
func (a *actor) look(c *actors.Context) {
	x := a.call.more
	still := a.call.holds.Load() > 0 || x != nil && x.wait != nil && !x.wait.clocks
	if still != a.stands {
		a.stands = still
		now := a.table.now()
		if still {
			a.call.moreLocked().since = now
		} else {
			a.start += now - x.since
			a.last += now - x.since
		}
	}
	a.arm(c)
}

// deadline looks whether the time is up. Progress has not touched the timer: it
// is here that a later deadline is noticed (TIME-03).
func (a *actor) deadline(c *actors.Context) {
	if a.call == nil {
		return
	}
	at, why := a.due()
	switch {
	case why == noLimit:
		return
	case a.table.now() < at:
		a.timer.SetAt(a.table.sys.Began().Add(at))
		return
	case why == ofPause:
		a.goOn(c)
		return
	}
	err := &TimeoutError{
		Method: a.call.req.Method, After: a.most, Idle: why == ofSilence,
		Unsent: a.state == waiting && a.attempt == 0,
	}
	if err.Idle {
		err.After = a.idle
	}
	if a.state == waiting {
		err.Err = a.table.whyNone()
	}
	a.finish(c, Result{}, err)
}

// progress is a sign of life if it has grown (PROG-08).
func (a *actor) progress(p Progress) {
	if a.reported && !(p.Progress > a.reached) {
		a.table.stats.oddProgress.Add(1)
		return
	}
	a.reported, a.reached = true, p.Progress
	if a.idle > 0 {
		a.last = a.table.now()
	}
	a.call.progress.push(p)
	if a.call.completion != nil {
		a.call.completion.wake(a.call, false)
	}
}

// resendPause is how long a request that failed alone waits for the connection to
// fail as well; it doubles with each attempt.
const resendPause = 250 * time.Millisecond

// lost decides whether the call waits for the next connection.
func (a *actor) lost(c *actors.Context, m *connectionLost, alone bool) {
	unsent := a.call.unsent(a.attempt) || alone && errors.Is(m.err, ErrUnsent)
	again := (unsent || a.call.req.Safe) && !a.call.req.Early && a.sends < maxSends
	answer, final := answerOf(m.err)
	switch {
	case final || alone && answer != nil && !(unsent && again):
		a.answer(c, Result{}, answer)
	case again && a.call.park(m.gen):
		a.state = waiting
		if alone {
			a.call.more.pause = a.table.now() + resendPause<<a.sends/2
			a.arm(c)
		}
	default:
		a.answer(c, Result{}, &LostError{Method: a.call.req.Method, Unsent: unsent, Err: m.err})
	}
}

// answerOf returns the part of a failure that can stand for an answer, nil if
// there is none; final says that no other connection follows.
func answerOf(err error) (answer error, final bool) {
	if errors.Is(err, ErrBusy) || errors.Is(err, ErrTooLong) {
		return err, true
	}
	if e, ok := errors.AsType[*TransportError](err); ok {
		return e, false
	}
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		return e, false
	}
	return nil, false
}

// answer takes the answer of an attempt: the call's outcome, unless its Follow
// has something else in mind.
func (a *actor) answer(c *actors.Context, result Result, err error) {
	follow := a.call.req.Follow
	if follow == nil {
		a.finish(c, result, err)
		return
	}
	a.state = between
	a.step(c, follow(Answer{Attempt: int(a.attempt), Result: result, Err: err, Left: a.left()}), result, err)
}

// step does what Follow wants after an answer.
func (a *actor) step(c *actors.Context, s Step, result Result, err error) {
	switch {
	case s.Retry != nil && s.Retry.After > 0:
		a.pauseFor(c, s.Retry)
	case s.Retry != nil:
		a.again(c, s.Retry)
	case s.Wait != nil:
		a.waitFor(c, s, &wait{clocks: s.Clocks, token: s.Token, result: result, err: err})
	case s.Outcome != nil:
		a.finish(c, s.Outcome.Result, s.Outcome.Err)
	default:
		a.finish(c, result, err)
	}
}

// tooMany ends a call that has no end.
func (a *actor) tooMany(c *actors.Context) {
	a.finish(c, Result{}, fmt.Errorf("%s: %w", a.call.req.Method, ErrTooManyAttempts))
}

// pauseFor waits before another attempt.
func (a *actor) pauseFor(c *actors.Context, r *Retry) {
	if err := a.call.setAside(); err != nil {
		a.finish(c, Result{}, err)
		return
	}
	a.call.more.next, a.call.more.pause = r, a.table.now()+r.After
	a.look(c)
}

// goOn is the end of a pause: of one that was asked for, or of the one after which
// a parked request may use the connection on which it has failed.
func (a *actor) goOn(c *actors.Context) {
	x := a.call.more
	next := x.next
	x.next, x.pause = nil, 0
	if next != nil {
		a.again(c, next)
		return
	}
	a.call.lift()
	a.look(c)
}

// again lets the call wait for its turn to be sent, which comes at once if there
// is a connection.
func (a *actor) again(c *actors.Context, r *Retry) {
	if a.attempt >= maxAttempts {
		a.tooMany(c)
		return
	}
	a.state = waiting
	a.fresh()
	if err := a.call.again(r); err != nil {
		a.finish(c, Result{}, err)
		return
	}
	a.look(c)
}

// waitFor begins a Wait. A panic in it fails the actor, and so ends the call.
func (a *actor) waitFor(c *actors.Context, s Step, w *wait) {
	if a.waits++; a.waits > maxAttempts {
		a.tooMany(c)
		return
	}
	if err := a.call.setAside(); err != nil {
		a.finish(c, Result{}, err)
		return
	}
	a.call.more.wait = w
	if s.Token {
		a.call.keepToken()
	}
	a.look(c)
	self := a.Ref()
	w.abort = s.Wait(func(s Step) {
		if w.called.CompareAndSwap(false, true) {
			self.Send(&resumed{wait: w, step: s})
		}
	})
}

// resumed ends a Wait.
func (a *actor) resumed(c *actors.Context, m *resumed) {
	a.call.more.wait = nil
	a.look(c)
	a.step(c, m.step, m.wait.result, m.wait.err)
}

// keepsToken reports whether the call waits, and its peer may still tell of progress.
func (a *actor) keepsToken(c *Call) bool {
	return c == a.call && a.state == between && c.more != nil && c.more.wait != nil && c.more.wait.token
}

// finish gives the outcome and is the only way back to idle. Its last act makes
// the actor available to another call.
func (a *actor) finish(c *actors.Context, result Result, err error) {
	call := a.call
	a.call = nil
	if a.timer != nil {
		a.timer.Clear()
	}
	if tag, ok := call.req.Tag.(interface{ Ends(error) }); ok && err != nil {
		tag.Ends(err)
	}
	if !a.table.finish(call, a, result, err) {
		c.Stop()
	}
}
