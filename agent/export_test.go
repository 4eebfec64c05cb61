package agent

// Met looks at a condition.
func Met(c StopCondition, t *TurnInfo) (string, bool) { return c.met(t) }

// Unfence is what answers are read through.
var Unfence = unfence
