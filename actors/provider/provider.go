package provider

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/llm"
)

// provider is the handle of one backend. It holds who is there; the actor behind it
// decides who may go out.
type provider struct {
	group *Group
	name  string
	opts  Options

	mu     sync.Mutex  // guards what follows; nothing is sent under it
	ref    actors.Ref  // of the newest actor; zero before the first
	now    *supervisor // its incarnation; nil before it has started, and once it has failed
	live   map[*ticket]struct{}
	seq    uint64
	errors map[string]int64 // failed attempts, by class; nil before the first
	closed error            // why no requests are taken any more
}

// State is what a provider does. It holds no keys, and of errors what [llm.Error] shows.
type State struct {
	InFlight int    // requests that are out
	Waiting  int    // for a place, or for their next attempt
	Circuit  string // "closed", "open" or "half-open"
	Failures int    // in a row
	// Until is when an open circuit lets the next request through; else zero.
	Until time.Time
	// LastError is what the newest failed attempt ended with, nil if there was none since
	// the last one that did not fail.
	LastError error
	// Class says why the provider is away, as [llm.Class] does: its circuit is not closed, or it
	// refuses the key ("auth") or the account ("quota"), where each request that goes out tries
	// again. Empty means that it works, as far as is known.
	Class string
	Since time.Time // it is away; else zero
}

// The states of a circuit.
const (
	circuitClosed   = "closed"
	circuitOpen     = "open"
	circuitHalfOpen = "half-open"
)

func newProvider(g *Group, name string, opts *Options) *provider {
	return &provider{group: g, name: name, opts: opts.withDefaults(),
		live: make(map[*ticket]struct{})}
}

// String returns the provider's name.
func (p *provider) String() string { return p.name }

// GoString returns what String does: %#v shows none of the models.
func (p *provider) GoString() string { return p.name }

// State returns what the provider does at the moment.
func (p *provider) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := State{Circuit: circuitClosed}
	if now := p.now; now != nil {
		s = State{InFlight: now.out, Circuit: now.circuit, Failures: now.failures, Until: now.until, LastError: now.last, Class: now.class, Since: now.since}
	}
	s.Waiting = max(0, len(p.live)-s.InFlight)
	if s.Circuit == circuitOpen && !time.Now().Before(s.Until) {
		s.Circuit = circuitHalfOpen
	}
	if s.Circuit != circuitOpen {
		s.Until = time.Time{}
	}
	return s
}

// behind returns m behind the provider: its requests wait for a place, are retried, and
// can be ended by others. The model has a method Unwrap that returns m.
func (p *provider) behind(m llm.Model) llm.Model { return &model{provider: p, model: m} }

// enter takes a request in, or says why not. One that need not wait has its place at once:
// it costs a lock that is held for some additions, and no actor.
func (p *provider) enter(t *ticket) (atOnce bool, err error) {
	p.mu.Lock()
	switch closed := p.closed; {
	case closed != nil:
		p.mu.Unlock()
		return false, closed
	case len(p.live) >= p.opts.Concurrency+p.opts.Queue:
		p.mu.Unlock()
		return false, ErrBusy
	}
	p.seq++
	t.seq = p.seq
	p.live[t] = struct{}{}
	s := p.now // without one, the actor finds the request when it starts
	atOnce = s != nil && s.admit(t)
	p.mu.Unlock()
	if s != nil && !atOnce {
		s.hand(t, nil)
	}
	return atOnce, nil
}

// owes returns the actor of a request that is out, which is about to be sent a message: no
// request gets a place at once before it has come. It returns nil if the request has been
// ended.
func (p *provider) owes(t *ticket) *supervisor {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil || t.by != p.now {
		return nil
	}
	p.now.coming++
	return p.now
}

// forget is the end of a request.
func (p *provider) forget(t *ticket) {
	p.mu.Lock()
	delete(p.live, t)
	p.mu.Unlock()
}

// release is the end of a request whose only attempt began at once.
func (p *provider) release(t *ticket, v verdict) {
	p.mu.Lock()
	delete(p.live, t)
	s := p.now
	waiting := false
	var n []news
	if s != nil && t.by == s {
		s.free(t, v)
		waiting = len(s.queue) > 0
		n = s.takeNews()
	}
	p.mu.Unlock()
	p.report(n)
	if waiting {
		s.ref.Send(freed{})
	}
}

func (p *provider) actor() actors.Ref {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ref
}

// started notes the provider's actor.
func (p *provider) started(ref actors.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ref = ref
}

// attach says that the actor takes requests from now on, and returns those that wait
// for it, in order.
func (p *provider) attach(s *supervisor) []*ticket {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ref, p.now = s.ref, s
	return p.sorted()
}

// detach ends the requests of an actor that ends.
func (p *provider) detach(s *supervisor, why error) {
	p.mu.Lock()
	mine := p.now == s
	p.mu.Unlock()
	if mine {
		p.interrupt(why)
	}
}

// interrupt ends all requests; those that come later wait for an actor.
func (p *provider) interrupt(why error) {
	p.mu.Lock()
	p.now = nil
	all := p.sorted()
	p.mu.Unlock()
	for _, t := range all {
		t.fail(cmp.Or(why, actors.ErrStopped))
	}
}

// end ends all requests for good.
func (p *provider) end(why error) {
	p.mu.Lock()
	p.closed = cmp.Or(p.closed, why)
	p.mu.Unlock()
	p.interrupt(why)
}

// sorted returns the requests in the order of their coming. It is called under the lock.
func (p *provider) sorted() []*ticket {
	all := make([]*ticket, 0, len(p.live))
	for t := range p.live {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *ticket) int { return cmp.Compare(a.seq, b.seq) })
	return all
}

// wrap makes the error of a request of what is no model's own.
func (p *provider) wrap(m llm.Model, err error) *llm.Error {
	_, name, _ := strings.Cut(m.Name(), "/")
	return &llm.Error{Provider: p.name, Model: name, Err: err}
}
