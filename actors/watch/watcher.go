// watcher.go: the actor that watches one task.
//
//	        a waiter                    answer: working
//	resting ──────────────▶ asking ──────────────────────▶ pausing
//	   ▲                     ▲  │ ▲  due, or a hint           │
//	   │ no waiter           │  │ └───────────────────────────┘
//	   └─────────────────────┼──┼── from every state
//	                         │  │ Core: terminal, or input_required     result
//	                         │  ├──────────────────────▶ fetching ─────────────▶ (stopped)
//	                         │  │ Extension: input_required
//	                         │  ├─ put the new questions; answers: tasks/update
//	                         │  │ Extension: terminal; unknown; failed too often
//	                         │  └──────────────────────────────────────────────▶ (stopped)
//
// Asking, pausing and fetching go together: while tasks/result holds a stream open
// for the peer's questions (TASK-10) the task is still asked for, so that its end is
// noticed whatever becomes of that stream.

package watch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// Bounds of one task.
const (
	maxFailures = 5                // in a row, of asking or fetching
	maxKeys     = 256              // questions in a task's life
	maxResent   = 3                // answers to one reading
	askLimit    = time.Minute      // for one tasks/get
	cancelLimit = 10 * time.Second // for tasks/cancel
)

// watcher is touched by its own goroutine only.
type watcher struct {
	task *Task
	seed *State // what it was created with, until more is known

	poll, limit *actors.Timer
	asking      bool // tasks/get is out
	fetching    context.CancelCauseFunc
	cancelling  bool
	last        time.Time // it was asked for, or told of
	due         time.Time // the poll timer is set to; zero if it is not
	failures    int
	steps       int // of the interval that we chose
	announced   bool

	asked    map[string]bool // questions that were put, by key (XTASK-11)
	rounds   map[*round]struct{}
	answers  mcp.InputResponses // not acknowledged yet
	updating bool
	resent   int
}

// round is a set of questions that is being answered.
type round struct {
	keys   []string
	cancel context.CancelCauseFunc
}

// Messages. Those with a pointer carry the outcome of work outside of the mailbox.
type (
	wanted    struct{} // there is a waiter
	left      struct{ owner bool }
	noticed   struct{ state State } // only the id: a hint
	announced struct{ on bool }
	pollDue   struct{}
	limitDue  struct{}
	polled    struct {
		state State
		err   error
	}
	fetched struct {
		result call.Result
		err    error
	}
	answered struct {
		round     *round
		responses mcp.InputResponses
		err       error
	}
	updated struct {
		keys []string
		err  error
	}
	cancelled struct {
		state *State // a core task's
		err   error
	}
)

// Receive implements [actors.Actor].
func (a *watcher) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		a.started(c)
	case wanted:
		a.setLimit(c)
		a.schedule(c)
	case *left:
		a.left(c, m.owner)
	case limitDue:
		a.setLimit(c)
	case pollDue:
		a.due = time.Time{}
		a.ask(c)
	case *noticed:
		a.noticed(c, m.state)
	case *announced:
		a.announced = m.on
		if !m.on {
			a.hint(c)
		}
	case *polled:
		a.polled(c, m)
	case *fetched:
		a.fetched(c, m)
	case *answered:
		a.answered(c, m)
	case *updated:
		a.updated(c, m)
	case *cancelled:
		a.cancelled(c, m)
	}
}

func (a *watcher) started(c *actors.Context) {
	a.poll, a.limit = c.NewTimer(pollDue{}), c.NewTimer(limitDue{})
	a.asked, a.rounds, a.answers = map[string]bool{}, map[*round]struct{}{}, mcp.InputResponses{}
	a.last = time.Now()
	a.task.attach(c.Self())
	a.setLimit(c) // there may be a waiter already
	a.schedule(c)
}

// schedule has the task asked for when its interval is over, if there is a waiter.
func (a *watcher) schedule(c *actors.Context) {
	state, known := a.task.State()
	switch {
	case a.task.idle() || a.asking || !a.due.IsZero():
	case !known:
		a.ask(c)
	case a.task.generation == Core && a.wantsResult(&state):
		a.fetch(c, &state)
		if !state.Terminal() {
			a.setPoll(a.last.Add(a.interval(&state)))
		}
	case a.task.generation == Extension && a.seed != nil && state.Status != mcp.TaskWorking:
		a.ask(c) // what it was created with has neither result nor questions (XTASK-07)
	default:
		a.setPoll(a.last.Add(a.interval(&state)))
	}
}

