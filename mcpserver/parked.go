package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/ticket"
)

// parked is a handler between two rounds: an actor that waits for the retry. It ends
// with the retry, or ends the handler when that does not come.
type parked struct {
	run     *run
	ask     []*Question // all of the round
	resumed chan struct{}

	// Guarded by the run's lock.
	ref actors.Ref // zero until it is started
	got map[string]json.RawMessage
}

type expired struct{}

// Receive implements [actors.Actor].
func (p *parked) Receive(c *actors.Context, msg any) {
	switch msg.(type) {
	case actors.Started:
		c.After(p.run.server.opts.ParkFor, expired{})
	case expired:
		p.run.giveUp(p, ErrAbandoned)
		c.Stop()
	}
}

// stopped is told that the actor is gone: by the retry, or somebody has stopped it.
func (p *parked) stopped(err error) {
	if err == nil {
		err = actors.ErrStopped
	}
	p.run.giveUp(p, fmt.Errorf("%w: %w", ErrAbandoned, err))
}

// started takes the actor, or the reason why there is none.
func (p *parked) started(ref actors.Ref, err error) {
	if err != nil {
		p.run.giveUp(p, fmt.Errorf("%w: %w", ErrAbandoned, err))
		return
	}
	n := p.run
	n.mu.Lock()
	over := n.parked != p
	p.ref = ref
	n.mu.Unlock()
	if over {
		ref.Stop()
	}
}

// unpark takes a run out of its waiting, once, and returns the actor to stop.
func (n *run) unpark(p *parked) (ref actors.Ref, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.parked != p {
		return actors.Ref{}, false
	}
	n.parked = nil
	return p.ref, true
}

func (n *run) parkedNow() *parked {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.parked
}

// giveUp ends a handler that waits, by its context: it is never let run on.
// False means that it does not wait any more.
func (n *run) giveUp(p *parked, cause error) bool {
	ref, ok := n.unpark(p)
	if !ok {
		return false
	}
	n.end(cause)
	ref.Stop()
	n.server.flows.left(n)
	return true
}

// abandon gives up whatever the run waits for.
func (n *run) abandon(cause error) {
	if p := n.parkedNow(); p != nil {
		n.giveUp(p, cause)
	}
}

// resume lets the handler go on for the retry r, with its answers. False means that it
// does not wait any more. Before is called before it goes on.
func (n *run) resume(p *parked, r *request, t *ticket.Ticket, before func()) bool {
	n.mu.Lock()
	if n.parked != p || n.over { // another goroutine of a handler that has returned may wait here
		n.mu.Unlock()
		return false
	}
	n.parked, n.live, n.waiting = nil, r, append(n.waiting, r)
	p.got = t.Got
	ref := p.ref
	before()
	n.mu.Unlock()
	close(p.resumed)
	ref.Stop()
	r.joins(n)
	return true
}

// askRound puts questions to a client of 2026-07-28: those that were not answered
// before end the request with input_required, and the answers come with the next.
func (n *run) askRound(ctx context.Context, qs []*Question) error {
	n.ownQuestions()
	n.next = min(n.next+int(n.skip.Swap(0)), len(n.answers))
	open, err := n.replay(qs)
	if err == nil && len(open) > 0 && n.asked == nil {
		open, err = n.brought(open)
	}
	if err != nil {
		return n.fail(err)
	}
	for len(open) > 0 {
		if err := n.park(ctx, qs, open); err != nil {
			return err
		}
		if open, err = n.settle(qs); err != nil {
			return n.fail(err)
		}
	}
	if count, ok := ctx.Value(askedKey{}).(*atomic.Int32); ok {
		count.Add(int32(len(qs)))
	}
	return n.visit(ctx, qs)
}

// askedKey is the key of a counter in the context of what is done once: of the questions
// answered in it, which are not asked again then.
type askedKey struct{}

