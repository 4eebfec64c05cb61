package setup

import (
	"slices"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/cli/env"
)

// UnknownUsage is the help of --on-unknown.
const UnknownUsage = "of a call that may have had its effect, and whose answer was lost or cannot be read: `WHAT` is done: ask (a person), tell (the model that it is unknown), again (make it again), end (the run)"

// UnknownPolicy reads --on-unknown.
func UnknownPolicy(s string) (agent.UnknownPolicy, error) {
	p := agent.UnknownPolicy(s)
	if !slices.Contains([]agent.UnknownPolicy{"", agent.AskUnknown, agent.TellUnknown, agent.RepeatUnknown, agent.EndUnknown}, p) {
		return "", env.Usagef("--on-unknown %q: want ask, tell, again or end", s)
	}
	return p, nil
}
