// run.go: a handler at work that may ask.
//
//	         asks a client of 2026-07-28          the retry
//	working ─────────────────────────────▶ parked ──────────▶ working
//	   │ returns                              │ expires, is stopped
//	   ▼                                      ▼
//	 over                                   over
//
// It begins with a request, and may outlive it: what a client without connection is
// asked ends that request, and the answers come with another one.

package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/ticket"
)

// run is a handler at work. Its context is its own: that of a request ends with the
// request.
type run struct {
	server *Server
	first  *request // whose arguments it has, and on whose goroutine it runs
	ctx    context.Context
	end    context.CancelCauseFunc
	ended  actors.Reply[struct{}] // the handler has returned

	mu      sync.Mutex // guards what follows; nothing is called under it
	live    *request   // what the handler sees of the client: the newest request
	waiting []*request // for the outcome; none while it is parked
	one     [1]*request
	over    bool
	skip    atomic.Int32 // answers that belong to what is done already; not guarded
	parked  *parked      // nil while it works
	turn    chan struct{}
	once    map[string]json.RawMessage
	doing   map[string]chan struct{} // what is being done once, until closed

	// Of the goroutine whose turn it is to ask; to be written through ownQuestions.
	*questions

	// Guarded by the lock of Server.flows.
	flow    *flow    // nil before the first question
	attempt *attempt // that it works for; nil in the first round
	kept    int64    // bytes that it keeps, while it is parked

	retry *retryStyle // nil in the first round; set while the handler does not run
}

// newRun returns the run that r begins. Values of its context are those of base.
func newRun(r *request, base context.Context) *run {
	n := &run{server: r.session.server, first: r, live: r, questions: &noQuestions}
	n.one[0] = r
	n.waiting = n.one[:]
	if r.waits != nil {
		n.first, base = r.apart(), context.WithoutCancel(base)
	}
	n.ctx, n.end = context.WithCancelCause(base)
	r.joins(n)
	return n
}

// apart is a request with what its handler needs of r, for one that outlasts it while
// a middleware still works on the answer of r.
func (r *request) apart() *request {
	return &request{
		session: r.session, port: r.port, work: r.job(), version: r.version, client: r.client, principal: r.principal,
		arguments: r.arguments, ending: true,
		seldom: &seldom{token: r.token, responses: r.responses, state: r.state, meta: r.meta},
	}
}

// joins tells a request which run it belongs to, and the run if the request is over
// already.
func (r *request) joins(n *run) {
	r.run.Store(n)
	n.first.run.Store(n)
	if r.Err() != nil {
		n.left(r, context.Cause(&r.Call))
	}
}

// start carries out a call whose handler may ask.
func (r *request) start() error {
	n, err := r.enters(context.Background())
	if n == nil {
		return err
	}
	return n.carry()
}

// round is start inside of a middleware, which waits for what the client is answered:
// each round of a call passes through it.
func (r *request) round(ctx context.Context) (json.RawMessage, error) {
	r.own().waits = make(chan *outcome, 1)
	n, err := r.enters(ctx)
	switch {
	case n != nil:
		n.server.sys.Go(r.session.ref.Path(), func() { _ = n.carry() }) // its outcome comes below
	case err == nil:
		return resultIn(*r.out, r.ID()), nil
	case err != inbound.ErrParked:
		return nil, err
	}
	select {
	case out := <-r.waits:
		return out.result, out.err
	case <-ctx.Done(): // the middleware's own limit, or the call is over
		if n := r.run.Load(); n != nil {
			n.left(r, context.Cause(ctx))
		}
		return nil, context.Cause(ctx)
	}
}

// enters finds the run that a request belongs to. It returns the run if it is to be
// carried on this goroutine; else the error is what Handle returns.
func (r *request) enters(base context.Context) (*run, error) {
	if r.state != nil && r.version.Era() == mcp.EraModern && r.task == nil {
		return r.again(base)
	}
	return newRun(r, base), nil
}

