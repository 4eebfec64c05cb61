// instances.go: a client's share in the pool of its server's processes.

package mcpclient

import (
	"cmp"
	"context"

	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcpclient/internal/pool"
)

// member is a client as the pool of its server sees it.
type member Client

// State implements [pool.Member], as the other methods do.
func (m *member) State() conn.State                  { return m.conn.Status().State }
func (m *member) Pending() int                       { return m.conn.Stats().Pending }
func (m *member) Shutdown(ctx context.Context) error { return (*Client)(m).Shutdown(ctx) }

// poolNow returns the pool to look at: one that was not needed yet is not kept.
func (c dialing) poolNow() *pool.Pool { return cmp.Or(c.instances.Load(), c.newPool()) }

// others returns the clients of the instances but the first.
func (c dialing) others() (all []*Client) {
	for _, m := range c.poolNow().Others() {
		all = append(all, (*Client)(m.(*member)))
	}
	return all
}

// InstanceStatus is how one process of a server stands that has several.
type InstanceStatus struct {
	Number int // from 1, the one that lists are read from
	State  conn.State
	Calls  int  // under way
	Kept   bool // for an owner that has more calls to make
}

// Instances returns how the processes of the server stand that its calls are shared out
// to, how many calls wait for one, and whether that of a further owner would have to: see [Server].Instances.
func (c *Client) Instances() (all []InstanceStatus, waiting int, full bool) {
	states, waiting, full := c.dialing.poolNow().Status()
	for _, s := range states {
		all = append(all, InstanceStatus(s))
	}
	return all, waiting, full
}