func (a *watcher) wantsResult(s *State) bool {
	return s.Status == mcp.TaskInputRequired || s.Status == mcp.TaskCompleted || s.Status == mcp.TaskFailed
}

func (a *watcher) setPoll(at time.Time) {
	a.due = at
	a.poll.SetAt(at)
}

// interval is the pause between two questions for the task: as it wishes, within
// bounds, and a little more, so that many tasks do not beat in time (XTASK-09).
func (a *watcher) interval(s *State) time.Duration {
	o := a.task.tasks.opts
	d := s.Poll
	if d == 0 {
		d = o.Poll << min(a.steps, 4)
		d = min(d, 10*o.Poll)
	}
	d = min(max(d, o.MinPoll), o.MaxPoll)
	if a.announced {
		d = max(d, o.Quiet)
	}
	if a.failures > 0 {
		d = max(d, o.Poll<<min(a.failures-1, 4))
	}
	return d + time.Duration(rand.Int64N(int64(d/10)+1))
}

// ask reads the task's state.
func (a *watcher) ask(c *actors.Context) {
	if a.asking || a.task.idle() {
		return
	}
	a.asking = true
	a.due = time.Time{}
	a.poll.Clear()
	t := a.task
	req := t.request(mcp.MethodGetTask)
	req.Max = askLimit
	actors.Await(c, func(ctx context.Context) (State, error) {
		res, err := t.tasks.opts.Do(ctx, req)
		if err != nil {
			return State{}, err
		}
		s, err := t.generation.Decode(res.Raw)
		switch {
		case err != nil:
			return State{}, &call.ResponseError{Method: mcp.MethodGetTask, Err: err}
		case s.ID != t.id:
			return State{}, &call.ResponseError{Method: mcp.MethodGetTask, Err: fmt.Errorf("it is about another task, %.100q", s.ID)}
		}
		return s, nil
	}, func(s State, err error) any { return &polled{s, err} })
}

// request makes a request about the task. All of them may be repeated.
func (t *Task) request(method string) *call.Request {
	params, _ := mcp.Marshal(&mcp.TaskParams{TaskID: t.id})                                  // ids come from JSON: they can be written
	return &call.Request{Method: method, Params: params, Name: t.id, Safe: true, Tag: t.tag} // Name: XTASK-17
}

func (a *watcher) polled(c *actors.Context, m *polled) {
	a.asking = false
	a.seed = nil
	a.last = time.Now()
	a.steps++
	if m.err != nil {
		a.failed(c, m.err)
		return
	}
	a.failures = 0
	a.learned(c, &m.state)
}

// failed goes on after a question for the task that came to nothing, unless there
// is no hope.
func (a *watcher) failed(c *actors.Context, err error) {
	e, fromPeer := errors.AsType[*mcp.Error](err)
	switch {
	case fromPeer && e.Code == mcp.CodeInvalidParams: // TASK-15, TASK-16, XTASK-16
		a.end(c, call.Outcome{Err: &unknownError{ID: a.task.id, Err: err}})
	case fromPeer && (e.Code == mcp.CodeMethodNotFound || e.Code == mcp.CodeMissingClientCapability),
		errors.Is(err, call.ErrClosed), a.failures+1 >= maxFailures:
		a.end(c, call.Outcome{Err: &leftError{fmt.Errorf("watching task %s: %w", a.task.id, err)}})
	default:
		a.failures++
		a.task.tasks.opts.Logger.Debug("a task could not be asked for", "task", a.task.id, "error", err)
		if state, _ := a.task.State(); !a.task.idle() {
			a.setPoll(a.last.Add(a.interval(&state)))
		}
	}
}

// learned acts on what the peer says of the task.
func (a *watcher) learned(c *actors.Context, s *State) {
	known, _ := a.task.State()
	if known.Terminal() && !s.Terminal() {
		return // final is final (TASK-06)
	}
	a.task.learn(*s)
	switch {
	case s.Status == mcp.TaskCancelled: // nothing more is to be read (TASK-12)
		a.end(c, call.Outcome{Err: &cancelledError{ID: a.task.id, Message: s.Message}})
		return
	case a.task.generation == Core && a.wantsResult(s):
		a.fetch(c, s)
		if s.Terminal() {
			return
		}
	case s.Terminal():
		a.end(c, s.outcome())
		return
	case a.task.generation == Extension && !a.task.idle():
		if !a.question(c, s) {
			return
		}
	}
	a.schedule(c)
}

