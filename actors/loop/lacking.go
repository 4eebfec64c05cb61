// lacking.go: calls that are under way when a run goes on, and whose tools are not here. What a person
// was asked about, has allowed, or what may have had its effect is never dropped for that: the run does
// not go on.

package loop

import (
	"cmp"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// Lack is a call that a run cannot go on with: its tool is not here.
type Lack struct{ Tool, Server string }

// LackingError reports that a run does not go on, since calls of it need tools that are not here.
type LackingError struct{ Lacks []Lack }

func (e *LackingError) Error() string {
	all := make([]string, len(e.Lacks))
	for i, l := range e.Lacks {
		all[i] = l.Tool
	}
	return "calls are under way whose tools are not here: " + strings.Join(all, ", ")
}

// Calls returns the calls with which the run goes on, as the model has asked for them; none if it goes on
// with something else.
func (re *Resumption) Calls() []*mcp.ToolUseContent {
	s := re.State
	t := s.Turn
	switch {
	case s.Ending != nil, t == nil, t.Over, t.Result == nil, s.StopMet != nil, s.Limit != nil && (s.Limit.Then == runlog.LimitStop || t.Intent.Last):
		return nil
	}
	return t.Wanted()
}

// Lacking returns the calls that need a tool which the offer does not have. One that was declined, or that
// a person or the policy wants nothing more of, needs none.
func (re *Resumption) Lacking(offer *Offer) []Lack {
	var lacks []Lack
	for _, use := range re.Calls() {
		t, name, server := re.State.Turn, use.Name, ""
		if i := slices.IndexFunc(t.Calls, func(c *runlog.CallState) bool { return c.CallID == use.ID }); i >= 0 {
			if !re.needsTool(t.Calls[i]) {
				continue
			}
			name, server = t.Calls[i].Tool, t.Calls[i].Server
		} else { // it is not decided on: a name that the model was not given is refused, as in a run that was not left
			j := slices.IndexFunc(re.State.Listed.Tools, func(ref runlog.ToolRef) bool { return ref.Name == name })
			if j < 0 || len(t.Calls) > 0 || t.Refused != nil || slices.Contains(t.Result.Spoilt, use.ID) {
				continue
			}
			server = re.State.Listed.Tools[j].Server
		}
		if tool := offer.byName[name]; tool == nil || tool.Server != server {
			lacks = append(lacks, Lack{name, server})
		}
	}
	return lacks
}

// needsTool reports whether a call that was decided on goes on only with its tool.
func (re *Resumption) needsTool(c *runlog.CallState) bool {
	switch q := c.Outcome; {
	case !c.Open(), c.Intent == nil, c.Imported && c.Sent:
		return false
	case !c.Sent, c.Anew:
		d, settled := re.settled(c.Approval)
		return !settled || d.Status == store.AskAccepted
	case q != nil:
		d, settled := re.settled(q)
		way, _ := runlog.Outcome(d)
		return !settled || way == runlog.OutcomeAgain
	case c.Run != "": // it goes on with the call
		return true
	}
	policy := cmp.Or(re.Unknown, runlog.OutcomeAsk)
	return policy == runlog.OutcomeAsk || policy == runlog.OutcomeAgain
}

// settled returns the decision on a question of the run, in its journal or while no process worked on it.
func (re *Resumption) settled(q *runlog.Question) (d store.Decision, settled bool) {
	if q == nil {
		return d, false
	}
	if q.Settled != nil {
		return q.Decision(), true
	}
	row, settled := re.Decided[q.Ask.ID]
	return row.Decision, settled
}