// fail ends the call with an error of ours: the handler is not to mend it.
func (n *run) fail(err error) error {
	n.answerError(err)
	n.end(err)
	return err
}

// answerError ends the requests that wait with an error, before the handler has ended.
func (n *run) answerError(err error) {
	if _, ok := errors.AsType[*AnswerError](err); ok {
		n.server.flows.unuse(n) // the client may try again with better ones
	}
	wire := &outcome{err: wireOf(err)}
	n.mu.Lock()
	waiting := n.waiting
	n.waiting = nil
	for _, w := range waiting {
		w.ending = true
	}
	n.mu.Unlock()
	for _, w := range waiting {
		w.conclude(wire)
	}
}

// wireOf is what a client is told of a question or an answer that is wrong.
func wireOf(err error) error {
	if e, ok := errors.AsType[*AnswerError](err); ok { // MRTR-07
		return mcp.Errorf(mcp.CodeInvalidParams, "%s", shorten(e.Error()))
	}
	return err
}

// replay hands out the answers that there are, of a handler that runs again, and
// returns the questions that are left. Questions are matched by key, order and digest.
func (n *run) replay(qs []*Question) (open []*Question, err error) {
	for _, q := range qs {
		if n.next < len(n.answers) {
			a := n.answers[n.next]
			if !q.is(a.Question) {
				return nil, mismatch(q, a.Question)
			}
			n.next++
			n.take(q, a.ID)
			if err := q.settle(a.Result); err != nil {
				return nil, err
			}
			continue
		}
		open = append(open, q)
	}
	if len(n.asked) == 0 || len(open) == 0 {
		return open, nil
	}
	if len(open) != len(n.asked) {
		return nil, mismatch(open[0], n.asked[0])
	}
	for i, q := range open {
		if !q.is(n.asked[i]) {
			return nil, mismatch(q, n.asked[i])
		}
		n.take(q, n.asked[i].ID)
	}
	return n.settle(qs)
}

// brought hands out the answers that a request has brought before it was asked, and
// returns the questions that are left. A client that knows what it will be asked may
// answer at once: without a state of ours nothing else follows from it. Keys that nobody
// asks for are ignored (MRTR-05). Pages are left out: whether somebody was there is not
// for the client to say.
func (n *run) brought(open []*Question) ([]*Question, error) {
	r := n.current()
	isPage := func(q *Question) bool { return q.page != nil }
	if len(r.responses) == 0 || r.state != nil || r != n.first || slices.ContainsFunc(open, isPage) {
		return open, nil
	}
	var responses mcp.InputResponses
	if r.responses[0] != '{' || jsonx.Unmarshal(r.responses, &responses) != nil { // MRTR-07
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "inputResponses is not an object")
	}
	got := make(map[string]json.RawMessage, len(open))
	for _, q := range open {
		raw, there := responses[q.key]
		if !there {
			continue
		}
		if err := checkAnswer(q.key, q.method, raw); err != nil {
			return nil, err
		}
		got[q.key] = raw
	}
	if len(got) == 0 {
		return open, nil
	}
	for _, q := range open {
		n.asked = append(n.asked, q.entry())
	}
	n.got = got
	return n.settle(open)
}

// take gives a question by URL the id that it has had.
func (n *run) take(q *Question, id string) {
	if q.page != nil {
		q.page.id = id
	}
}

// mismatch says that a handler has not asked again what it had asked (MRTR-30).
func mismatch(q *Question, was ticket.Question) error {
	return mcp.Errorf(mcp.CodeInternal, "the handler asks %q where it had asked %q: its questions must follow from its arguments and earlier answers",
		shorten(q.key), shorten(was.Key))
}