// carry runs the handler, on the goroutine of its first request, and returns what that
// ends with.
func (n *run) carry() error {
	returned := false
	defer func() {
		if !returned { // the goroutine ends
			_ = n.finish(&actors.PanicError{Value: errors.New("the handler has ended its goroutine")})
		}
	}()
	_, err := actors.Guard(func() (struct{}, error) { return struct{}{}, n.handle() })
	returned = true
	return n.finish(err)
}

// finish tells all who wait for the outcome: err, or the answer in first.out. It
// returns what the first request's Handle must.
func (n *run) finish(err error) error {
	if e, ok := errors.AsType[*CapabilityError](err); ok {
		err = e.wire(n.first.version)
	}
	n.mu.Lock()
	n.over = true
	waiting, cancelled := n.waiting, n.ctx.Err() != nil
	n.waiting = nil
	own := n.first.waits == nil && !n.first.ending // its Handle says how it ends
	n.first.ending = true
	for _, w := range waiting {
		w.ending = true
	}
	n.mu.Unlock()
	n.end(inbound.ErrFinished)
	n.abandon(inbound.ErrFinished) // another goroutine of the handler may still ask

	others := slices.DeleteFunc(waiting, func(w *request) bool { return own && w == n.first })
	out := &outcome{err: err}
	if err == nil && (len(others) > 0 || own && n.first.state != nil) { // else nobody waits for it, and it may be sent already
		out.result = slices.Clone(resultIn(*n.first.out, n.first.ID()))
	}
	n.server.flows.finished(n, out, cancelled)
	n.ended.Complete(struct{}{}, nil)
	for _, w := range others {
		w.conclude(out)
	}
	if own {
		return err
	}
	if p, ok := err.(*actors.PanicError); ok { // where it is raised again its stack is not known
		n.server.log.Error("a handler panicked", "name", n.first.work.name(), "error", p, "stack", string(p.Stack))
	}
	return inbound.ErrParked
}

// conclude ends a request with an outcome that was made for another one.
func (r *request) conclude(out *outcome) {
	if r.waits != nil {
		r.waits <- out
		return
	}
	if out.err == nil {
		frame := mcp.AppendResult(nil, r.ID(), out.result)
		r.settled = &frame
	}
	r.Finish(out.err)
}

// left is told that a request is over which nobody has answered: it was cancelled, or
// took too long. The handler ends with the last that waits for it.
func (n *run) left(r *request, cause error) {
	n.mu.Lock()
	i := slices.Index(n.waiting, r)
	if i < 0 {
		n.mu.Unlock()
		return
	}
	n.waiting = slices.Delete(n.waiting, i, i+1)
	last := len(n.waiting) == 0
	if n.live == r && !last {
		n.live = n.waiting[len(n.waiting)-1]
	}
	parks := r != n.first && r.waits == nil // its Handle does not wait
	finish := parks && !r.ending
	r.ending = r.ending || parks
	n.mu.Unlock()
	if finish {
		n.server.sys.Go(r.session.ref.Path(), func() { r.Finish(nil) })
	}
	if last {
		n.end(cause)
	}
}

// current is the request that the handler works for now, or has worked for.
func (n *run) current() *request {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.live
}

// join lets another request wait for the outcome, and reports false if there will be
// none.
func (n *run) join(r *request) bool {
	n.mu.Lock()
	if n.over || len(n.waiting) == 0 {
		n.mu.Unlock()
		return false
	}
	n.waiting = append(n.waiting, r)
	n.live = r
	n.mu.Unlock()
	r.joins(n)
	return true
}

// release takes the requests that wait off the run, to be answered: the handler goes on
// without them. It is called with the lock held, and returns none if that is too late.
func (n *run) release() []*request {
	if n.over || n.ctx.Err() != nil {
		return nil
	}
	waiting := n.waiting
	n.waiting = nil
	for _, w := range waiting {
		w.ending = true
	}
	return waiting
}

// handOver answers the requests that wait with result, an object, and lets another
// one, that was begun and is not run, take their place: that of a task.
func (n *run) handOver(result []byte, to *request) error {
	waiting := n.server.flows.handOver(n, &outcome{result: result}, to)
	if len(waiting) == 0 {
		return n.gone()
	}
	for _, w := range waiting {
		w.conclude(&outcome{result: result})
	}
	to.joins(n)
	return nil
}

