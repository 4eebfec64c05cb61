// Package questions has the questions that a handler puts to its client: how they are
// checked and encoded for a revision, and how their answers are checked. It keeps no state
// but the forms it has parsed.
package questions

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
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

// Prepare checks the question, and encodes it for the revision.
func (q *Question) Prepare(known *Forms, v mcp.Version) error {
	q.Answer, q.Raw, q.Fresh, q.sum, q.context = Answer{}, nil, false, nil, false
	var params any
	var err error
	switch {
	case q.Form != nil:
		q.log = known.Log
		params, err = q.prepareForm(known, v)
	case q.Page != nil:
		params, err = q.Page.prepare()
	case q.Sample != nil:
		params, err = q.prepareSample(v)
	case q.Method == mcp.MethodListRoots:
		q.Params = nil
		return nil
	default:
		return errors.New("the question has no parameters")
	}
	if err != nil || params == nil {
		return err
	}
	if q.Params, err = mcp.Marshal(params); err != nil {
		return fmt.Errorf("encoding it: %w", err)
	}
	return nil
}

// digest identifies the question in tickets: a legacy client gets none.
func (q *Question) digest() []byte {
	if q.sum == nil {
		params := q.Params
		if canonical, err := jsonx.Canonical(params); err == nil {
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

// Settle takes an answer. The error is an [*AnswerError], or nil for a refusal,
// which is an answer too (ELIC-05).
func (q *Question) Settle(raw json.RawMessage) error {
	var err error
	q.Err = nil
	switch q.Method {
	case mcp.MethodElicit:
		err = q.elicited(raw)
	case mcp.MethodCreateMessage:
		err = q.sampled(raw)
	default:
		r := new(mcp.ListRootsResult)
		if err = mcp.Unmarshal(raw, r); err == nil {
			q.Roots = r.Roots
		}
	}
	if err != nil {
		return &AnswerError{Key: q.Key, Err: err}
	}
	q.Raw = raw
	return nil
}

// CheckAnswer checks what an answer shows without its question (MRTR-07).
func CheckAnswer(key, method string, raw json.RawMessage) error {
	var err error
	switch method {
	case mcp.MethodElicit:
		err = mcp.Unmarshal(raw, new(mcp.ElicitResult))
	case mcp.MethodCreateMessage:
		err = mcp.Unmarshal(raw, new(mcp.CreateMessageResult))
	case mcp.MethodListRoots:
		err = mcp.Unmarshal(raw, new(mcp.ListRootsResult))
	}
	if err != nil {
		return &AnswerError{Key: key, Err: err}
	}
	return nil
}

// Missing returns a [*CapabilityError] with what a client lacks for the questions, nil if
// it has all (CAP-03, MRTR-04, ELIC-02, SAMP-04, SAMP-07).
func Missing(c *mcp.ClientCapabilities, questions []*Question) error {
	var lacks mcp.ClientCapabilities
	var any bool
	for _, q := range questions {
		any = q.missing(c, &lacks) || any
	}
	if !any {
		return nil
	}
	return &CapabilityError{Missing: &lacks}
}

func (q *Question) missing(c *mcp.ClientCapabilities, lacks *mcp.ClientCapabilities) bool {
	if lacks.Elicitation == nil && q.Method == mcp.MethodElicit && (!c.ElicitURL() && q.Page != nil || !c.ElicitForm() && q.Page == nil) {
		lacks.Elicitation = new(mcp.ElicitationCapability)
	}
	switch {
	case q.Method == mcp.MethodListRoots && (c == nil || c.Roots == nil):
		lacks.Roots = new(mcp.RootsCapability)
	case q.Page != nil && !c.ElicitURL():
		lacks.Elicitation.URL = mcp.Present
	case q.Page == nil && q.Method == mcp.MethodElicit && !c.ElicitForm():
		lacks.Elicitation.Form = mcp.Present
	case q.Method == mcp.MethodCreateMessage:
		return q.missingSampling(c, lacks)
	default:
		return false
	}
	return true
}
