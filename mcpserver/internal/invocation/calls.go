package invocation

import (
	"container/list"
	"crypto/sha256"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
)

// Bounds of the memory for one principal: of the parked handlers what they keep of
// their requests, and beside them. A call whose outcome did not fit is not carried out
// again: its retry is refused.
const (
	maxCalls       = 1000
	maxParkedBytes = 12 << 20
	maxOutcome     = 64 << 10
	maxOutcomes    = 4 << 20
	sweepTime      = time.Minute
)

// Options are all needed.
type Options struct {
	Spawn     actors.SpawnFunc
	Go        func(func())  // runs what may wait
	MaxParked int           // for one principal
	ParkFor   time.Duration // how long a handler waits for answers
	Abandoned error         // what ends one that waits in vain
	Finished  error         // what ends the context of one that has returned
}

// Ticket is what a client brings back from a round.
type Ticket struct {
	Call  string
	Round int
	Until time.Time // it is worth nothing from then on
}

// Retry is a request that brings a ticket.
type Retry struct {
	Ticket
	Principal string
	Complete  bool              // all answers are there
	Answers   [sha256.Size]byte // which they are, of a complete one
}

// Calls remembers the calls that have been asked, so that the same retry again is not
// another one (SHM-08, SECA-12). A call is forgotten with its last ticket, or before if
// there are too many: then a retry runs the handler again, with the answers that are in the
// ticket.
type Calls struct {
	opts Options

	mu         sync.Mutex // guards what follows, with all that hangs on it: requests, handlers and their actors look at the same calls, and an actor between them would be one more message for each
	byID       map[string]*call
	principals map[string]*principal
	sweep      *time.Timer // runs while there are any
	closed     bool
}

// call is one call of 2026-07-28 with all its rounds.
type call struct {
	id        string
	principal *principal
	until     time.Time
	round     int           // the open one
	rounds    map[int]*used // whose tickets were used
	size      int           // of the outcomes, in bytes
	place     *list.Element // in the principal's list

	parked    *Invocation // in the open round; nil while none is
	questions any         // of the parked one
	kept      int64       // bytes that it keeps
}

// used is what one set of answers has set off.
type used struct {
	answers [sha256.Size]byte
	by      *Invocation
	outcome *Outcome // nil while it is at work, and when it was cancelled
}

// principal has calls in several rounds.
type principal struct {
	id     string
	calls  *list.List // of *call, the oldest first
	parked []*call    // the oldest first
	kept   int64      // bytes that the parked handlers keep
	size   int        // of all outcomes, in bytes
}

// NewCalls returns an empty registry.
func NewCalls(opts Options) *Calls { return &Calls{opts: opts} }

// Found describes a retry's call. At most one field is set; none means that the
// handler is to be run again.
type Found struct {
	Outcome *Outcome    // the same retry came before, and this came of it
	Other   bool        // the ticket was used with other answers
	Working *Invocation // which carries out the same retry, or has not ended yet
	Parked  *Invocation // waits for the retry
	// Questions is what the parked one has asked.
	Questions any
}

// Find looks up the call of a retry. With an invocation, which is begun for the retry, that
// one takes the call if the handler is to be run; before is the one that had taken it, and
// has returned without an outcome.
func (s *Calls) Find(r *Retry, taker *Invocation) (found Found, before *Invocation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.byID[r.Call]
	if c != nil {
		if u := c.rounds[r.Round]; u != nil {
			switch {
			case !r.Complete || u.answers != r.Answers:
				return Found{Other: true}, nil
			case u.outcome != nil:
				return Found{Outcome: u.outcome}, nil
			case !u.by.returned.Completed():
				return Found{Working: u.by}, nil
			}
			before = u.by
		} else if c.parked != nil && c.round == r.Round {
			return Found{Parked: c.parked, Questions: c.questions}, nil
		}
	}
	if taker == nil {
		return Found{}, before
	}
	if c == nil {
		c = s.add(r.Ticket, r.Principal)
	}
	if r.Complete {
		c.rounds[r.Round] = &used{answers: r.Answers, by: taker}
	}
	return Found{}, before
}

// Prolong gives a call that is asked again more time.
func (s *Calls) Prolong(id string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.byID[id]; c != nil {
		c.until = until
	}
}

// Close ends all parked handlers, and those that would be parked from now on.
func (s *Calls) Close(cause error) {
	s.mu.Lock()
	s.closed = true
	if s.sweep != nil {
		s.sweep.Stop()
	}
	var parked []*Invocation
	for _, p := range s.principals {
		for _, c := range p.parked {
			parked = append(parked, c.parked)
		}
	}
	s.mu.Unlock()
	for _, n := range parked {
		n.Abandon(cause)
	}
}

// asked remembers that a round has ended with questions, and that the invocation is parked
// in it, if it is. It returns those that have to make room.
func (s *Calls) asked(n *Invocation, r *Round) (evicted []*Invocation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.byID[r.Call]
	if c == nil && !r.Park {
		return nil // it is all in the ticket
	}
	if c == nil {
		c = s.add(r.Ticket, r.Principal)
	}
	c.until, c.round = r.Until, r.Round
	s.keep(c, n, Outcome{Result: r.Result})
	if r.Park {
		evicted = s.park(c, n, r)
	}
	if s.closed {
		evicted = append(evicted, n)
	}
	return evicted
}

// use takes a parked invocation out of its waiting for a retry, and reports false if it has
// lost its place.
func (s *Calls) use(n *Invocation, r *Retry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.byID[r.Call]
	if c == nil || c.parked != n || c.rounds[r.Round] != nil {
		return false
	}
	c.rounds[r.Round] = &used{answers: r.Answers, by: n}
	s.unpark(c)
	return true
}

