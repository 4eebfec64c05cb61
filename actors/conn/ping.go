package conn

import (
	"context"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// Messages of the pings.
type (
	pingDue struct{}
	pinged  struct {
		gen uint64
		err error
	}
)

// nextPing sets the clock, if there are pings on this revision (PING-03).
func (a *actor) nextPing() {
	if a.pings != nil && a.session.Version().Era() != mcp.EraModern {
		a.pings.Set(a.conn.opts.PingEvery)
	}
}

// noPing ends what is under way.
func (a *actor) noPing(why error) {
	if a.pings != nil {
		a.pings.Clear()
	}
	if a.pinger != nil {
		a.pinger(why)
		a.pinger = nil
	}
}

func (a *actor) ping(c *actors.Context) {
	if a.state != Ready {
		return
	}
	s, o := a.session, &a.conn.opts
	a.pinger = actors.Await(c,
		func(ctx context.Context) (struct{}, error) {
			ctx, cancel := context.WithTimeout(ctx, o.PingTimeout)
			defer cancel()
			return struct{}{}, o.Ping(ctx, s)
		},
		func(_ struct{}, err error) any { return &pinged{s.gen, err} })
}

// pinged counts the pings that were not answered (PING-02).
func (a *actor) pinged(c *actors.Context, err error) {
	a.pinger = nil
	if err == nil || call.Heard(err) {
		a.misses = 0
		a.nextPing()
		return
	}
	a.misses++
	a.conn.log.Debug("a ping was not answered", "misses", a.misses, "error", err)
	if o := &a.conn.opts; a.misses >= o.PingMisses {
		a.fail(c, &pingError{Misses: int(a.misses), After: o.PingTimeout, Err: err})
		return
	}
	a.nextPing()
}
