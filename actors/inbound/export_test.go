package inbound

import "github.com/troupe-dev/troupe/actors"

// Actor returns the actor that stands for the call.
func (c *Call) Actor() actors.Ref { return c.actor.Ref() }

// Bomb returns a message that makes a call's actor panic.
func Bomb() any { return (*report)(nil) }

// StaleCancel returns a cancel of the call, to be sent when its actor has another.
func (c *Call) StaleCancel() any { return &cancel{call: c, err: &cancelledError{}} }

// Outcomes of requests.
type (
	CancelledError = cancelledError
	DeadlineError  = deadlineError
	ClosedError    = closedError
)

// Stats counts what a table holds.
type Stats struct {
	Actors   int // idle, assigned and being started
	Idle     int
	InFlight int // assigned, and waiting for an actor
	IDs      int // that can be cancelled
}

// Stats counts what the table holds at this moment.
func (t *Table) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	busy, idle := t.pool.Busy(), t.pool.Idle()
	return Stats{Actors: busy + idle, Idle: idle, InFlight: busy, IDs: len(t.ids)}
}

// ProgressBurst is how many reports go out at once.
const ProgressBurst = progressBurst