// gone says why nobody waits for the run: who was the last to leave may not have ended
// its context yet.
func (n *run) gone() error {
	if err := n.cancelled(); err != nil {
		return err
	}
	return inbound.ErrFinished
}

// cancelled returns why the handler is to end, nil while it is not.
func (n *run) cancelled() error {
	if n.ctx.Err() == nil {
		return nil
	}
	return context.Cause(n.ctx)
}

func (n *run) keep(key string, raw json.RawMessage) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.once == nil {
		n.once = make(map[string]json.RawMessage)
	}
	n.once[key] = raw
}

// doneSoFar is a copy of what was done once.
func (n *run) doneSoFar() map[string]json.RawMessage {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.once)
}

// asker is a task that a handler has become: its questions go another way.
type asker interface {
	// ask puts questions to a client of 2026-07-28, and waits for all answers.
	ask(ctx context.Context, qs mcp.InputRequests) (mcp.InputResponses, error)
	// asking says that a question to a legacy client is open, until done.
	asking(ctx context.Context) (done func())
	// mark adds to the params of such a question that it is the task's.
	mark(params json.RawMessage) json.RawMessage
}

// ask puts questions to whoever the handler works for.
func (n *run) ask(ctx context.Context, qs []*Question) error {
	leave, err := n.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	live := n.current()
	switch {
	case live.version.Era() == mcp.EraLegacy:
		return n.askNested(ctx, live, qs)
	case live.task != nil:
		return n.askTask(ctx, live, qs)
	}
	return n.askRound(ctx, qs)
}

// enter waits for the turn to ask: one question after the other, or the questions of a
// handler that runs again would not be those that were asked.
func (n *run) enter(ctx context.Context) (leave func(), err error) {
	n.mu.Lock()
	if n.turn == nil {
		n.turn = make(chan struct{}, 1)
	}
	turn := n.turn
	n.mu.Unlock()
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-n.ctx.Done():
		return nil, context.Cause(n.ctx)
	}
	leave = func() { <-turn }
	if err := n.cancelled(); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// askTask puts questions to the client of a task of 2026-07-28.
func (n *run) askTask(ctx context.Context, live *request, qs []*Question) error {
	if err := missing(live.capabilities(), qs); err != nil {
		return err
	}
	inputs := make(mcp.InputRequests, len(qs))
	for _, q := range qs {
		if q.page != nil {
			if err := n.openPage(q); err != nil {
				return err
			}
		}
		inputs[q.key] = q.input()
	}
	answers, err := live.task.ask(ctx, inputs)
	if err != nil {
		return err
	}
	for _, q := range qs {
		if err := q.settle(answers[q.key]); err != nil {
			q.Err = err
		} else if q.visited() {
			q.Err = n.waitForPage(ctx, q, nil)
		}
	}
	return nil
}

// capabilities are those the client has declared for the request (CAP-05).
func (r *request) capabilities() *mcp.ClientCapabilities {
	return r.client.capabilities.For(r.version)
}

// outcome is what a handler has ended with, or a round of it.
type outcome struct {
	result []byte // the result object; nil for an error, or when it was too large to keep
	err    error
}

// size is what is kept of it, in bytes.
func (o *outcome) size() int {
	if e, ok := errors.AsType[*mcp.Error](o.err); ok {
		return len(e.Message) + len(e.Data)
	}
	return len(o.result)
}

// questions are what a handler of 2026-07-28 has asked. Most never ask.
type questions struct {
	flowID  string          // of the tickets; empty before the first
	answers []ticket.Answer // of the rounds before
	next    int             // of them, what was handed out
	round   int
	asked   []ticket.Question // in this round, of a handler that runs again; else nil
	got     map[string]json.RawMessage
	waits   int
}

// noQuestions is what they share who have not asked. Nobody writes to it.
var noQuestions questions

// ownQuestions makes the questions the run's own, so that they can be written.
func (n *run) ownQuestions() {
	if n.questions == &noQuestions {
		n.questions = new(questions)
	}
}
