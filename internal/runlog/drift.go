package runlog

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Policies for a run that goes on with an agent or tools that are not as it has recorded them.
const (
	DriftContinue = "continue" // the recorded instructions; tools that differ ask
	DriftStop     = "stop"     // it does not go on
	DriftAdopt    = "adopt"    // as all is now
)

// RunDrifted is the body of run.drifted: the run goes on, and not everything is as it has recorded it.
type RunDrifted struct {
	Policy string   `json:"policy,omitempty"` // [DriftContinue] or [DriftAdopt]; empty is the latter
	What   []string `json:"what"`
	Tools  []string `json:"tools,omitempty"` // that are new, or have another definition
}

// Drift says what is not as the run has recorded it: the instructions and the model of the agent that
// works, and the tools. Changed are the names of those that are new or have another definition.
func (s *State) Drift(system, model string, tools []ToolRef) (what, changed []string) {
	what = s.agentDrift(system, model)
	if s.Listed.Tools == nil { // not yet
		return what, nil
	}
	for _, t := range tools {
		i := slices.IndexFunc(s.Listed.Tools, func(was ToolRef) bool { return was.Name == t.Name })
		switch {
		case i < 0:
			what = append(what, fmt.Sprintf("the tool %s is new", t.Name))
		case s.Listed.Tools[i].Hash != t.Hash || s.Listed.Tools[i].Server != t.Server:
			what = append(what, fmt.Sprintf("the tool %s is defined in another way", t.Name))
		default:
			continue
		}
		changed = append(changed, t.Name)
	}
	for _, was := range s.Listed.Tools {
		if !slices.ContainsFunc(tools, func(t ToolRef) bool { return t.Name == was.Name }) {
			what = append(what, fmt.Sprintf("the tool %s is gone", was.Name))
		}
	}
	return what, changed
}

func (s *State) agentDrift(system, model string) (what []string) {
	if system != s.Agent.System {
		what = append(what, "the instructions have changed")
	}
	if model != s.Agent.Model {
		what = append(what, fmt.Sprintf("the model is %s, and was %s", model, s.Agent.Model))
	}
	return what
}

// Differs is how instructions and a model are not those that the run has recorded.
func (s *State) Differs(system, model string) (d Differs) {
	what := s.agentDrift(system, model)
	if len(what) == 0 {
		return d
	}
	if system != s.Agent.System {
		sum := sha256.Sum256([]byte(system))
		d.Instructions = "sha256:" + hex.EncodeToString(sum[:])
	}
	d.Note = "the run goes on with another agent than it has recorded: " + strings.Join(what, "; ")
	return d
}

// drifted takes in that the run goes on with what differs.
func (s *State) drifted(b *RunDrifted) {
	if s.Drifted = append(s.Drifted, b.Tools...); b.Policy != DriftContinue {
		s.Drifted = nil
	}
}
