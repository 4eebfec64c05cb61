// notifier.go: when clients are notified.
//
//	Changed, Updated                delay              notified
//	quiet ───────────────────▶ waiting ──────▶ notifying ─────▶ quiet
//	                                              │ further changes
//	                                              └──────────▶ waiting
//
// A client that was notified of a list less than Options.Pace ago is notified when that time is
// over.
//
// Legacy clients are notified of lists once they have initialized, and of the resources that
// they have subscribed to; clients of 2026-07-28 on the listen streams that
// asked for it. No notification waits for a client.

package subscriptions

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// delay gathers changes that follow each other closely.
const delay = 20 * time.Millisecond

// Messages to the server's actor.
type (
	newsDue  struct{}                      // the delay is over
	notified struct{ again time.Duration } // clients are notified; again is when a list is due, 0 for none
	listDue  struct{}                      // clients may be notified again of a list that has changed not long ago
)

// Notifier is the part of the server's actor that notifies the clients.
type Notifier struct {
	Of *Notices

	busy    bool // waiting or notifying
	more    bool // there are changes since the notifying began
	pending bool // a listDue is to come
}

// Receive handles the messages of the notifier.
func (k *Notifier) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started: // perhaps again, after a failure: earlier timers and tasks are lost
		if k.Of.fresh.Load() || k.Of.opts.Pace > 0 {
			k.wait(c)
		}
	case listDue:
		k.pending = false
		k.Of.wake()
	case news:
		if k.busy {
			k.more = true
			return
		}
		k.wait(c)
	case newsDue:
		actors.Await(c,
			func(context.Context) (time.Duration, error) { return k.Of.notify(), nil },
			func(again time.Duration, _ error) any { return notified{again} })
	case notified:
		if m.again > 0 && !k.pending {
			k.pending = true
			c.After(m.again, listDue{})
		}
		if k.busy = false; k.more {
			k.wait(c)
		}
	}
}

func (k *Notifier) wait(c *actors.Context) {
	k.busy, k.more = true, false
	c.After(delay, newsDue{})
}
