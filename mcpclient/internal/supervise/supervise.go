// Package supervise is the actor of a host: it starts the connections to servers, and makes those
// anew that have stopped.
package supervise

import (
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// Server is one server of the host.
type Server interface {
	Name() string
	// Start makes the connection a child of c.
	Start(c *actors.Context) (actors.Ref, error)
	// Connect has the connection, which runs, make an attempt now.
	Connect()
	// Stopped is called when the connection has stopped.
	Stopped(c *actors.Context)
}

// Retry is a message: an attempt to connect is to be made now.
type Retry struct{ Server Server }

// StartInstance is a message: a server needs one more process. Start makes its connection a child.
type StartInstance struct {
	Start func(*actors.Context) (actors.Ref, error)
	Reply *actors.Reply[struct{}]
}

// Delay is the pause before a connection whose actor has given up is made anew.
const Delay = 30 * time.Second

// respawn is a message to itself: the pause is over.
type respawn struct{ server Server }

// Actor supervises the connections.
type Actor struct {
	Servers []Server
	Closed  func() bool             // no connection is made anew
	Started *actors.Reply[struct{}] // it has started, once

	running map[actors.Ref]Server
}

// Receive implements [actors.Actor].
func (a *Actor) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		a.running = make(map[actors.Ref]Server)
		for _, s := range a.Servers {
			a.start(c, s)
		}
		a.Started.Complete(struct{}{}, nil)
	case respawn:
		if !a.runs(m.server) {
			a.start(c, m.server)
		}
	case Retry:
		if !a.runs(m.Server) {
			a.start(c, m.Server)
		} else {
			m.Server.Connect()
		}
	case StartInstance:
		_, err := m.Start(c)
		m.Reply.Complete(struct{}{}, err)
	case actors.ChildStopped:
		s := a.running[m.Ref]
		delete(a.running, m.Ref)
		if s == nil { // an instance
			return
		}
		s.Stopped(c)
		if !a.Closed() {
			c.After(Delay, respawn{s})
		}
	}
}

// runs reports whether the connection of a server has an actor.
func (a *Actor) runs(s Server) bool {
	name := s.Name()
	for _, other := range a.running {
		if other.Name() == name {
			return true
		}
	}
	return false
}

func (a *Actor) start(c *actors.Context, s Server) {
	ref, err := s.Start(c)
	if err != nil {
		c.Log().Error("a server cannot be started", "server", s.Name(), "error", err)
		return
	}
	a.running[ref] = s
}
