package inbound

import "github.com/troupe-dev/troupe/actors"

// Actor returns the actor that stands for the call.
func (c *Call) Actor() actors.Ref { return c.actor.Ref() }

// Bomb returns a message that makes a call's actor panic.
func Bomb() any { return (*report)(nil) }

// StaleCancel returns a cancel of the call, to be sent when its actor has another.
func (c *Call) StaleCancel() any { return &cancel{call: c, err: &CancelledError{}} }

// ProgressBurst is how many reports go out at once.
const ProgressBurst = progressBurst