// note keeps the outcome of the round that an invocation has worked for.
func (s *Calls) note(id string, n *Invocation, out Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.byID[id]; c != nil {
		s.keep(c, n, out)
	}
}

// unuse forgets the round that an invocation works for.
func (s *Calls) unuse(id string, n *Invocation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.byID[id]; c != nil {
		if round, u := c.work(n); u != nil {
			delete(c.rounds, round)
		}
	}
}

// left forgets a parked invocation that will not go on.
func (s *Calls) left(id string, n *Invocation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.byID[id]; c != nil {
		if c.parked == n {
			s.unpark(c)
		}
		s.forgetUnused(c)
	}
}

// finished remembers what an invocation has ended with.
func (s *Calls) finished(id string, n *Invocation, out Outcome, cancelled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.byID[id]; c != nil {
		if !cancelled {
			s.keep(c, n, out)
		}
		s.forgetUnused(c)
	}
}

// The methods from here on are called with the lock held.

// add remembers a call.
func (s *Calls) add(t Ticket, owner string) *call {
	p := s.principals[owner]
	if p == nil {
		p = &principal{id: owner, calls: list.New()}
		if s.principals == nil {
			s.principals, s.byID = make(map[string]*principal), make(map[string]*call)
		}
		s.principals[owner] = p
	}
	for e := p.calls.Front(); e != nil && p.calls.Len() >= maxCalls; {
		old := e.Value.(*call)
		if e = e.Next(); !old.busy() {
			s.forget(old)
		}
	}
	c := &call{id: t.Call, principal: p, until: t.Until, rounds: make(map[int]*used)}
	c.place = p.calls.PushBack(c)
	s.principals[owner] = p // it may have been dropped with the last of the old ones
	s.byID[t.Call] = c
	s.sweepLater()
	return c
}

// sweepLater sees to it that calls are forgotten when their tickets have expired.
func (s *Calls) sweepLater() {
	if s.sweep == nil && len(s.byID) > 0 && !s.closed {
		s.sweep = time.AfterFunc(sweepTime, s.sweepNow)
	}
}

func (s *Calls) sweepNow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, c := range s.byID {
		if !c.busy() && !now.Before(c.until) {
			s.forget(c)
		}
	}
	s.sweep = nil
	s.sweepLater()
}

// busy reports whether a handler is parked for the call, or at work: the same retry again
// must find it.
func (c *call) busy() bool {
	for _, u := range c.rounds {
		if u.outcome == nil && !u.by.returned.Completed() {
			return true
		}
	}
	return c.parked != nil
}

// work is the round that an invocation works for.
func (c *call) work(n *Invocation) (round int, u *used) {
	for round, u := range c.rounds {
		if u.by == n && u.outcome == nil {
			return round, u
		}
	}
	return 0, nil
}

func (s *Calls) forget(c *call) {
	delete(s.byID, c.id)
	c.principal.calls.Remove(c.place)
	c.principal.size -= c.size
	if c.principal.calls.Len() == 0 {
		delete(s.principals, c.principal.id)
	}
}

// forgetUnused forgets a call of which no ticket was used: it is all in the ticket.
func (s *Calls) forgetUnused(c *call) {
	if c.parked == nil && len(c.rounds) == 0 {
		s.forget(c)
	}
}

// keep remembers the outcome of the round that an invocation works for.
func (s *Calls) keep(c *call, n *Invocation, out Outcome) {
	_, u := c.work(n)
	if u == nil {
		return
	}
	if size := out.size(); size > maxOutcome || c.principal.size+size > maxOutcomes {
		out = Outcome{Err: errLost}
	} else {
		c.size += size
		c.principal.size += size
	}
	u.outcome = &out
}

// errLost is the answer to a retry that was carried out already, with an outcome too large
// to keep.
var errLost = mcp.Errorf(mcp.CodeInvalidParams, "requestState was used already")

// size is the memory for an outcome, in bytes.
func (o *Outcome) size() int {
	if e, ok := errors.AsType[*mcp.Error](o.Err); ok {
		return len(e.Message) + len(e.Data)
	}
	return len(o.Result)
}

// park remembers that an invocation waits for the answers of the open round, and returns
// those that have to make room for it.
func (s *Calls) park(c *call, n *Invocation, r *Round) (evicted []*Invocation) {
	if c.parked != nil {
		if c.parked != n {
			evicted = append(evicted, c.parked)
		}
		s.unpark(c)
	}
	p := c.principal
	c.parked, c.questions, c.kept = n, r.Questions, r.Kept
	p.parked = append(p.parked, c)
	p.kept += c.kept
	for len(p.parked) > s.opts.MaxParked || p.kept > maxParkedBytes && len(p.parked) > 1 {
		old := p.parked[0]
		evicted = append(evicted, old.parked)
		s.unpark(old)
		s.forgetUnused(old)
	}
	return evicted
}

func (s *Calls) unpark(c *call) {
	p := c.principal
	if i := slices.Index(p.parked, c); i >= 0 {
		p.parked = slices.Delete(p.parked, i, i+1)
		p.kept -= c.kept
	}
	c.parked, c.questions, c.kept = nil, nil, 0
}

// Len is how many calls are remembered.
func (s *Calls) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byID)
}

// Actors returns the actors of the handlers that are parked, or at work for a retry.
func (s *Calls) Actors() (all []actors.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.byID {
		n := c.parked
		for _, u := range c.rounds {
			if u.outcome == nil {
				n = u.by
			}
		}
		if n == nil {
			continue
		}
		if l := n.link.Load(); l != nil && l != unreachable {
			ref, _ := l.ref.Result()
			all = append(all, ref)
		}
	}
	return all
}
