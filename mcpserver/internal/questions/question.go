// Package questions has the questions that a handler puts to its client: how they are
// checked and encoded for a revision, and how their answers are checked. It keeps no state
// but the forms it has parsed.
package questions

import (
	"crypto/sha256"
	"encoding/json"
	"log/slog"

	"github.com/troupe-dev/troupe/internal/form"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/ticket"
)

// Most bounds the questions of one round: clients take no more (MRTR-15).
const Most = 16

// Question is one question to the client, and then its answer.
type Question struct {
	Key    string
	Method string
	// One of these is set, except for the question for the roots.
	Form   *mcp.ElicitParams
	Page   *Page
	Sample *mcp.CreateMessageParams
	// Relayed says that the form is another server's.
	Relayed bool

	Answer
	Raw   json.RawMessage // the answer as it came; nil without one
	Fresh bool            // the answer came in this round

	// Made by Prepare.
	Params  json.RawMessage
	fields  *form.Form
	log     *slog.Logger
	sum     []byte // see digest
	context bool   // it takes sampling.context
}

// Answer is the one that fits the question, or the reason why there is none.
type Answer struct {
	Elicited *mcp.ElicitResult
	Sampled  *mcp.CreateMessageResult
	Roots    []mcp.Root
	Err      error
}

// digest identifies the question in tickets: a legacy client gets none.
func (q *Question) digest() []byte {
	if q.sum == nil {
		params := q.Params
		if canonical, err := jsonx.Exact(params); err == nil {
			params = canonical
		}
		sum := sha256.Sum256(append([]byte(q.Method+"\x00"), params...))
		q.sum = sum[:16]
	}
	return q.sum
}

// Input is the question as an entry of inputRequests (MRTR-03).
func (q *Question) Input() mcp.InputRequest {
	r := mcp.InputRequest{Method: q.Method, Params: q.Params}
	if q.Page != nil {
		r.Params = q.Page.Params("")
	}
	if r.Params == nil {
		r.Params = json.RawMessage("{}")
	}
	return r
}

// Entry is the question as a ticket has it.
func (q *Question) Entry() ticket.Question {
	e := ticket.Question{Key: q.Key, Method: q.Method, Digest: q.digest()}
	if q.Page != nil {
		e.ID = q.Page.ID
	}
	return e
}

// Is reports whether the question is the one of a ticket.
func (q *Question) Is(e ticket.Question) bool {
	return q.Key == e.Key && q.Method == e.Method && string(q.digest()) == string(e.Digest)
}

// Visited reports whether a person has agreed to visit the page, just now: what was
// done in an earlier round is done.
func (q *Question) Visited() bool {
	return q.Page != nil && !q.Page.Consent && q.Elicited != nil && q.Err == nil && q.Elicited.Action == mcp.ActionAccept
}

// Take gives a question by URL the id that it had in an earlier round.
func (q *Question) Take(id string) {
	if q.Page != nil {
		q.Page.ID = id
	}
}
