package loop

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// approvals are the questions whether calls may be made, and the tools that a person has allowed for the
// rest of the run.
type approvals struct {
	*parts
	allowed map[string]allowance // by the hashes of tools
	differs runlog.Differs       // how the agent that works is not the recorded one; each question says it
}

// allowance is how far a person has allowed a tool for the rest of the run.
type allowance uint8

const (
	allowedOnce  allowance = iota // not for the rest of the run
	allowedRun                    // but for calls with [guard.AskAgain]
	allowedAgain                  // those too: the question was about one
)

// allowanceOf is the allowance that a decision about a call gives, and that it needs.
func allowanceOf(again bool) allowance {
	if again {
		return allowedAgain
	}
	return allowedRun
}

// ask makes the question whether a call may be made. The error is that of a question
// that no store takes.
func (ap *approvals) ask(cl *call, id string, then decision) (runlog.Entry, error) {
	row := cl.question(ap.cfg, runlog.AskKind, id)
	row.Payload, row.Hash = ap.subject(cl, cl.tool.Taint.Outbound && ap.cfg.Taint.Lethal())
	if err := row.Check(); err != nil {
		return runlog.Entry{}, err
	}
	cl.phase = asking
	return ap.asks.add(&openAsk{row: row, call: cl, then: then}), nil
}

// allow notes that a person has allowed a tool for the rest of the run, by a question that was asked in
// spite of earlier approvals, or not.
func (ap *approvals) allow(hash string, again bool) {
	if hash == "" {
		return
	}
	if ap.allowed == nil {
		ap.allowed = make(map[string]allowance)
	}
	ap.allowed[hash] = max(ap.allowed[hash], allowanceOf(again))
}

// cover answers the questions that are open already with what a person has allowed for the rest of the run meanwhile.
func (ap *approvals) cover(c *actors.Context) {
	for _, id := range slices.Sorted(maps.Keys(ap.asks.open)) {
		ap.coverOne(c, ap.asks.open[id])
	}
}

// coverOne is cover for one question that can be answered.
func (ap *approvals) coverOne(c *actors.Context, a *openAsk) {
	cl := a.call
	if a.row.Kind != runlog.AskKind || !a.stored || a.settled || a.writing > 0 || cl == nil || cl.tool == nil || !ap.has(cl) {
		return
	}
	ap.asks.settle(c, a, answer{ask: a.row.ID, reply: new(actors.Reply[store.Ask]),
		decision: store.Decision{Status: store.AskAccepted, Scope: "once", By: "the approval for the whole run"}})
}

// has reports whether a person has allowed the call's tool for the rest of the run.
func (ap *approvals) has(cl *call) bool { return ap.allowed[cl.tool.Hash] >= allowanceOf(cl.again) }

// subject is the exact subject of the question whether a call of the tool as it is now may be made, and
// its hash. Tainted says that the call may carry out private data.
func (ap *approvals) subject(cl *call, tainted bool) (json.RawMessage, string) {
	return runlog.Payload(runlog.ApprovalPayload{Server: cl.tool.Server, Tool: cl.name, Definition: cl.tool.Hash,
		Source: cl.tool.Source, Arguments: cl.args, Tainted: tainted, Again: cl.again, Differs: ap.differs})
}

// bound reports whether a question is about exactly this call of the tool as it is now, for the agent as it is
// now: a person allows nothing else (SECA-41).
func (ap *approvals) bound(q *runlog.Question, cl *call, tainted bool) bool {
	if cl.tool == nil {
		return false
	}
	_, hash := ap.subject(cl, tainted)
	_, shown := runlog.Payload(q.Ask.Payload) // of an imported run the file says both
	return hash == q.Ask.Hash && hash == shown
}

// restore takes in what a person has allowed for the rest of the run before it was left, for the agent as it
// is now.
func (ap *approvals) restore(calls []*runlog.CallState) {
	for _, cl := range calls {
		if q := cl.Approval; q != nil && q.Settled != nil && q.Settled.Status == store.AskAccepted && q.Settled.Scope == runlog.ScopeRun {
			if p := q.Approval(); p.Differs == ap.differs {
				ap.allow(p.Definition, p.Again)
			}
		}
	}
}

// declined is the result of a call that was not allowed.
func declined(d store.Decision) *mcp.CallToolResult {
	text := "not called: the user declined it"
	switch d.Status {
	case store.AskExpired:
		text = "not called: it needs a human's consent, and no answer came in time"
	case store.AskCancelled:
		text = "not called: it needs a human's consent, and the question was withdrawn"
	}
	if reason := runlog.Reason(d.Answer); reason != "" {
		text += ": " + clip.Short(reason)
	}
	return mcp.ErrorResult("%s", text)
}
