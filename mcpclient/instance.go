package mcpclient

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/conn"
)

// initInstances is called once, before the connection is started.
func (c *Client) initInstances() {
	p := &c.instances
	p.first, p.most = c, c.server.mostInstances()
	p.own = &instance{pool: p, n: 1, client: c}
	p.all = []*instance{p.own}
}

// mostInstances is how many processes there may be of a definition.
func (s *Server) mostInstances() int {
	switch {
	case s.Command != "":
		return min(cmp.Or(s.Instances, defaultInstances), maxInstances)
	case s.Connect != nil:
		return min(max(s.Instances, 1), maxInstances)
	}
	return 1
}

// mayStart reports whether there may be one more instance now.
func (p *instances) mayStart() bool {
	return len(p.all) < p.most && !p.closed && !time.Now().Before(p.paused)
}

// start begins one more instance; calls may be lent it at once, and wait for its start.
func (p *instances) start() *instance {
	i := &instance{pool: p, n: 2, starting: true, over: make(chan struct{})}
	for slices.ContainsFunc(p.all, func(o *instance) bool { return o.n == i.n }) {
		i.n++
	}
	p.all = append(p.all, i)
	p.todo = append(p.todo, func() { p.first.sys.Go("starting an instance of "+p.first.server.Name, func() { p.begin(i) }) })
	return i
}

// begin connects an instance.
func (p *instances) begin(i *instance) {
	defer close(i.over)
	client, err := p.first.another(i.n)
	if err == nil {
		err = p.connect(i, client)
	}
	closed := false
	p.update(func() {
		closed = p.closed
		p.begun(i, err)
	})
	if client != nil && (err != nil || closed) {
		_ = client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		_ = client.conn.Close(ctx) // it may have been closed before it was started
	}
}

// connect starts the connection of an instance and waits for its first attempt, which
// [Server].ConnectTimeout bounds.
func (p *instances) connect(i *instance, client *Client) error {
	closed := false
	p.update(func() { i.client, closed = client, p.closed })
	if closed {
		return ErrClosed
	}
	if err := p.first.opts.spawn(client.conn); err != nil {
		return err
	}
	return client.conn.Connect(context.Background())
}

// begun lends the instance to the calls that wait for it. Without one they wait for
// another: some servers can be started only once.
func (p *instances) begun(i *instance, err error) {
	pending := i.pending
	i.starting, i.pending, i.since = false, nil, time.Now()
	switch {
	case p.closed:
		for _, t := range pending {
			p.settle(t, nil, ErrClosed)
		}
	case err != nil:
		p.remove(i)
		p.paused = time.Now().Add(startPause)
		p.waiting = slices.Insert(p.waiting, 0, pending...)
		p.first.log.Warn("a further instance of the server could not be started: calls of other runs wait for those that there are",
			"instance", i.n, "instances", len(p.all), "error", err)
	default:
		p.first.log.Debug("an instance was started", "instance", i.n)
		for _, t := range pending {
			p.settle(t, i, nil)
		}
	}
}

// another makes the client of a further instance. Its lists are nobody's, and it asks for
// no consent of its own.
func (c *Client) another(n int) (*Client, error) {
	o := c.opts
	o.System, o.main, o.number, o.Lazy = c.sys, c, n, true
	o.OnState, o.OnToolsChanged, o.OnResourcesChanged, o.OnPromptsChanged = nil, nil, nil, nil
	o.NoListen = true
	i, err := newClient(c.server, &o)
	if err != nil {
		return nil, err
	}
	i.consent, i.asks.limits = c.consent, c.asks.limits
	i.asks.roots.Store(c.asks.roots.Load())
	i.level.Store(c.logLevel())
	return i, nil
}

// others are the clients of the instances but the first.
func (p *instances) others() (all []*Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range p.all {
		if i.n > 1 && i.client != nil {
			all = append(all, i.client)
		}
	}
	return all
}

// close ends the instances but the first, and every wait for one. It returns at once; done
// completes when they have ended.
func (p *instances) close(ctx context.Context) (done []*actors.Reply[struct{}]) {
	p.update(func() {
		p.closed = true
		for _, t := range p.waiting {
			p.settle(t, nil, ErrClosed)
		}
		p.waiting = nil
		for _, i := range p.all {
			if i.n == 1 {
				continue
			}
			ended := new(actors.Reply[struct{}])
			done = append(done, ended)
			p.first.sys.Go("closing an instance of "+p.first.server.Name, func() {
				client := p.clientOf(i)
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

func (p *instances) clientOf(i *instance) *Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return i.client
}

// InstanceStatus is how one process of a server stands that has several.
type InstanceStatus struct {
	Number int // from 1, the one that lists are read from
	State  conn.State
	Calls  int  // under way
	Kept   bool // for an owner that has more calls to make
}

// Instances returns how the processes of the server stand that its calls are shared out
// to, and how many calls wait for one: see [Server].Instances.
func (c *Client) Instances() (all []InstanceStatus, waiting int) {
	p := &c.instances
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range p.all {
		s := InstanceStatus{Number: i.n, State: conn.Dialing, Calls: i.out, Kept: i.keep}
		if i.client != nil {
			s.State = i.client.conn.Status().State
		}
		all = append(all, s)
	}
	return all, len(p.waiting)
}

// ForgetOwner says that an owner of calls makes no more of them: what was kept for it, see
// [CallOptions].Keep, is free for others. The owner is what [Owned] returns.
func (h *Host) ForgetOwner(owner any) {
	for _, e := range h.entries {
		if c := e.client.Load(); c != nil {
			c.instances.forget(owner)
		}
	}
}

// instanceName is what the connection of an instance is called.
func (c *Client) instanceName() string {
	if c.opts.main == nil {
		return c.server.Name
	}
	return fmt.Sprintf("%s#%d", c.server.Name, c.opts.number)
}
