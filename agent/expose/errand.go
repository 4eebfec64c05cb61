// errand.go: what one call of a client has set going, and what it asks that client.
//
//	            start                        outcome
//	(nothing) ─────────▶ under way ─────────────────────────▶ ended
//	                       │    ▲
//	  the call ends a round│    │the call comes again
//	                       ▼    │
//	                      left behind ── nobody comes for it ─▶ cancelled

package expose

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// caller is a call of a client: what *mcpserver.ToolRequest, PromptRequest and
// ResourceRequest have in common.
type caller interface {
	mcpserver.Requester
	Ask(ctx context.Context, questions ...*mcpserver.Question) error
	Client() mcpserver.Client
	Progress(progress, total float64, message string)
	Log(level mcp.LogLevel, logger string, data any)
	Task() string
}

// tasker is a call that may become a task.
type tasker interface {
	BeginTask(ctx context.Context) error
}

// errand is what one call from upstream has set going and that outlives the rounds of
// that call: a run, or a call of a server. It is the [mcpclient.Human] and the
// [mcpclient.Sampler] of what is called in it: what is asked there is put to the client.
type errand struct {
	id    string
	up    *upstream
	owner string // the principal's ID

	ctx    context.Context // ends with the call, but not with a round of it
	cancel context.CancelCauseFunc
	ended  actors.Reply[any] // the outcome
	wake   chan struct{}     // has room for one: there is something to ask
	turn   chan struct{}     // has room for one: held by the call that waits

	progress atomic.Uint64 // of reports without a measure

	mu    sync.Mutex
	call  caller      // that waits; nil while none does
	asked []*round    // of the questions that were put, in order
	open  []*question // that were not put yet, in order
	count int         // of all questions
	left  *time.Timer // runs while no call waits
}

// round is what was put to the client at once.
type round struct {
	questions []*question
	withdraw  func() // takes all of it back; nil while that is not possible. Under the errand's lock
}

// Bounds of one errand, and of what is kept for calls that may come again.
const (
	maxAsked = 200 // questions: a server that asks more is refused
	maxLeft  = 256 // errands of a front that no call waits for
)

var (
	// errUnknown is the outcome of a call that comes again and whose errand is gone.
	errUnknown = errors.New("it is not known what became of this call: what worked on it is gone, and it was not begun again")
	errLeft    = errors.New("the client has not come back for it")
	errAsked   = errors.New("too many questions in one call")
)

// runErrand is what a handler does that sets something going which may ask: it starts
// it, or finds what it has started before if it runs again, puts its questions to the
// client, and returns the outcome. What is started ends with the call.
func runErrand[T any](ctx context.Context, u *upstream, call caller, start func(ctx context.Context, e *errand) (T, error)) (T, error) {
	var none T
	fresh := false
	id, err := mcpserver.Once(ctx, call, "errand", func(context.Context) (string, error) {
		fresh = true
		return uuid.NewString(), nil
	})
	if err != nil {
		return none, err
	}
	var e *errand
	if fresh {
		e, err = u.newErrand(id, call, func(e *errand) (any, error) { return start(e.ctx, e) })
	} else {
		e, err = u.front.errands.find(id, principalID(u.principal))
	}
	if err != nil {
		return none, err
	}
	out, err := e.attend(ctx, call)
	if err != nil {
		return none, err
	}
	return out.(T), nil
}

// newErrand starts work as a task of the runtime's system. What it says at once is said to
// the call, too.
func (u *upstream) newErrand(id string, call caller, work func(*errand) (any, error)) (*errand, error) {
	e := &errand{id: id, up: u, call: call, owner: principalID(u.principal), wake: make(chan struct{}, 1), turn: make(chan struct{}, 1)}
	e.ctx, e.cancel = context.WithCancelCause(u.ctx)
	if err := u.front.errands.add(e); err != nil {
		e.cancel(err)
		return nil, err
	}
	u.add(e)
	u.front.rt.System().Go("expose", func() {
		out, err := actors.Guard(func() (any, error) { return work(e) })
		e.ended.Complete(out, err)
		e.cancel(nil)
		u.remove(e)
	})
	return e, nil
}

