package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/agent/internal/claims"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
)

// probe returns the tools that the agent would have in a run, to be looked at.
func (a *Agent) probe(as asked) loop.Tools {
	return (&scope{asked: as, agent: a, path: a.path, taint: new(guard.TaintState)}).tools()
}

// lacksNothing refuses a run that goes on if open calls of it, or of the runs below it, need tools that are
// not here: what a person has allowed is not dropped, and what may have had its effect is not forgotten.
func (a *Agent) lacksNothing(ctx context.Context, re *claims.Tree, o ResumeOptions) error {
	lacks := a.lacks(ctx, re, a.asked(&RunOptions{Tenant: o.Tenant, Sampler: o.Sampler}))
	if len(lacks) == 0 {
		return nil
	}
	return &NotResumableError{re.Head.ID, "calls are under way that need what is not here: " + strings.Join(lacks, "; ")}
}

// lacks says what is missing.
func (a *Agent) lacks(ctx context.Context, re *claims.Tree, as asked) (lacks []string) {
	for _, tool := range re.State.HandOffs {
		to := a.team[tool].handOff
		if to == nil {
			return []string{fmt.Sprintf("the agent %q works on it, and the agent %q does not hand over by %q here", re.State.Agent.To, a.name, tool)}
		}
		a = to
	}
	if len(re.Calls()) == 0 {
		return nil
	}
	offer, absent := a.probe(as).Offer(ctx)
	for _, l := range re.Lacking(offer) {
		lacks = append(lacks, a.whyLacking(l, as.servers, absent))
	}
	for _, child := range re.Children {
		i := slices.IndexFunc(re.State.Calls, func(c *runlog.CallState) bool { return c.Run == child.Head.ID })
		if i < 0 {
			continue
		}
		if sub := a.team[re.State.Calls[i].Tool].sub; sub != nil { // else its tool is missing
			lacks = append(lacks, sub.lacks(ctx, child, as)...)
		}
	}
	return lacks
}

// whyLacking says why a tool is not here.
func (a *Agent) whyLacking(l loop.Lack, s *servers, absent []runlog.Absent) string {
	why := fmt.Sprintf("the server %q does not offer it to the agent %q", l.Server, a.name)
	at := slices.IndexFunc(absent, func(s runlog.Absent) bool { return s.Server == l.Server })
	switch {
	case l.Server == "":
		why = fmt.Sprintf("the program does not give it to the agent %q", a.name)
	case !s.has(l.Server):
		why = fmt.Sprintf("there is no server %q", l.Server)
	case at >= 0:
		why = fmt.Sprintf("the server %q: %s", l.Server, absent[at].Reason)
	}
	return fmt.Sprintf("the tool %s (%s)", l.Tool, why)
}
