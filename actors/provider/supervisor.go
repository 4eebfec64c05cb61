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
// The circuit is in [Circuit].
type supervisor struct {
	p     *provider
	timer *actors.Timer // only while the rate makes a request wait

	out   int
	queue []*ticket // oldest first
	rate  rate

	circuit  string
	failures int // in a row
	until    time.Time
	probe    *ticket // the request that is out while half-open; nil for none
	last     error
}

// Messages. Those of a ticket that another incarnation has begun are dropped.
type (
	begin struct{ t *ticket } // a request has come
	want  struct{ t *ticket } // it is time for its next attempt
	ended struct {            // an attempt has, by itself
		t *ticket
		verdict
	}
	gone     struct{ t *ticket } // its completion has stopped
	answered struct{ t *ticket } // the first event of a probe has come
	rateDue  struct{}
)

// verdict is what an attempt says of the server.
type verdict struct {
	health health
	err    error // of a failure
}

type health uint8

const (
	unknown health = iota
	well
	ill
)

// judge says what an attempt that has ended by itself says of the server.
func judge(err error) verdict {
	e, ok := errors.AsType[*llm.Error](err)
	switch {
	case err == nil:
		return verdict{health: well}
	case !ok || !e.Retryable || errors.Is(err, llm.ErrRateLimit) || errors.Is(err, llm.ErrBadCall):
		return verdict{health: well} // it answers, if only with a refusal
	}
	return verdict{health: ill, err: err}
}

// Receive implements [actors.Actor].
func (s *supervisor) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		s.start(c)
	case *begin:
		s.begin(c, m.t)
	case *want:
		if m.t.by == s && m.t.place == aside {
			s.enqueue(m.t)
		}
	case *ended:
		if m.t.by == s && m.t.place == outside {
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
	case actors.Stopping:
		s.p.detach(c.Self(), m.Err)
		return
	}
	s.serve()
	s.p.publish(c.Self(), State{InFlight: s.out, Circuit: s.circuit, Failures: s.failures, Until: s.until, LastError: s.last})
}

func (s *supervisor) start(c *actors.Context) {
	s.timer = c.NewTimer(rateDue{})
	s.circuit = circuitClosed
	s.rate.limit = s.p.opts.PerMinute
	for _, t := range s.p.attach(c.Self()) {
		s.begin(c, t)
	}
}

// begin starts the actor of a request.
func (s *supervisor) begin(c *actors.Context, t *ticket) {
	if t.by == s || t.ctx.Err() != nil {
		return
	}
	t.by, t.parent = s, c.Self()
	ref, err := c.Spawn(actors.Spec{
		Kind: actors.KindCompletion, Inline: true,
		New:    func() actors.Actor { return &completion{t: t} },
		OnStop: t.stopped,
	})
	if err != nil {
		t.by = nil
		t.fail(err)
		return
	}
	t.place = aside
	if t.begun(ref) {
		s.enqueue(t)
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

// gone takes a request out, wherever it is.
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
	switch v.health {
	case well:
		s.close()
	case ill:
		s.failures++
		s.last = v.err
		limit := s.p.opts.Circuit.Failures
		if probe || s.circuit == circuitClosed && limit > 0 && s.failures >= limit {
			s.circuit = circuitOpen
			s.until = time.Now().Add(s.p.opts.Circuit.Open)
		}
	}
}

// close is the server's return.
func (s *supervisor) close() {
	s.circuit, s.failures, s.probe, s.last = circuitClosed, 0, nil, nil
	s.until = time.Time{}
}

// serve gives places to those who wait, as far as there are any.
func (s *supervisor) serve() {
	for len(s.queue) > 0 && s.out < s.p.opts.Concurrency && s.passable() {
		if wait := s.rate.wait(time.Now()); wait > 0 {
			s.timer.Set(wait)
			return
		}
		t := s.pop()
		s.out++
		t.place = outside
		if s.circuit == circuitHalfOpen {
			s.probe = t
		}
		t.ref.Send(&granted{probe: t == s.probe})
	}
	if len(s.queue) == 0 && s.rate.limit > 0 {
		s.timer.Clear()
	}
}

// passable reports whether the circuit lets the next request through. While it is open
// it refuses all.
func (s *supervisor) passable() bool {
	if s.circuit == circuitOpen {
		left := time.Until(s.until)
		if left > 0 {
			for len(s.queue) > 0 {
				t := s.pop()
				t.place = aside
				t.ref.Send(&refused{after: left, err: s.last})
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
