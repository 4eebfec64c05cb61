// Package pinging pings a legacy client at intervals (PING-02), as a part of its session's actor.
//
//	        Every            answered
//	still ──────────▶ asked ──────────▶ still
//	                    │ not within timeout, maxMisses times in a row
//	                    └──────────────────▶ Silent
package pinging

import (
	"context"
	"log/slog"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
)

const (
	timeout   = 10 * time.Second
	maxMisses = 3
)

// Options say how a client is pinged.
type Options struct {
	Every    time.Duration
	Draining bool // no more pings are sent
	// Reachable reports whether a ping can be sent: an HTTP session that has no stream now is not gone.
	Reachable func() bool
	Ping      func(context.Context) error
	Silent    func() // the client is given up
	Log       *slog.Logger
	Session   string
}

// Message is a message to a session about pings.
type Message interface{ aboutPings() }

// Start is the message that begins them: the client has initialized.
type Start struct{}

type (
	due    struct{}
	pinged struct{ err error }
)

func (Start) aboutPings()  {}
func (due) aboutPings()    {}
func (pinged) aboutPings() {}

// Pings is the state of the pings of a session.
type Pings struct {
	clock  *actors.Timer
	misses int
}

// Receive handles a message. P is nil before the first one, and what Receive returns from then on.
func (p *Pings) Receive(c *actors.Context, msg Message, o Options) *Pings {
	switch m := msg.(type) {
	case Start:
		if p == nil {
			p = &Pings{clock: c.NewTimer(due{})}
			p.clock.Set(o.Every)
		}
	case due:
		if o.Draining {
			break
		}
		if !o.Reachable() {
			p.clock.Set(o.Every)
			break
		}
		actors.Await(c, func(ctx context.Context) (struct{}, error) {
			ctx, cancel := context.WithTimeout(ctx, min(timeout, o.Every))
			defer cancel()
			return struct{}{}, o.Ping(ctx)
		}, func(_ struct{}, err error) any { return pinged{err} })
	case pinged:
		if m.err == nil || call.Heard(m.err) {
			p.misses = 0
		} else if p.misses++; p.misses >= maxMisses {
			o.Log.Warn("a client does not answer pings", "session", o.Session, "pings", p.misses, "error", m.err)
			o.Silent()
			return p
		} else {
			o.Log.Debug("a ping was not answered", "session", o.Session, "misses", p.misses, "error", m.err)
		}
		p.clock.Set(o.Every)
	}
	return p
}