// fetch asks for the result of a core task; before its end this is what gives the
// peer's questions a stream (TASK-09, TASK-10).
func (a *watcher) fetch(c *actors.Context, s *State) {
	if a.fetching != nil || a.task.idle() {
		return
	}
	t := a.task
	req := t.request(mcp.MethodTaskResult)
	req.Idle, req.Max = -1, -1 // those who wait have their limits
	if s.Terminal() {
		req.Idle, req.Max = 0, askLimit
	}
	a.fetching = actors.Await(c, func(ctx context.Context) (call.Result, error) { return t.tasks.opts.Do(ctx, req) },
		func(r call.Result, err error) any { return &fetched{r, err} })
}

func (a *watcher) fetched(c *actors.Context, m *fetched) {
	if a.fetching == nil {
		return // given up
	}
	a.fetching = nil
	_, fromPeer := errors.AsType[*mcp.Error](m.err)
	if m.err == nil || fromPeer { // the task's own, in the words of the request (TASK-09)
		a.end(c, call.Outcome{Result: m.result, Err: m.err})
		return
	}
	a.last = time.Now()
	a.failed(c, m.err)
}

// noticed takes a notice: a hint for a core task (TASK-14), the state itself of one
// of the extension (XTASK-14).
func (a *watcher) noticed(c *actors.Context, s State) {
	known, have := a.task.State()
	switch {
	case s.Status == "" || a.task.generation == Core:
		if s.Status == "" || s.Status != known.Status {
			a.hint(c)
		}
	case have && s.older(&known):
	default:
		a.seed = nil
		a.last = time.Now()
		a.due = time.Time{}
		a.poll.Clear()
		a.learned(c, &s)
	}
}

// hint has the task asked for as soon as decency allows.
func (a *watcher) hint(*actors.Context) {
	soon := a.last.Add(a.task.tasks.opts.MinPoll)
	if a.asking || a.task.idle() || !a.due.IsZero() && !soon.Before(a.due) {
		return
	}
	a.setPoll(soon)
}

// left is told when one who waited does not any more.
func (a *watcher) left(c *actors.Context, owner bool) {
	if owner {
		a.cancel(c)
	}
	if a.task.idle() {
		a.rest()
	}
}

// rest stops all that is done for those who wait.
func (a *watcher) rest() {
	a.due = time.Time{}
	a.poll.Clear()
	a.limit.Clear()
	if a.fetching != nil {
		a.fetching(ErrFailed)
		a.fetching = nil
	}
	for r := range a.rounds { // they are put again when there is a waiter
		a.withdraw(r)
		for _, key := range r.keys {
			delete(a.asked, key)
		}
	}
}

// setLimit ends the wait of those whose time is up, and waits for the next.
func (a *watcher) setLimit(c *actors.Context) {
	out, next := a.task.expired(time.Now())
	owner := false
	for _, w := range out {
		w.Resume(call.Outcome{Err: w.Timeout})
		owner = owner || w.Owner
	}
	if next.IsZero() {
		a.limit.Clear()
	} else {
		a.limit.SetAt(next)
	}
	if len(out) > 0 {
		a.left(c, owner)
	}
}

// cancel asks the peer to cancel the task: tasks/cancel, never
// notifications/cancelled (CANC-05, XTASK-13).
func (a *watcher) cancel(c *actors.Context) {
	t := a.task
	if a.cancelling {
		return
	}
	if t.tasks.opts.Cancels != nil && !t.tasks.opts.Cancels() {
		if t.idle() {
			a.end(c, call.Outcome{Err: &cancelledError{ID: t.id, Message: "no waiter is left, and the peer lets no task be cancelled"}})
		}
		return
	}
	a.cancelling = true
	req := t.request(mcp.MethodCancelTask)
	req.Max = cancelLimit
	actors.Await(c, func(ctx context.Context) (*State, error) {
		res, err := t.tasks.opts.Do(ctx, req)
		if err != nil || t.generation != Core {
			return nil, err
		}
		s, err := Core.Decode(res.Raw)
		return &s, err
	}, func(s *State, err error) any { return &cancelled{s, err} })
}

func (a *watcher) cancelled(c *actors.Context, m *cancelled) {
	a.cancelling = false
	if m.err != nil { // it has ended already, or is not known
		a.task.tasks.opts.Logger.Debug("a task could not be cancelled", "task", a.task.id, "error", m.err)
	}
	switch {
	case a.task.idle():
		a.end(c, call.Outcome{Err: &cancelledError{ID: a.task.id}})
	case m.state != nil && m.err == nil:
		a.learned(c, m.state)
	default:
		a.hint(c)
	}
}

// end gives the outcome and is the only way out.
func (a *watcher) end(c *actors.Context, out call.Outcome) {
	a.task.finish(out)
	c.Stop()
}