// attend puts the errand's questions to the client of the call until it has ended.
func (e *errand) attend(ctx context.Context, call caller) (any, error) {
	select {
	case e.turn <- struct{}{}: // always, for the call that has set it going
	default:
		select {
		case e.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	defer func() { <-e.turn }()
	e.enter(call)
	err := e.serve(ctx, call)
	if err == nil {
		e.leave(nil)
		return e.ended.Result()
	}
	e.leave(err)
	return nil, err
}

// serve returns nil once the errand has ended.
func (e *errand) serve(ctx context.Context, call caller) error {
	var long <-chan time.Time
	task, takes := call.(tasker)
	if takes {
		clock := time.NewTimer(e.up.front.taskAfter)
		defer clock.Stop()
		long = clock.C
	}
	for next := 0; ; {
		r := e.round(next, call)
		if r == nil {
			select {
			case <-e.ended.Done():
				return nil
			case <-e.wake:
			case <-long:
				_ = task.BeginTask(ctx) // it goes on as it is where it can not be one
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		}
		next++
		if err := e.put(ctx, call, r); err != nil {
			return err
		}
	}
}

// enter makes the call the one that waits.
func (e *errand) enter(call caller) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.call = call
}

// taken reports whether the errand was left behind, and is not from now on. It is called
// under the lock.
func (e *errand) taken() bool {
	if e.left == nil {
		return false
	}
	e.left.Stop()
	e.left = nil
	return true
}

// leave is told why the call does not wait any more: nil because there is an outcome.
// One that only ends a round leaves the errand for the next.
func (e *errand) leave(why error) {
	e.mu.Lock()
	e.call = nil
	e.mu.Unlock()
	switch {
	case why == nil:
		e.up.front.errands.remove(e)
	case comesAgain(why):
		e.up.front.errands.leave(e)
	default:
		e.cancel(why)
		e.up.front.errands.remove(e)
	}
}

// comesAgain reports whether the error that ends a handler lets it run again.
func comesAgain(err error) bool {
	_, answer := errors.AsType[*mcpserver.AnswerError](err)
	return answer || errors.Is(err, mcpserver.ErrSuspended) || errors.Is(err, mcpserver.ErrAbandoned)
}

// round returns what is to be put to the client as its n-th round, nil if there is
// nothing. Rounds of before are put again by a handler that runs again, so that its
// questions are those that were asked (MRTR-30); the answers are in its request.
func (e *errand) round(n int, call caller) *round {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n < len(e.asked) {
		return e.asked[n]
	}
	e.open = slices.DeleteFunc(e.open, (*question).withdrawn)
	caps := call.Client().Capabilities
	e.open = slices.DeleteFunc(e.open, func(q *question) bool {
		can := q.needs(caps)
		if !can {
			q.answer.Complete(nil, errCannotAsk)
		}
		return !can
	})
	if len(e.open) == 0 {
		return nil
	}
	// What needs no person does not wait for one.
	person := !slices.ContainsFunc(e.open, func(q *question) bool { return !q.person })
	r := new(round)
	e.open = slices.DeleteFunc(e.open, func(q *question) bool {
		now := q.person == person && len(r.questions) < maxRound
		if now {
			r.questions = append(r.questions, q)
		}
		return now
	})
	e.asked = append(e.asked, r)
	return r
}

// maxRound bounds what is asked at once: clients take few questions in one round.
const maxRound = 8

// add puts a question in the line.
func (e *errand) add(q *question) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.count++; e.count > maxAsked {
		return errAsked
	}
	q.key = "q" + itoa(e.count)
	e.open = append(e.open, q)
	select {
	case e.wake <- struct{}{}:
	default:
	}
	return nil
}

// current is the call that waits, nil while none does.
func (e *errand) current() caller {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.call
}

// Owner implements [mcpclient.Owned]: all calls of one client are answered by one
// person. Those of nobody may be several people's: what a server asks without saying for
// which of their calls must not be put to another (SECA-6).
func (e *errand) Owner() any {
	if e.up.shared() {
		return e
	}
	return e.up
}

// Progress passes on how far the errand has come.
func (e *errand) Progress(p mcpclient.Progress) {
	if call := e.current(); call != nil {
		total := 0.0
		if p.Total != nil {
			total = *p.Total
		}
		call.Progress(p.Progress, total, p.Message)
	}
}

// step reports that something has happened, where there is no measure of how far it is.
func (e *errand) step(message string) {
	n := e.progress.Add(1)
	if call := e.current(); call != nil {
		call.Progress(float64(n), 0, message)
	}
}

// log passes a log message on.
func (e *errand) log(level mcp.LogLevel, logger string, data any) {
	if call := e.current(); call != nil {
		call.Log(level, logger, data)
	}
}

// callOptions are those of a call of a server that is made for the errand.
func (e *errand) callOptions() *mcpclient.CallOptions {
	o := &mcpclient.CallOptions{Human: e, Progress: e.Progress}
	if e.up.samples() {
		o.Sampler = e
	}
	if e.up.hasRoots() {
		o.Roots = e.Roots
	}
	return o
}

// errands are those of a front, by id, so that a call that comes again finds its own.
type errands struct {
	keep time.Duration // how long one is kept that nobody waits for

	mu     sync.Mutex
	byID   map[string]*errand
	left   []*errand // that no call waits for, the longest first
	closed bool
}

func (t *errands) add(e *errand) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	if t.byID == nil {
		t.byID = make(map[string]*errand)
	}
	t.byID[e.id] = e
	return nil
}

