package mcpserver

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/troupe-dev/troupe/internal/form"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/asking"
	"github.com/troupe-dev/troupe/mcpserver/internal/ticket"
)

// Requester is what handlers get: a [*Request], or what has one inside.
type Requester interface{ asking() *Request }

func (q *Request) asking() *Request { return q }

// maxQuestions bounds the questions of one [Request.Ask]: clients take no more in one
// round (MRTR-15).
const maxQuestions = 16

// Question is one question to the client, and then its answer. It is made by
// [FormQuestion] and its like, and used for one [Request.Ask].
type Question struct {
	// Elicited answers a form or a URL question, Sampled one to the model, Roots the
	// one for the roots. They are set by Ask, the one that fits.
	Elicited *mcp.ElicitResult
	Sampled  *mcp.CreateMessageResult
	Roots    []mcp.Root
	// Err says why there is no answer that could be used: [ErrDeclined],
	// [ErrDismissed], an [*AnswerError], or, of a legacy client, a [*ClientError] or
	// what became of the request.
	Err error

	key     string
	method  string
	form    *mcp.ElicitParams        // of a form
	relayed bool                     // the form is another server's
	page    *page                    // of a URL question
	sample  *mcp.CreateMessageParams // of one to the model

	// Made by prepare.
	params json.RawMessage
	fields *form.Form
	log    *slog.Logger // of the server; set with fields
	sum    []byte       // see digest

	context bool // it takes sampling.context

	raw   json.RawMessage // the answer as it came
	fresh bool            // it came in this round
}

// FormQuestion asks a person to fill in a form. The key tells the question from the
// others of the call.
func FormQuestion(key string, p *mcp.ElicitParams) *Question {
	return &Question{key: key, method: mcp.MethodElicit, form: p}
}

// SampleQuestion asks the client's model.
func SampleQuestion(key string, p *mcp.CreateMessageParams) *Question {
	return &Question{key: key, method: mcp.MethodCreateMessage, sample: p}
}

// RootsQuestion asks for the client's roots.
func RootsQuestion(key string) *Question {
	return &Question{key: key, method: mcp.MethodListRoots}
}

// Ask puts several questions at once: clients of 2026-07-28 are asked in one round, of
// which they allow few, older ones in requests side by side. It returns when all have
// their answers, which may take days, or never: then the handler ends.
//
// The error is not nil when the questions could not be put: a [*CapabilityError] for
// what the client does not support, or what has ended the call. Whatever it is, a
// handler that gets one it does not know returns it: an error is also how a handler
// ends that is to be run again (see [ErrSuspended]). A refusal is not such an error: see
// [Question].Err.
//
// Handlers that run again must put the same questions in the same order, so they
// follow from the arguments and earlier answers alone; what else they depend on, or
// bring about, goes through [Once]. Questions put by several goroutines at once wait for
// each other, in no certain order: use one Ask.
func (q *Request) Ask(ctx context.Context, questions ...*Question) error {
	n := q.r.invocation.Load()
	if _, completes := q.r.job().(*completing); completes || n == nil { // MRTR-01
		return errNoAsking
	}
	if len(questions) == 0 {
		return nil
	}
	if len(questions) > maxQuestions {
		return fmt.Errorf("asking the client: %d questions at once, of at most %d", len(questions), maxQuestions)
	}
	seen := make(map[string]bool, len(questions))
	for _, one := range questions {
		if one == nil || one.key == "" || len(one.key) > maxKey || seen[one.key] { // MRTR-03
			return errors.New("asking the client: each question needs a key of its own")
		}
		seen[one.key] = true
		if err := one.prepare(n.server, q.live().version); err != nil {
			return fmt.Errorf("asking the client %q: %w", one.key, err)
		}
	}
	return n.ask(ctx, questions)
}

// maxKey bounds a key, in bytes.
const maxKey = asking.MaxKey

// ask puts one question and returns its refusal too.
func (q *Request) ask(ctx context.Context, one *Question) error {
	if err := q.Ask(ctx, one); err != nil {
		return err
	}
	return one.Err
}

// prepare checks the question, and encodes it for the revision.
func (q *Question) prepare(s *Server, v mcp.Version) error {
	q.Elicited, q.Sampled, q.Roots, q.Err, q.raw, q.fresh, q.sum, q.context = nil, nil, nil, nil, nil, false, nil, false
	var params any
	var err error
	switch {
	case q.form != nil:
		q.log = s.log
		params, err = q.prepareForm(&s.forms, v)
	case q.page != nil:
		params, err = q.preparePage(v)
	case q.sample != nil:
		params, err = q.prepareSample(v)
	case q.method == mcp.MethodListRoots:
		q.params = nil
		return nil
	default:
		return errors.New("the question has no parameters")
	}
	if err != nil || params == nil {
		return err
	}
	if q.params, err = mcp.Marshal(params); err != nil {
		return fmt.Errorf("encoding it: %w", err)
	}
	return nil
}

// digest tells questions apart, in tickets: a legacy client gets none.
func (q *Question) digest() []byte {
	if q.sum == nil {
		params := q.params
		if canonical, err := jsonx.Canonical(params); err == nil {
			params = canonical
		}
		sum := sha256.Sum256(append([]byte(q.method+"\x00"), params...))
		q.sum = sum[:16]
	}
	return q.sum
}

// input is the question as an entry of inputRequests (MRTR-03).
func (q *Question) input() mcp.InputRequest {
	r := mcp.InputRequest{Method: q.method, Params: q.params}
	if q.page != nil {
		r.Params = q.page.params("")
	}
	if r.Params == nil {
		r.Params = json.RawMessage("{}")
	}
	return r
}

// entry is the question as a ticket has it.
func (q *Question) entry() ticket.Question {
	e := ticket.Question{Key: q.key, Method: q.method, Digest: q.digest()}
	if q.page != nil {
		e.ID = q.page.id
	}
	return e
}

// is reports whether the question is the one of a ticket.
func (q *Question) is(e ticket.Question) bool {
	return q.key == e.Key && q.method == e.Method && string(q.digest()) == string(e.Digest)
}

// settle takes an answer. The error is an [*AnswerError], or nil for a refusal,
// which is an answer too (ELIC-05).
func (q *Question) settle(raw json.RawMessage) error {
	var err error
	q.Err = nil
	switch q.method {
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
		return &AnswerError{Key: q.key, Err: err}
	}
	q.raw = raw
	return nil
}

// checkAnswer is what can be said of an answer without its question (MRTR-07).
func checkAnswer(key, method string, raw json.RawMessage) error {
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

// missing returns what a client lacks for the questions, nil if it has all (CAP-03,
// MRTR-04, ELIC-02, SAMP-04, SAMP-07).
func missing(c *mcp.ClientCapabilities, questions []*Question) error {
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
	if lacks.Elicitation == nil && q.method == mcp.MethodElicit && (!c.ElicitURL() && q.page != nil || !c.ElicitForm() && q.page == nil) {
		lacks.Elicitation = new(mcp.ElicitationCapability)
	}
	switch {
	case q.method == mcp.MethodListRoots && (c == nil || c.Roots == nil):
		lacks.Roots = new(mcp.RootsCapability)
	case q.page != nil && !c.ElicitURL():
		lacks.Elicitation.URL = mcp.Present
	case q.page == nil && q.method == mcp.MethodElicit && !c.ElicitForm():
		lacks.Elicitation.Form = mcp.Present
	case q.method == mcp.MethodCreateMessage:
		return q.missingSampling(c, lacks)
	default:
		return false
	}
	return true
}
