package agent

import (
	"context"
	"encoding/json"

	"github.com/troupe-dev/troupe/actors/loop"
)

// Verdict is what a policy says of a call.
type Verdict uint8

// The verdicts. The zero value asks.
const (
	VerdictAsk   = Verdict(loop.Ask)
	VerdictAllow = Verdict(loop.Allow)
	VerdictDeny  = Verdict(loop.Deny) // the model is told that the policy does not allow it
	// VerdictAskAgain asks also where a human has allowed the tool for the rest of the
	// run, by [AcceptForRun], unless that was the answer to such a question.
	VerdictAskAgain = Verdict(loop.AskAgain)
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
	// Trusted, which the user says of the server (SECA-40).
	ReadOnly, Trusted bool
	NeedsApproval     bool  // marked by [NeedsApproval]
	OpenWorld         bool  // the server says itself that the tool deals with the outside
	Taint             Taint // what the tool has to do with the lethal trio (SECA-44)
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
func gate(agent string, policy ApprovePolicy, taint *loop.TaintState) func(context.Context, *loop.Tool, json.RawMessage) loop.Verdict {
	return func(ctx context.Context, t *loop.Tool, args json.RawMessage) loop.Verdict {
		verdict := policy(ctx, &ToolCall{Agent: agent, Server: t.Server, Tool: t.Name, Arguments: args, Definition: t.Bound(),
			ReadOnly: t.ReadOnly, Trusted: t.Trusted, NeedsApproval: t.NeedsApproval,
			OpenWorld: t.OpenWorld, Taint: Taint(t.Taint), Seen: Taint(taint.Seen())})
		if verdict == VerdictAllow && t.NeedsApproval {
			return loop.Ask
		}
		return loop.Verdict(verdict)
	}
}
