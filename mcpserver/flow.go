package mcpserver

import (
	"container/list"
	"context"
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/ticket"
)

// flow is one call of 2026-07-28 with all its rounds: what was asked and what became of
// the retries, so that the same retry again is not another one (SHM-08, SECA-12). It is
// forgotten with its last ticket, or before if there are too many: then a retry runs
// the handler again, with the answers that are in the ticket.
type flow struct {
	id    string
	owner *owner
	until time.Time

	run    *run             // parked in round, or nil
	round  int              // the open one
	rounds map[int]*attempt // whose tickets were used
	size   int              // of the outcomes, in bytes
	place  *list.Element    // in the owner's list
}

// attempt is the work that one set of answers has set off.
type attempt struct {
	answers [sha256.Size]byte // which they were
	run     *run
	outcome *outcome // nil while it is at work, and when it was cancelled
}

// owner is a principal with calls in several rounds.
type owner struct {
	id     string
	flows  *list.List // of *flow, the oldest first
	parked []*run     // the oldest first
	kept   int64      // bytes that the parked handlers keep
	size   int        // of all outcomes, in bytes
}

// Bounds of what is remembered for one principal: of the parked handlers what they keep
// of their requests, and beside them. A call whose outcome did not fit is not carried out
// again: its retry is refused.
const (
	maxFlows       = 1000
	maxParkedBytes = 12 << 20
	maxOutcome     = 64 << 10
	maxOutcomes    = 4 << 20
	flowsSweepTime = time.Minute
)

// flows are those of a server.
type flows struct {
	server *Server

	mu     sync.Mutex // before the lock of a run
	all    map[string]*flow
	owners map[string]*owner
	sweep  *time.Timer // runs while there are any
	closed bool
}

// ownerOf returns the owner's entry, made if there is none. The methods from here on
// that do not lock are called with the lock held.
func (f *flows) ownerOf(id string) *owner {
	o := f.owners[id]
	if o == nil {
		o = &owner{id: id, flows: list.New()}
		if f.owners == nil {
			f.owners = make(map[string]*owner)
		}
		f.owners[id] = o
	}
	return o
}

// add remembers a flow.
func (f *flows) add(id, principal string, until time.Time) *flow {
	o := f.ownerOf(principal)
	for e := o.flows.Front(); e != nil && o.flows.Len() >= maxFlows; {
		old := e.Value.(*flow)
		if e = e.Next(); !old.busy() {
			f.forget(old)
		}
	}
	n := &flow{id: id, owner: o, until: until, rounds: make(map[int]*attempt)}
	n.place = o.flows.PushBack(n)
	if f.all == nil {
		f.all = make(map[string]*flow)
	}
	f.all[id] = n
	if f.sweep == nil && !f.closed {
		f.sweep = time.AfterFunc(flowsSweepTime, f.sweepNow)
	}
	return n
}

// busy reports whether a handler is kept for the flow, or at work: the same retry again
// must find it.
func (one *flow) busy() bool {
	for _, a := range one.rounds {
		if a.outcome == nil && !a.run.ended.Completed() {
			return true
		}
	}
	return one.run != nil
}

func (f *flows) forget(old *flow) {
	if f.all[old.id] != old {
		return
	}
	delete(f.all, old.id)
	o := old.owner
	o.flows.Remove(old.place)
	o.size -= old.size
	f.drop(o)
}

// drop forgets an owner of nothing.
func (f *flows) drop(o *owner) {
	if o.flows.Len() == 0 && len(o.parked) == 0 && f.owners[o.id] == o {
		delete(f.owners, o.id)
	}
}

// sweepNow forgets the flows whose tickets have expired.
func (f *flows) sweepNow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for _, one := range f.all {
		if !one.busy() && !now.Before(one.until) {
			f.forget(one)
		}
	}
	f.sweep = nil
	if len(f.all) > 0 && !f.closed {
		f.sweep = time.AfterFunc(flowsSweepTime, f.sweepNow)
	}
}

// close ends all parked handlers.
func (f *flows) close(cause error) {
	f.mu.Lock()
	f.closed = true
	if f.sweep != nil {
		f.sweep.Stop()
	}
	var parked []*run
	for _, o := range f.owners {
		parked = append(parked, o.parked...)
	}
	f.mu.Unlock()
	for _, n := range parked {
		n.abandon(cause)
	}
}

