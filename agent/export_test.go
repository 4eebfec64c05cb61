package agent

import "github.com/troupe-dev/troupe/actors"

// Met looks at a condition.
func Met(c StopCondition, t *TurnInfo) (string, bool) { return c.met(t) }

// Unfence is what answers are read through.
var Unfence = unfence

// Actor returns the run's actor.
func (r *Run) Actor() actors.Ref { return r.loop.Ref() }

// Below returns the runs that the run has started.
func (r *Run) Below() []*Run { return r.record.under() }

// Poison makes the actor panic that all runs are children of.
func (rt *Runtime) Poison() { rt.agents.Send(cancelStart{}) }

// MarshalResult encodes a result for a job.
var MarshalResult = marshalResult

// Identity and HashOf are what runs are told apart by.
var (
	Identity = identity
	HashOf   = hashOf
)
