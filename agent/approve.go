package agent

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/mcp"
)

// Verdict is the decision of a policy on a call.
type Verdict uint8

// The verdicts. The zero value asks.
const (
	VerdictAsk   = Verdict(guard.Ask)
	VerdictAllow = Verdict(guard.Allow)
	VerdictDeny  = Verdict(guard.Deny) // the model reads that the policy does not allow it
	// VerdictAskAgain asks also where a human has allowed the tool for the rest of the
	// run, by [AcceptForRun], unless that was the answer to such a question.
	VerdictAskAgain = Verdict(guard.AskAgain)
)

// ToolCall is a call that a policy decides on.
type ToolCall struct {
	Agent     string
	Server    string // its configured name; empty for a function of the program
	Tool      string
	Arguments json.RawMessage
	// Definition names exactly this tool of exactly this server: a hash of how both are
	// defined. A policy that remembers its approvals is to remember them by this; it is
	// empty for functions of the program.
	Definition string
	// ReadOnly is the server's own annotation. It counts only with Trusted, by which
	// the user has marked the server.
	ReadOnly, Trusted bool
	NeedsApproval     bool  // marked by [NeedsApproval]
	OpenWorld         bool  // by the server's own annotation the tool deals with the outside
	Taint             Taint // the tool's part in the lethal trio
	Seen              Taint // by the tree of runs so far; Outbound is never set
}

// ApprovePolicy decides which calls wait for a human. It may be called by many
// goroutines at once and should be quick. If it panics, the call is asked about.
//
// A call of a tool that [NeedsApproval] marks asks even where a policy allows it; a
// policy can only refuse it.
type ApprovePolicy func(ctx context.Context, call *ToolCall) Verdict

// AskBeforeWrites is the default: it allows functions of the program, and tools that
// a trusted server marks as read-only; it asks about all others. Of those that it
// allows it still asks about such as may carry out private data (see [AskOnTaint]), if
// the server has marked the tool by openWorldHint, or the program by [Tool].Taint;
// AskOnTaint(AskBeforeWrites) also asks where nothing is marked.
func AskBeforeWrites(_ context.Context, call *ToolCall) Verdict {
	switch {
	case call.Server != "" && !(call.Trusted && call.ReadOnly):
		return VerdictAsk
	case (call.Server == "" || call.OpenWorld) && call.lethal():
		return VerdictAskAgain
	}
	return VerdictAllow
}

// AskAlways asks about every call.
func AskAlways(context.Context, *ToolCall) Verdict { return VerdictAsk }

// NeverAsk allows every call but those of functions marked by [NeedsApproval], also
// such that may carry out private data: AskOnTaint(NeverAsk) asks about those.
func NeverAsk(context.Context, *ToolCall) Verdict { return VerdictAllow }

// looksNothingUp reports whether a policy is one of those above. Another one may wait, and runs call it in
// a task.
func looksNothingUp(policy ApprovePolicy) bool {
	at := reflect.ValueOf(policy).Pointer()
	return slices.ContainsFunc([]ApprovePolicy{AskBeforeWrites, AskAlways, NeverAsk},
		func(p ApprovePolicy) bool { return reflect.ValueOf(p).Pointer() == at })
}

// gate makes a loop's gate of a policy.
func gate(agent string, policy ApprovePolicy, taint *guard.TaintState) func(context.Context, *loop.Tool, json.RawMessage) guard.Verdict {
	return func(ctx context.Context, t *loop.Tool, args json.RawMessage) guard.Verdict {
		verdict := policy(ctx, &ToolCall{Agent: agent, Server: t.Server, Tool: t.Name, Arguments: args, Definition: t.Bound(),
			ReadOnly: t.ReadOnly, Trusted: t.Trusted, NeedsApproval: t.NeedsApproval,
			OpenWorld: t.OpenWorld, Taint: Taint(t.Taint), Seen: Taint(taint.Seen())})
		if verdict == VerdictAllow && t.NeedsApproval {
			return guard.Ask
		}
		return guard.Verdict(verdict)
	}
}

// Taint is the part of a tool in the lethal trio: untrusted text in the conversation
// can make the model send private data of the conversation to the author of the text,
// if only some tool leads outside.
//
// The annotations of a server's tool decide if the user has marked the server as
// trusted: a tool with openWorldHint false reads private data, and brings in no
// strangers' text and carries none out; without that hint, or with it true, it does all
// three. A tool of any other server counts as doing all three. A function of the program
// has its [Tool].Taint, and none if that is not set. Sub-agents and hand-offs have none
// of their own; the taint of their calls counts for all runs of the tree.
type Taint struct {
	Untrusted bool `json:"untrusted,omitzero"` // its results may hold text of strangers
	Private   bool `json:"private,omitzero"`   // its results may hold data that strangers must not see
	Outbound  bool `json:"outbound,omitzero"`  // its arguments may reach strangers
}

// taintOf classifies a server's tool.
func taintOf(trusted bool, a *mcp.ToolAnnotations) Taint {
	open := !trusted || a.OpenWorld()
	return Taint{Untrusted: open, Private: true, Outbound: open}
}

// AskOnTaint returns the policy so changed that a call which it would allow is asked
// about if it may carry out private data: when the run, or one of its tree, has seen
// results of [Taint].Untrusted and of [Taint].Private tools, and the tool is
// [Taint].Outbound. Such a call asks once more although a human has allowed the tool
// for the rest of the run before. Calls of one turn are decided on together, by the
// results before it: the model had not read their results when it wrote them.
func AskOnTaint(policy ApprovePolicy) ApprovePolicy {
	return func(ctx context.Context, call *ToolCall) Verdict {
		verdict := policy(ctx, call)
		if verdict != VerdictDeny && call.lethal() {
			return VerdictAskAgain
		}
		return verdict
	}
}

// lethal reports whether the call may carry private data to strangers.
func (c *ToolCall) lethal() bool { return c.Taint.Outbound && c.Seen.Untrusted && c.Seen.Private }