// note keeps the outcome of the round that a run has worked for.
func (f *flows) note(n *run, out *outcome) {
	a := n.attempt
	if a == nil {
		return
	}
	n.attempt = nil
	if f.all[n.flow.id] != n.flow { // forgotten meanwhile
		return
	}
	kept := *out
	o := n.flow.owner
	if size := kept.size(); size > maxOutcome || o.size+size > maxOutcomes {
		kept = outcome{err: errOutcomeLost}
	} else {
		n.flow.size += size
		o.size += size
	}
	a.outcome = &kept
}

// errOutcomeLost is the answer to a retry that was carried out already, with an outcome
// too large to keep.
var errOutcomeLost = mcp.Errorf(mcp.CodeInvalidParams, "requestState was used already")

// finished is told how a run has ended.
func (f *flows) finished(n *run, out *outcome, cancelled bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n.flow == nil {
		return
	}
	if !cancelled {
		f.note(n, out)
	}
	if n.flow.run == n {
		f.unpark(n)
	}
	f.forgetUnused(n.flow)
}

// forgetUnused forgets a flow of which no ticket was used: it is all in the ticket.
func (f *flows) forgetUnused(one *flow) {
	if one.run == nil && len(one.rounds) == 0 {
		f.forget(one)
	}
}

// publish ends the round of a run: result is its outcome. It returns the requests that
// wait for it, none if that is too late, and the runs that had to make room. The run
// waits in p from then on, unless that is nil.
func (f *flows) publish(n *run, t *ticket.Ticket, result []byte, p *parked) (waiting []*request, evicted []*run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n.mu.Lock()
	if waiting = n.release(); len(waiting) > 0 {
		n.parked = p
	}
	n.mu.Unlock()
	if len(waiting) == 0 {
		return nil, nil
	}
	if n.flow == nil || f.all[t.Flow] != n.flow { // it may have been forgotten meanwhile
		n.flow = f.all[t.Flow]
	}
	if n.flow == nil && p != nil {
		n.flow = f.add(t.Flow, n.first.principal.id(), t.Until)
	}
	if n.flow == nil {
		return waiting, nil
	}
	n.flow.until, n.flow.round = t.Until, n.round
	f.note(n, &outcome{result: result})
	if p != nil {
		evicted = f.park(n)
	}
	if f.closed {
		evicted = append(evicted, n)
	}
	return waiting, evicted
}

// handOver ends the round of a run that goes on for to, and returns the requests that
// wait for it, none if that is too late. The same retry again gets the same outcome.
func (f *flows) handOver(n *run, out *outcome, to *request) (waiting []*request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n.mu.Lock()
	if waiting = n.release(); len(waiting) > 0 {
		n.live, n.waiting = to, append(n.waiting, to)
	}
	n.mu.Unlock()
	if len(waiting) > 0 {
		f.note(n, out)
	}
	return waiting
}

// park remembers that a run waits for the answers of its open round, and returns those
// that had to make room for it.
func (f *flows) park(n *run) (evicted []*run) {
	o := n.flow.owner
	if old := n.flow.run; old != nil && old != n {
		f.unpark(old)
		evicted = append(evicted, old)
	}
	n.flow.run = n
	o.parked = append(o.parked, n)
	n.kept = n.keeps()
	o.kept += n.kept
	for len(o.parked) > f.server.opts.MaxParked || o.kept > maxParkedBytes && len(o.parked) > 1 {
		old := o.parked[0]
		f.unpark(old)
		f.forgetUnused(old.flow)
		evicted = append(evicted, old)
	}
	return evicted
}

// keeps is how many bytes of its request a parked handler keeps, as JSON and as what was
// decoded from it, and of what it was answered and has done. It is called by who asks.
func (n *run) keeps() int64 {
	size := int64(2*len(n.first.arguments) + n.first.meta.size())
	for _, a := range n.answers {
		size += 2 * int64(len(a.Result))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for key, raw := range n.once {
		size += int64(len(key)) + 2*int64(len(raw))
	}
	return size
}

// prolong gives a call that is asked again more time.
func (f *flows) prolong(n *run) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	until := time.Now().Add(f.server.opts.TicketTTL)
	if n.flow != nil {
		n.flow.until = until
	}
	return until
}

