package agent

import (
	"context"

	"github.com/troupe-dev/troupe/mcp"
)

// Taint says what a tool has to do with the lethal trio (SECA-44): untrusted text in
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
