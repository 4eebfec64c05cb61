package agent

import (
	"context"
	"encoding/json"

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
	// defined. A policy that remembers what was allowed is to remember it by this; it is
	// empty for functions of the program.
	Definition string
	// ReadOnly is what the server says of the tool. It is worth nothing unless
	// Trusted, which the user says of the server.
	ReadOnly, Trusted bool
	NeedsApproval     bool  // marked by [NeedsApproval]
	OpenWorld         bool  // the server says itself that the tool deals with the outside
	Taint             Taint // what the tool has to do with the lethal trio
	Seen              Taint // what the tree of runs has seen by now; Outbound is never set
}

// ApprovePolicy decides which calls wait for a human. It may be called by many
// goroutines at once and should be quick. If it panics, the call is asked about.
//
// What [NeedsApproval] marks is asked about even where a policy allows it; a policy
// can only refuse it.
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

// Taint says what a tool has to do with the lethal trio: untrusted text in
// the conversation can make the model send private data that is there too to the
// author of the text, if only some tool leads outside.
//
// What is known of a server's tool decides, and the worst is taken for granted where
// nothing is known. A server that the user has not marked as trusted may do all three.
// Of a trusted one the annotations count: a tool with openWorldHint false reads private
// data, and brings in no strangers' text and carries none out; without that hint, or
// with it true, it does all three. Functions of the program do what [Tool].Taint says,
// nothing if that is not set; sub-agents and hand-offs do nothing by themselves, and
// what they see counts for all runs of the tree.
type Taint struct {
	Untrusted bool `json:"untrusted,omitzero"` // its results may hold what strangers have written
	Private   bool `json:"private,omitzero"`   // its results may hold what strangers must not see
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
// [Taint].Outbound. What a human has allowed for the rest of the run before that is
// asked about once more. Calls of one turn are decided on together, by what was seen
// before: the model had not read their results when it wrote them.
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
