package provider

import (
	"errors"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/llm"
)

// supervisor is the actor of a provider: it gives places to requests. A request is
//
//	        granted        ended
//	queued ────────▶ out ────────▶ aside
//	 │ ▲ │            │             │ │
//	 │ │ └── refused ─┼────────────▶│ │
//	 │ └──── want ────┼─────────────┘ │
//	 ▼ gone           ▼ gone          ▼ gone
//	over             over            over
//
// A request that finds a place free, with no request before it, is out at once, and over when
// its first attempt has ended well: this actor never hears of it. A first attempt that
// fails is handed to it, with its place.
//
// The circuit is in [Circuit].
type supervisor struct {
	p     *provider
	ref   actors.Ref
	timer *actors.Timer // only while the rate makes a request wait

	// The provider's lock guards what follows.
	coming int // messages begin and ended that are under way
	out    int
	queue  []*ticket // oldest first
	rate   rate

	circuit  string
	failures int // in a row
	until    time.Time
	probe    *ticket // the request that is out while half-open; nil for none
	last     error
	away     // see away.go
}

// Messages. Those of a ticket that another incarnation has begun are dropped.
type (
	begin struct { // a request has come
		t     *ticket
		by    *supervisor
		first *attemptEnded // of one that is out already; else nil
	}
	want  struct{ t *ticket } // it is time for its next attempt
	ended struct {            // an attempt has, by itself
		t *ticket
		verdict
	}
	gone     struct{ t *ticket } // its completion has stopped
	answered struct{ t *ticket } // the first event of a probe has come
	freed    struct{}            // by a request that was out at once
	rateDue  struct{}
)

// letter is a message to a completion, which is sent without the lock.
type letter struct {
	to  actors.Ref
	msg any
}

// verdict is what an attempt says of the server.
type verdict struct {
	health health
	err    error // nil if the attempt has not failed
}

type health uint8

const (
	unknown health = iota
	well
	ill
	refusing // it answers, but to refuse the key or the account
)

// judge says what an attempt that has ended by itself says of the server.
func judge(err error) verdict {
	e, ok := errors.AsType[*llm.Error](err)
	switch {
	case err == nil:
		return verdict{health: well}
	case errors.Is(err, llm.ErrAuth), errors.Is(err, llm.ErrQuota):
		return verdict{health: refusing, err: err}
	case !ok || !e.Retryable || errors.Is(err, llm.ErrRateLimit) || errors.Is(err, llm.ErrBadCall):
		return verdict{health: well, err: err} // it answers, if only with a refusal
	}
	return verdict{health: ill, err: err}
}

// admit gives a request a place at once if it need not wait for one. It is called under the
// lock. With a rate all go through the actor, whose timer they may have to wait for.
func (s *supervisor) admit(t *ticket) bool {
	if s.coming > 0 || len(s.queue) > 0 || s.out >= s.p.opts.Concurrency || s.circuit != circuitClosed || s.rate.limit > 0 {
		s.coming++
		return false
	}
	s.out++
	t.by, t.place = s, outside
	return true
}

// hand hands a request to the actor, not on this goroutine, whose stack is to stay small.
func (s *supervisor) hand(t *ticket, first *attemptEnded) {
	s.ref.Go(func() { s.ref.Send(&begin{t, s, first}) })
}

// Receive implements [actors.Actor].
func (s *supervisor) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		s.start(c)
	case *begin:
		if m.by == s {
			s.begin(c, m.t, m.first)
		}
	case actors.Stopping:
		s.p.detach(s, m.Err)
		return
	}
	s.change(msg)
}

// change does what a message changes, and tells those whom it lets go out.
func (s *supervisor) change(msg any) {
	letters, n := s.handle(msg)
	for _, l := range letters {
		l.to.Send(l.msg)
	}
	s.p.report(n)
}

// handle does under the lock what a message changes, and serves those that wait.
func (s *supervisor) handle(msg any) ([]letter, []news) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	switch m := msg.(type) {
	case *begin:
		if m.by == s {
			s.coming--
		}
	case *want:
		if m.t.by == s && m.t.place == aside {
			s.enqueue(m.t)
		}
	case *ended:
		if m.t.by == s {
			s.coming--
			s.free(m.t, m.verdict)
		}
	case *gone:
		if m.t.by == s {
			s.gone(m.t)
		}
	case *answered:
		if m.t == s.probe {
			s.close()
		}
	}
	return s.serve(), s.takeNews()
}

