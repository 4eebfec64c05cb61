package llm

import "slices"

// Effort is how much a model thinks before it answers. Each client sends the nearest that the model takes, and nothing to a
// model that has no such choice.
type Effort string

// The efforts, from the least on. An empty one leaves it to the model.
const (
	EffortNone    Effort = "none" // no thinking, or as little as the model can do with
	EffortMinimal Effort = "minimal"
	EffortLow     Effort = "low"
	EffortMedium  Effort = "medium"
	EffortHigh    Effort = "high"
	EffortXHigh   Effort = "xhigh"
	EffortMax     Effort = "max"
)

// Efforts are all of them, from the least on. They must not be changed.
var Efforts = []Effort{EffortNone, EffortMinimal, EffortLow, EffortMedium, EffortHigh, EffortXHigh, EffortMax}

// Nearest returns the effort that is the nearest to e of those that a model takes; of two that are equally near, the lesser.
// It goes down to [EffortNone] only if that is asked for or there is no other. It is empty where e is, or where there is none.
func (e Effort) Nearest(taken []Effort) Effort {
	best, least := Effort(""), len(Efforts)
	for i, other := range Efforts {
		if e == "" || !slices.Contains(taken, other) || other == EffortNone && e != EffortNone && len(taken) > 1 {
			continue
		}
		if d := i - slices.Index(Efforts, e); max(d, -d) < least {
			best, least = other, max(d, -d)
		}
	}
	return best
}