// settle hands out the answers of the open round. When all are there it is over;
// else those that are missing are returned, to be asked again (MRTR-05).
func (n *run) settle(qs []*Question) (open []*Question, err error) {
	for _, e := range n.asked {
		i := slices.IndexFunc(qs, func(q *Question) bool { return q.key == e.Key })
		raw, there := n.got[e.Key]
		if !there {
			open = append(open, qs[i])
			continue
		}
		if err := qs[i].settle(raw); err != nil {
			return nil, err
		}
		qs[i].fresh = true
	}
	if len(open) > 0 {
		return open, nil
	}
	for _, e := range n.asked {
		e.Schema = nil
		n.answers = append(n.answers, ticket.Answer{Question: e, Result: n.got[e.Key]})
	}
	n.next, n.asked, n.got, n.round = len(n.answers), nil, nil, n.round+1
	return nil, nil
}

// park ends the round: the requests that wait are answered with the open questions,
// and the handler waits for the next request, if it is kept.
func (n *run) park(ctx context.Context, all, open []*Question) error {
	if err := missing(n.current().capabilities(), open); err != nil {
		return err
	}
	if n.asked == nil {
		for _, q := range all {
			if q.page != nil {
				if err := n.openPage(q); err != nil {
					return err
				}
			}
			n.asked = append(n.asked, q.entry())
		}
		n.got = make(map[string]json.RawMessage)
	}
	return n.rest(ctx, all, open)
}

// reopen makes a round of questions that are answered: what they were asked for is not
// done yet.
func (n *run) reopen(qs []*Question) {
	n.got, n.asked = make(map[string]json.RawMessage, len(qs)), nil
	for _, a := range n.answers[len(n.answers)-len(qs):] {
		n.asked, n.got[a.Key] = append(n.asked, a.Question), a.Result
	}
	n.answers = n.answers[:len(n.answers)-len(qs)]
	n.next = len(n.answers)
}

// rest is the time between two rounds.
func (n *run) rest(ctx context.Context, all, open []*Question) error {
	p := &parked{run: n, ask: all, resumed: make(chan struct{})}
	if err := n.publish(open, nil, p); err != nil {
		return err
	}
	if n.server.opts.NoParking {
		n.end(ErrSuspended)
		return ErrSuspended
	}
	n.server.spawnChild(actors.Spec{Kind: actors.KindParked, New: func() actors.Actor { return p }, OnStop: p.stopped}, p.started)
	select {
	case <-p.resumed:
		n.got = p.got
		return nil
	case <-n.ctx.Done():
		n.giveUp(p, context.Cause(n.ctx))
	case <-ctx.Done(): // the handler's own limit: nobody is there to hear what it makes of it
		if n.giveUp(p, context.Cause(ctx)) {
			return context.Cause(ctx)
		}
		select { // the answers come at this moment, unless it has ended
		case <-p.resumed:
			n.got = p.got
			return nil
		case <-n.ctx.Done():
		}
	}
	return context.Cause(n.ctx)
}

// publish answers the requests that wait with input_required. The handler waits from
// then on in p, unless that is nil or handlers are not kept.
func (n *run) publish(open []*Question, state *string, p *parked) error {
	t := n.ticket(state)
	result, err := n.inputRequired(n.current(), t, open)
	if err != nil {
		return err
	}
	if n.server.opts.NoParking {
		p = nil
	}
	waiting, evicted := n.server.flows.publish(n, t, result, p)
	for _, old := range evicted {
		old.abandon(ErrAbandoned)
	}
	if len(waiting) == 0 {
		return n.gone()
	}
	for _, w := range waiting {
		w.conclude(&outcome{result: result})
	}
	return nil
}

// ticket is what the client is given to bring back.
func (n *run) ticket(state *string) *ticket.Ticket {
	if n.flowID == "" {
		n.flowID = uuid.NewString()
	}
	return &ticket.Ticket{
		Flow: n.flowID, Round: n.round, Until: time.Now().Add(n.server.opts.TicketTTL),
		Answers: n.answers, Once: n.doneSoFar(), Asked: n.asked, Got: n.got, Waits: n.waits, State: state,
	}
}