// unuse lets the ticket of a run be used again: what came with it was no answer.
func (f *flows) unuse(n *run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n.flow == nil || n.attempt == nil {
		return
	}
	for round, a := range n.flow.rounds {
		if a == n.attempt {
			delete(n.flow.rounds, round)
		}
	}
	n.attempt = nil
}

// unpark forgets that a run is parked.
func (f *flows) unpark(n *run) {
	o := n.flow.owner
	if i := slices.Index(o.parked, n); i >= 0 {
		o.parked = slices.Delete(o.parked, i, i+1)
		o.kept -= n.kept
	}
	if n.flow.run == n {
		n.flow.run = nil
	}
	f.drop(o)
}

// left forgets a run that is not parked any more and will not go on.
func (f *flows) left(n *run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n.flow != nil {
		f.unpark(n)
		f.forgetUnused(n.flow)
	}
}

// retried is what a retry brings: the ticket of its round, with all answers there are.
type retried struct {
	ticket   *ticket.Ticket
	complete bool
	answers  [sha256.Size]byte // which they are; of a complete one
}

// digest tells one set of answers from another.
func (t *retried) digest() error {
	raw, err := mcp.Marshal(t.ticket.Got)
	if err == nil {
		raw, err = jsonx.Canonical(raw)
	}
	t.answers = sha256.Sum256(raw)
	return err
}

// enter decides what a retry is: the next round of a parked handler, the same again,
// or a reason to run the handler once more, which is then returned.
func (f *flows) enter(r *request, t *retried, base context.Context) (*run, error) {
	var one *flow
	var before *run
	for {
		f.mu.Lock()
		if one = f.all[t.ticket.Flow]; one == nil {
			one, before = f.add(t.ticket.Flow, r.principal.id(), t.ticket.Until), nil
			break
		}
		met := f.meet(one, r, t)
		if met.then != nil {
			f.mu.Unlock()
			return nil, met.then()
		}
		if before = met.before; before == nil || before.ended.Completed() {
			break
		}
		f.mu.Unlock()
		select { // one at a time; then it has an outcome, or is known to have been cancelled
		case <-before.ended.Done():
		case <-r.Done():
			return nil, context.Cause(&r.Call)
		case <-base.Done():
			return nil, context.Cause(base)
		}
	}
	n := newRun(r, base)
	n.resumeFrom(t.ticket, before)
	n.flow = one
	if t.complete {
		n.attempt = &attempt{answers: t.answers, run: n}
		one.rounds[t.ticket.Round] = n.attempt
	}
	f.mu.Unlock()
	return n, nil
}

// meeting is what comes of a retry whose call is known.
type meeting struct {
	then   func() error // gives what its Handle returns; nil if the handler is to run again
	before *run         // the run that was to do so before, if there was one: it ends, or has ended
}

func (f *flows) meet(one *flow, r *request, t *retried) meeting {
	parks := func() error { return inbound.ErrParked }
	if a := one.rounds[t.ticket.Round]; a != nil {
		switch {
		case !t.complete || a.answers != t.answers:
			return meeting{then: func() error { return errUsed }}
		case a.outcome != nil:
			return meeting{then: func() error { return r.repeat(a.outcome) }}
		case a.run.join(r):
			return meeting{then: parks}
		}
		return meeting{before: a.run}
	}
	n := one.run
	if n == nil || one.round != t.ticket.Round {
		return meeting{}
	}
	p := n.parkedNow()
	if p == nil { // it was just given up
		return meeting{}
	}
	if !t.complete {
		return meeting{then: func() error { return n.askAgain(p, r, t.ticket) }}
	}
	if err := p.check(t.ticket); err != nil {
		return meeting{then: func() error { return err }}
	}
	a := &attempt{answers: t.answers, run: n}
	if !n.resume(p, r, t.ticket, func() { n.attempt = a }) {
		return meeting{}
	}
	one.rounds[t.ticket.Round] = a
	f.unpark(n)
	return meeting{then: parks}
}

// repeat answers a request with what an earlier one has got.
func (r *request) repeat(out *outcome) error {
	if out.err != nil {
		return out.err
	}
	r.respondRaw(out.result)
	return nil
}

// id is that of a principal; "" is nobody.
func (p *Principal) id() string {
	if p == nil {
		return ""
	}
	return p.ID
}