func (s *supervisor) start(c *actors.Context) {
	s.ref, s.timer = c.Self(), c.NewTimer(rateDue{})
	s.circuit = circuitClosed
	s.rate.limit = s.p.opts.PerMinute
	for _, t := range s.p.attach(s) {
		s.begin(c, t, nil)
	}
}

// begin starts the actor of a request.
func (s *supervisor) begin(c *actors.Context, t *ticket, first *attemptEnded) {
	if first == nil && t.ctx.Err() != nil {
		return
	}
	attempts := 0
	if first == nil {
		t.by, t.place = s, aside
	} else {
		attempts = 1
	}
	t.parent = s.ref
	ref, err := c.Spawn(actors.Spec{
		Kind: actors.KindCompletion, Inline: true,
		New:    func() actors.Actor { return &completion{t: t, attempt: attempts} },
		OnStop: t.stopped,
	})
	switch {
	case err != nil:
		s.change(&gone{t})
		t.fail(err)
	case first != nil:
		t.note(ref)
		ref.Send(first)
	case t.begun(ref):
		s.change(&want{t})
	}
}

// enqueue puts a request behind those that came before it.
func (s *supervisor) enqueue(t *ticket) {
	t.place = queued
	i := len(s.queue)
	for i > 0 && s.queue[i-1].seq > t.seq {
		i--
	}
	s.queue = append(s.queue, nil)
	copy(s.queue[i+1:], s.queue[i:])
	s.queue[i] = t
}

// gone takes a request out, wherever it is. It is called under the lock, as what follows.
func (s *supervisor) gone(t *ticket) {
	switch t.place {
	case outside: // its caller has ended it, which says nothing of the server
		s.free(t, verdict{})
	case queued:
		for i, q := range s.queue {
			if q == t {
				s.queue = append(s.queue[:i], s.queue[i+1:]...)
				break
			}
		}
	}
	t.place, t.by = aside, nil
}

// free takes a place back and hears what the attempt says of the server.
func (s *supervisor) free(t *ticket, v verdict) {
	s.out--
	t.place = aside
	probe := t == s.probe
	if probe {
		s.probe = nil
	}
	s.p.count(v.err)
	switch v.health {
	case well:
		s.close()
	case refusing: // the server is there, so its circuit closes
		s.circuit, s.failures, s.probe, s.last, s.until = circuitClosed, 0, nil, v.err, time.Time{}
		s.leaves(true, v.err)
	case ill:
		s.failures++
		s.last = v.err
		limit := s.p.opts.Circuit.Failures
		if probe || s.circuit == circuitClosed && limit > 0 && s.failures >= limit {
			s.circuit = circuitOpen
			s.until = time.Now().Add(s.p.opts.Circuit.Open)
			s.leaves(false, v.err)
		}
	}
}

// close is the server's return.
func (s *supervisor) close() {
	s.circuit, s.failures, s.probe, s.last = circuitClosed, 0, nil, nil
	s.until = time.Time{}
	s.returns()
}

// serve gives places to those who wait, as far as there are any, and returns what to tell them. Once
// all are being ended, the place of one that has ended is not for another.
func (s *supervisor) serve() (tell []letter) {
	if s.p.now != s {
		return nil
	}
	for len(s.queue) > 0 && s.out < s.p.opts.Concurrency && s.passable(&tell) {
		if wait := s.rate.wait(time.Now()); wait > 0 {
			s.timer.Set(wait)
			return tell
		}
		t := s.pop()
		s.out++
		t.place = outside
		if s.circuit == circuitHalfOpen {
			s.probe = t
		}
		tell = append(tell, letter{t.ref, &granted{probe: t == s.probe}})
	}
	if len(s.queue) == 0 && s.rate.limit > 0 {
		s.timer.Clear()
	}
	return tell
}

// passable reports whether the circuit lets the next request through. While it is open
// it refuses all.
func (s *supervisor) passable(tell *[]letter) bool {
	if s.circuit == circuitOpen {
		left := time.Until(s.until)
		if left > 0 {
			for len(s.queue) > 0 {
				t := s.pop()
				t.place = aside
				*tell = append(*tell, letter{t.ref, &refused{after: left, err: s.last}})
			}
			return false
		}
		s.circuit, s.until = circuitHalfOpen, time.Time{}
	}
	return s.circuit == circuitClosed || s.probe == nil
}

func (s *supervisor) pop() *ticket {
	t := s.queue[0]
	s.queue[0] = nil
	if s.queue = s.queue[1:]; len(s.queue) == 0 {
		s.queue = nil // its room is that of the busiest moment
	}
	return t
}
