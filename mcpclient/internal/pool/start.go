package pool

import (
	"context"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/conn"
)

// mayStart reports whether there may be one more instance now.
func (p *Pool) mayStart() bool {
	return len(p.all)-p.held() < p.Most && !p.closed && !time.Now().Before(p.paused)
}

// start begins one more instance; calls may be lent it at once, and wait for its start.
func (p *Pool) start() *Instance {
	i := &Instance{pool: p, n: 2, starting: true, over: make(chan struct{})}
	for slices.ContainsFunc(p.all, func(o *Instance) bool { return o.n == i.n }) {
		i.n++
	}
	p.all = append(p.all, i)
	p.todo = append(p.todo, func() { p.System.Go("starting an instance of "+p.Server, func() { p.begin(i) }) })
	return i
}

// begin connects an instance.
func (p *Pool) begin(i *Instance) {
	defer close(i.over)
	member, err := p.Make(i.n)
	if err == nil {
		err = p.connect(i, member)
	}
	closed := false
	p.update(func() {
		closed = p.closed
		p.begun(i, err)
	})
	if member != nil && (err != nil || closed) {
		p.Discard(member)
	}
}

// connect waits for the first attempt of an instance to connect.
func (p *Pool) connect(i *Instance, member Member) error {
	closed := false
	p.update(func() { i.member, closed = member, p.closed })
	if closed {
		return p.Closed
	}
	return p.Connect(member)
}

// begun lends the instance to the calls that wait for it. Without one they wait for
// another: some servers can be started only once.
func (p *Pool) begun(i *Instance, err error) {
	pending := i.pending
	i.starting, i.pending, i.since = false, nil, time.Now()
	switch {
	case p.closed:
		for _, t := range pending {
			p.settle(t, nil, p.Closed)
		}
	case err != nil:
		p.remove(i)
		p.paused = time.Now().Add(startPause)
		p.waiting = slices.Insert(p.waiting, 0, pending...)
		p.Log.Warn("a further instance of the server could not be started: calls of other runs wait for those that there are",
			"instance", i.n, "instances", len(p.all), "error", err)
	default:
		p.Log.Debug("an instance was started", "instance", i.n)
		for _, t := range pending {
			p.settle(t, i, nil)
		}
	}
}

// Others are the clients of the instances but the first.
func (p *Pool) Others() (all []Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range p.all {
		if i.n > 1 && i.member != nil {
			all = append(all, i.member)
		}
	}
	return all
}

// Close ends the instances but the first, and every wait for one. It returns at once; done
// completes when they have ended.
func (p *Pool) Close(ctx context.Context) (done []*actors.Reply[struct{}]) {
	p.update(func() {
		p.closed = true
		for _, t := range p.waiting {
			p.settle(t, nil, p.Closed)
		}
		p.waiting = nil
		for _, i := range p.all {
			if i.n == 1 {
				continue
			}
			ended := new(actors.Reply[struct{}])
			done = append(done, ended)
			p.System.Go("closing an instance of "+p.Server, func() {
				client := p.memberOf(i)
				var err error
				if client != nil {
					err = client.Shutdown(ctx)
				}
				<-i.over // its start has noticed
				ended.Complete(struct{}{}, err)
			})
		}
	})
	return done
}

func (p *Pool) memberOf(i *Instance) Member {
	p.mu.Lock()
	defer p.mu.Unlock()
	return i.member
}

// Status is how one instance stands.
type Status struct {
	Number int // from 1, the first
	State  conn.State
	Calls  int  // under way
	Kept   bool // for an owner that has more calls to make
}

// Status returns how the instances stand, how many calls wait for one, and whether the call of a further owner
// would have to.
func (p *Pool) Status() (all []Status, waiting int, full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range p.all {
		s := Status{Number: i.n, State: conn.Dialing, Calls: i.out, Kept: i.keep}
		if i.member != nil {
			s.State = i.member.State()
		}
		all = append(all, s)
	}
	return all, len(p.waiting), p.full()
}
