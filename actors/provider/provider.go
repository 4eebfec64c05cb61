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

	mu     sync.Mutex // guards what follows; nothing is sent under it
	ref    actors.Ref // of the newest actor; zero before the first
	ready  bool       // it has started, and not failed since
	live   map[*ticket]struct{}
	seq    uint64
	closed error // why no requests are taken any more
	seen   State // but for what State counts and looks up
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
}

// The states of a circuit.
const (
	circuitClosed   = "closed"
	circuitOpen     = "open"
	circuitHalfOpen = "half-open"
)

func newProvider(g *Group, name string, opts *Options) *provider {
	return &provider{group: g, name: name, opts: opts.withDefaults(),
		live: make(map[*ticket]struct{}), seen: State{Circuit: circuitClosed}}
}

// String returns the provider's name.
func (p *provider) String() string { return p.name }

// GoString returns what String does: %#v shows none of the models.
func (p *provider) GoString() string { return p.name }

// State returns what the provider does at the moment.
func (p *provider) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.seen
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

// enter takes a request in, or says why not.
func (p *provider) enter(t *ticket) error {
	p.mu.Lock()
	switch closed := p.closed; {
	case closed != nil:
		p.mu.Unlock()
		return closed
	case len(p.live) >= p.opts.Concurrency+p.opts.Queue:
		p.mu.Unlock()
		return ErrBusy
	}
	p.seq++
	t.seq = p.seq
	p.live[t] = struct{}{}
	ref, ready := p.ref, p.ready
	p.mu.Unlock()
	if ready { // else the actor finds it when it starts
		ref.Go(func() { ref.Send(&begin{t}) }) // not here: this goroutine's stack is to stay small
	}
	return nil
}

// forget is the end of a request.
func (p *provider) forget(t *ticket) {
	p.mu.Lock()
	delete(p.live, t)
	p.mu.Unlock()
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
func (p *provider) attach(ref actors.Ref) []*ticket {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ref, p.ready = ref, true
	p.seen = State{Circuit: circuitClosed}
	return p.sorted()
}

// detach ends the requests of an actor that ends.
func (p *provider) detach(ref actors.Ref, why error) {
	p.mu.Lock()
	mine := p.ready && p.ref == ref
	p.mu.Unlock()
	if mine {
		p.interrupt(why)
	}
}

// interrupt ends all requests; those that come later wait for an actor.
func (p *provider) interrupt(why error) {
	p.mu.Lock()
	p.ready = false
	p.seen = State{Circuit: circuitClosed}
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

// publish shows what the actor does.
func (p *provider) publish(ref actors.Ref, s State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ready && p.ref == ref {
		p.seen = s
	}
}

// wrap makes the error of a request of what is no model's own.
func (p *provider) wrap(m llm.Model, err error) *llm.Error {
	_, name, _ := strings.Cut(m.Name(), "/")
	return &llm.Error{Provider: p.name, Model: name, Err: err}
}
