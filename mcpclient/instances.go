// instances.go: a client's share in the pool of its server's processes.

package mcpclient

import (
	"cmp"
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/internal/hostconfig"
	"github.com/troupe-dev/troupe/mcpclient/internal/pool"
)

// Bounds on the instances of a server.
const (
	defaultInstances = 4
	maxInstances     = hostconfig.MaxInstances
)

// InstanceWait is what a call waits for that has no instance of its server yet.
type InstanceWait struct {
	Server string
	// InUse is how many instances other owners have, Of how many there may be.
	InUse, Of int
}

func (w *InstanceWait) String() string {
	return fmt.Sprintf("an instance of server %q (%d of %d in use)", w.Server, w.InUse, w.Of)
}

// member is a client as the pool of its server sees it.
type member Client

// State implements [pool.Member], as the other methods do.
func (m *member) State() conn.State                  { return m.conn.Status().State }
func (m *member) Pending() int                       { return m.conn.Stats().Pending }
func (m *member) Shutdown(ctx context.Context) error { return (*Client)(m).Shutdown(ctx) }

// newPool returns the pool of the client's server, of which the client is the first.
func (c dialing) newPool() *pool.Pool {
	return pool.New(pool.Options{
		System: c.sys, Server: c.server.Name, Log: c.log, First: (*member)(c.Client), Most: c.server.mostInstances(), Closed: ErrClosed,
		Make: func(n int) (pool.Member, error) {
			i, err := c.dialing.another(n)
			if err != nil {
				return nil, err
			}
			return (*member)(i), nil
		},
		Connect: func(m pool.Member) error {
			i := (*Client)(m.(*member))
			if err := c.opts.spawn(i.conn); err != nil {
				return err
			}
			return i.conn.Connect(context.Background()) // bounded by [Server].ConnectTimeout
		},
		Discard: func(m pool.Member) {
			i := (*Client)(m.(*member))
			_ = i.Close()
			ctx, cancel := context.WithTimeout(context.Background(), closeTime)
			defer cancel()
			_ = i.conn.Close(ctx) // it may have been closed before it was started
		},
	})
}

// others returns the clients of the instances but the first.
func (c dialing) others() (all []*Client) {
	for _, m := range c.instances.Others() {
		all = append(all, (*Client)(m.(*member)))
	}
	return all
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

// another makes the client of a further instance. Its lists are not used, and it asks for
// no consent of its own.
func (c dialing) another(n int) (*Client, error) {
	o := c.opts
	o.System, o.main, o.number, o.Lazy = c.sys, c.Client, n, true
	o.OnState, o.OnToolsChanged, o.OnResourcesChanged, o.OnPromptsChanged = nil, nil, nil, nil
	o.NoListen = true
	i, err := newClient(c.server, &o)
	if err != nil {
		return nil, err
	}
	i.consent, i.questions.asks.Limits = c.consent, c.questions.asks.Limits
	i.questions.roots.Store(c.questions.roots.Load())
	i.level.Store(c.logLevel())
	return i, nil
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
	states, waiting := c.instances.Status()
	for _, s := range states {
		all = append(all, InstanceStatus(s))
	}
	return all, waiting
}

// ForgetOwner says that an owner of calls makes no more of them: what was kept for it, see
// [CallOptions].Keep, is free for others. The owner is what [Owned] returns.
func (h *Host) ForgetOwner(owner any) {
	for _, e := range h.entries {
		if c := e.client.Load(); c != nil {
			c.instances.Forget(owner)
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
