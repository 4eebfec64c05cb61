package mcpserver

import (
	"github.com/troupe-dev/troupe/mcp"
)

// InputRequired is the error that a handler in retry style returns: its questions, and a
// state of its own. When they are answered, the handler runs again from the top, with the
// answers in [Request.Responses] and its State in [Request.State]. The server seals the
// state: it comes back unchanged, from the same principal and for the same arguments.
//
// A client of 2026-07-28 gets input_required; an older one gets requests, and the handler
// runs again when it has answered them.
type InputRequired struct {
	Requests mcp.InputRequests
	State    string
}

func (e *InputRequired) Error() string { return "the call needs more input" }

// Responses returns the answers to the questions of [InputRequired], by their keys; nil in
// the first round. There may be fewer answers than questions. Each has the form that its
// question needs.
func (q *Request) Responses() mcp.InputResponses {
	if n := q.r.invocation.Load(); n != nil {
		responses, _ := n.Given()
		return responses
	}
	return nil
}

// State returns the State of the [InputRequired] before; "" in the first round.
func (q *Request) State() string {
	if n := q.r.invocation.Load(); n != nil {
		_, state := n.Given()
		return state
	}
	return ""
}
