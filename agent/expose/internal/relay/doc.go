// Package relay joins the work on the calls of one client with that client.
//
// An [Operation] is the work that one call of the client started: an agent's run, or a call
// of a backend. It outlives the rounds of the call. What the run or the backend asks meanwhile
// (forms, pages, sampling, roots, approvals) becomes questions to the client, and its progress
// and logs become those of the call. A [Client] is the client of the operations: what it can
// be asked, its roots, and the pages its user was sent to. [Operations] are those of a whole
// front, so that a call that comes again finds its own.
//
// Everything may be used from any goroutine.
package relay
