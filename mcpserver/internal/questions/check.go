package questions

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/mcp"
)

// Prepare checks the question, and encodes it for the revision.
func (q *Question) Prepare(known *Forms, v mcp.Version) error {
	q.Answer, q.Raw, q.Fresh, q.sum, q.context = Answer{}, nil, false, nil, false
	var params any
	var err error
	switch {
	case q.Form != nil:
		q.log = known.Log
		return q.prepareForm(known, v)
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
	found := lacks // lacks itself stays on the stack where all is there
	return &CapabilityError{Missing: &found}
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