// inputRequired encodes the answer that asks (MRTR-02).
func (n *run) inputRequired(r *request, t *ticket.Ticket, open []*Question) ([]byte, error) {
	state, err := n.server.seal(n.ctx, t, r)
	if err != nil {
		return nil, err
	}
	result := mcp.InputRequiredResult{RequestState: &state}
	if len(open) > 0 {
		result.InputRequests = make(mcp.InputRequests, len(open))
		for _, q := range open {
			result.InputRequests[q.key] = q.input()
		}
	}
	raw, err := mcp.MarshalResult(&result, r.version)
	if err != nil {
		return nil, fmt.Errorf("asking the client: %w", err)
	}
	return n.server.withMeta(raw, r.version), nil
}

// resumeFrom gives a handler that runs again what is in its ticket, and what was done
// once by the run before it, which was cancelled.
func (n *run) resumeFrom(t *ticket.Ticket, before *run) {
	n.ownQuestions()
	n.flowID, n.round, n.answers, n.asked, n.got, n.waits = t.Flow, t.Round, t.Answers, t.Asked, t.Got, t.Waits
	n.once = maps.Clone(t.Once)
	if before != nil {
		for key, raw := range before.doneSoFar() {
			n.keep(key, raw)
		}
	}
	if t.State != nil {
		n.retry = &retryStyle{responses: t.Got, state: *t.State}
		n.asked, n.got, n.round = nil, nil, t.Round+1
	}
}

// askAgain answers a retry that lacks answers with the questions that are left; the
// handler waits on (MRTR-05).
func (n *run) askAgain(p *parked, r *request, t *ticket.Ticket) error {
	var open []*Question
	for _, q := range p.ask {
		if _, there := t.Got[q.key]; !there {
			open = append(open, q)
		}
	}
	if err := missing(r.capabilities(), open); err != nil {
		return r.told(err)
	}
	again := *t
	again.Until = n.server.flows.prolong(n)
	result, err := n.inputRequired(r, &again, open)
	if err != nil {
		return err
	}
	r.respondRaw(result)
	return nil
}

// check holds the answers of a complete retry against the questions, which are left as
// they are.
func (p *parked) check(t *ticket.Ticket) error {
	for _, q := range p.ask {
		trial := *q
		if err := trial.settle(t.Got[q.key]); err != nil {
			return wireOf(err)
		}
	}
	return nil
}

// again begins a request that brings back a ticket.
func (r *request) again(base context.Context) (*run, error) {
	t, err := r.retried()
	if err != nil {
		return nil, err
	}
	return r.session.server.flows.enter(r, t, base)
}

// retried reads what a retry brings.
func (r *request) retried() (*retried, error) {
	t, err := r.session.server.unseal(r)
	if err != nil {
		return nil, err
	}
	var responses mcp.InputResponses
	if r.responses != nil {
		if r.responses[0] != '{' || jsonx.Unmarshal(r.responses, &responses) != nil { // MRTR-07
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "inputResponses is not an object")
		}
	}
	got := maps.Clone(t.Got)
	if got == nil {
		got = make(map[string]json.RawMessage, len(responses))
	}
	re := &retried{ticket: t, complete: true}
	for _, e := range t.Asked { // keys that were not asked for are ignored (MRTR-05)
		raw, there := responses[e.Key]
		if there {
			if err := checkAnswer(e.Key, e.Method, raw); err != nil {
				return nil, wireOf(err)
			}
			if _, had := got[e.Key]; !had || e.ID != "" {
				got[e.Key] = raw
			}
		}
		if _, has := got[e.Key]; !has {
			re.complete = false
		} else if err := r.session.server.checkSchema(&e, got[e.Key], r.version); err != nil {
			return nil, err
		}
	}
	t.Got = got
	if t.State != nil { // the handler looks for itself what is there
		re.complete = true
	}
	return re, re.digest()
}