// find returns the errand of an id, if it is the principal's (SECA-7).
func (t *errands) find(id, owner string) (*errand, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.byID[id]
	if e == nil || e.owner != owner {
		return nil, errUnknown
	}
	t.left = without(t.left, e)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.taken()
	return e, nil
}

func (t *errands) remove(e *errand) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byID, e.id)
	t.left = without(t.left, e)
}

// leave keeps an errand that no call waits for, for a while. Where there are too many the
// longest left of whoever has the most gives way (ROB-3).
func (t *errands) leave(e *errand) {
	e.mu.Lock()
	if e.call == nil && e.left == nil {
		e.left = time.AfterFunc(t.keep, func() { t.giveUp(e) })
	}
	e.mu.Unlock()
	t.mu.Lock()
	t.left = append(without(t.left, e), e)
	var out *errand
	if len(t.left) > maxLeft {
		out = t.left[mostOf(t.left, (*errand).whose)]
	}
	t.mu.Unlock()
	if out != nil {
		t.giveUp(out)
	}
}

// giveUp cancels an errand that nobody has come back for.
func (t *errands) giveUp(e *errand) {
	e.mu.Lock()
	taken := e.taken()
	e.mu.Unlock()
	if taken { // else somebody has
		e.cancel(errLeft)
		t.remove(e)
	}
}

// close ends all errands, also those that no call waits for.
func (t *errands) close() {
	t.mu.Lock()
	t.closed = true
	all := slices.Collect(maps.Values(t.byID))
	t.mu.Unlock()
	for _, e := range all {
		e.cancel(ErrClosed)
		t.giveUp(e)
	}
}

// whose tells those apart who leave errands behind: principals, and clients that did not
// say who they are.
func (e *errand) whose() any {
	if e.owner == "" {
		return e.up
	}
	return e.owner
}

// mostOf returns the index of the first element of whoever has the most: a flood drives
// out its own (SECA-9). There is at least one element.
func mostOf[E any](all []E, whose func(E) any) (first int) {
	count := make(map[any]int)
	most := 0
	for _, one := range all {
		count[whose(one)]++
		most = max(most, count[whose(one)])
	}
	return slices.IndexFunc(all, func(one E) bool { return count[whose(one)] == most })
}

func without(all []*errand, e *errand) []*errand {
	return slices.DeleteFunc(all, func(other *errand) bool { return other == e })
}

// principalID is "" for nobody.
func principalID(p *mcpserver.Principal) string {
	if p == nil {
		return ""
	}
	return p.ID
}
