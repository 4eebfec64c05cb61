package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/asking"
	"github.com/troupe-dev/troupe/mcpserver/internal/pages"
	"github.com/troupe-dev/troupe/mcpserver/internal/questions"
)

// Requester is what handlers get: a [*Request], or what has one inside.
type Requester interface{ asking() *Request }

func (q *Request) asking() *Request { return q }

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

	q questions.Question
}

// FormQuestion asks a person to fill in a form. The key tells the question from the
// others of the call.
func FormQuestion(key string, p *mcp.ElicitParams) *Question {
	return &Question{q: questions.Question{Key: key, Method: mcp.MethodElicit, Form: p}}
}

// ElicitationID stands for the id of the elicitation in the URLs of [URLQuestion] and
// [Request.ElicitURL]: by it the page knows what to pass to [Server.CompleteElicitation].
// The id is no proof of anything: the page must find out who visits it.
const ElicitationID = questions.ElicitationID

// URLQuestion sends a person to a web page. Url is https, or http on this machine, with
// [ElicitationID] where the page wants that; there must be nothing secret in it.
func URLQuestion(key, message, url string) *Question {
	return &Question{q: questions.Question{Key: key, Method: mcp.MethodElicit, Page: &questions.Page{Message: message, URL: url}}}
}

// SampleQuestion asks the client's model.
func SampleQuestion(key string, p *mcp.CreateMessageParams) *Question {
	return &Question{q: questions.Question{Key: key, Method: mcp.MethodCreateMessage, Sample: p}}
}

// RootsQuestion asks for the client's roots.
func RootsQuestion(key string) *Question {
	return &Question{q: questions.Question{Key: key, Method: mcp.MethodListRoots}}
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
func (q *Request) Ask(ctx context.Context, all ...*Question) error {
	n := q.r.invocation.Load()
	if _, completes := q.r.job().(*completing); completes || n == nil { // MRTR-01
		return errNoAsking
	}
	if len(all) == 0 {
		return nil
	}
	if len(all) > questions.Most {
		return fmt.Errorf("asking the client: %d questions at once, of at most %d", len(all), questions.Most)
	}
	asked, seen := make([]*questions.Question, len(all)), make(map[string]bool, len(all))
	for i, one := range all {
		if one == nil || one.q.Key == "" || len(one.q.Key) > maxKey || seen[one.q.Key] { // MRTR-03
			return errors.New("asking the client: each question needs a key of its own")
		}
		asked[i], seen[one.q.Key] = &one.q, true
		if err := one.q.Prepare(&n.server().dialogues.Forms, q.live().version); err != nil {
			return fmt.Errorf("asking the client %q: %w", one.q.Key, err)
		}
	}
	err := n.Ask(ctx, asked)
	for _, one := range all {
		a := one.q.Answer
		one.Elicited, one.Sampled, one.Roots, one.Err = a.Elicited, a.Sampled, a.Roots, public(a.Err)
	}
	return public(err)
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

// Elicit asks a person to fill in a form with the fields of T, a struct of strings,
// numbers and booleans; the tags json and jsonschema give names and descriptions, and
// what is omitempty, omitzero or a pointer may be left out. The error is [ErrDeclined],
// [ErrDismissed], or one of [Request.Ask].
//
//	who, err := mcpserver.Elicit[Name](ctx, req, "name", "What is your name?")
//
// Forms must not ask for secrets: a field that looks like one is an error. Use
// [Request.ElicitURL].
func Elicit[T any](ctx context.Context, req Requester, key, message string) (T, error) {
	var answer T
	q := req.asking()
	raw, err := questions.FormSchema(reflect.TypeFor[T]())
	if err != nil {
		return answer, fmt.Errorf("asking the client %q: %w", key, err)
	}
	one := FormQuestion(key, &mcp.ElicitParams{Message: message, RequestedSchema: raw})
	if err := q.ask(ctx, one); err != nil {
		return answer, err
	}
	content, err := jsonx.Marshal(one.Elicited.Content)
	if err == nil {
		err = jsonx.Unmarshal(content, &answer)
	}
	if err != nil {
		return answer, &AnswerError{Key: key, Err: err}
	}
	return answer, nil
}

// ElicitForm asks a person to fill in a form whose schema is p's, verbatim. A
// refusal is a result: see its Action. The content of an accepted form fits the schema:
// no field is missing that is required, none is there that was not
// asked for, and none was filled in by us.
func (q *Request) ElicitForm(ctx context.Context, key string, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	one := FormQuestion(key, p)
	err := q.ask(ctx, one)
	if one.Elicited != nil && (errors.Is(err, ErrDeclined) || errors.Is(err, ErrDismissed)) {
		return one.Elicited, nil
	}
	return one.Elicited, err
}

// ElicitURL sends a person to a web page, and returns once that is done, which
// [Server.CompleteElicitation] says. The error is [ErrDeclined], [ErrDismissed], what
// became of the wait, or one of [Request.Ask].
//
// Clients of 2026-07-28 get input_required, and ask again until it is done; those of
// 2025-11-25 get a request, and a notification of the end; for others, and those without
// the capability, the error is a [*CapabilityError]. See [Request.NeedURL] for the error -32042.
func (q *Request) ElicitURL(ctx context.Context, key, message, url string) error {
	return q.ask(ctx, URLQuestion(key, message, url))
}

// Roots asks for the places that the client lets the server know of. They are
// guidance, not a sandbox (ROOT-05).
func (q *Request) Roots(ctx context.Context, key string) ([]mcp.Root, error) {
	one := RootsQuestion(key)
	err := q.ask(ctx, one)
	return one.Roots, err
}

// Sample asks the client's model, with everything that p says. The error is
// [ErrDeclined] if a person has said no, or one of [Request.Ask]. A client without
// sampling.tools is never sent tools, nor one of 2025-11-25 or later without
// sampling.context a wish for context: that is a [*CapabilityError]. Calls and
// results in the messages must balance. Handlers that let the model
// call tools use sampling.Loop, or bound the turns themselves, and say
// [mcp.ToolChoiceNone] in the last.
//
// With [Options].Model a client that has no sampling, or none with tools where they are
// needed, is not asked: that model answers, once for the call, also if the handler runs
// again.
func (q *Request) Sample(ctx context.Context, key string, p *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
	one := SampleQuestion(key, p)
	n := q.r.invocation.Load()
	if n == nil || n.server().model == nil || p == nil || key == "" || len(key) > maxKey {
		err := q.ask(ctx, one)
		return one.Sampled, err
	}
	a, err := n.sampleOwn(ctx, key, p, func() bool { return one.q.ClientAnswers(q.live().capabilities()) })
	if err != nil || !a.Client {
		return a.Result, err
	}
	err = q.ask(ctx, one)
	return one.Sampled, err
}

// ErrNoElicitation says that no elicitation of that id is open for that principal.
var ErrNoElicitation = pages.ErrUnknown

// CompleteElicitation says that what a person was sent to a page for is done: the
// handler that waits goes on, at another server that shares [Options].Records within
// seconds, and the client that was asked is notified, if it speaks 2025-11-25. Principal is
// the ID of the visitor, which the page must have found out for itself: if another
// principal was asked, the error is [ErrNoElicitation], as for an id that is not known or
// has expired.
func (s *Server) CompleteElicitation(id, principal string) error {
	return s.pages.Complete(id, principal)
}

// NeedURL is for handlers that do not wait: it returns an error to be returned, which
// sends the person to a page and lets the client call again when that is done. A client
// of 2025-11-25 gets -32042, one of 2026-07-28 input_required, with the answer
// in [Request.Responses], and others, and those without the capability, a text with the
// address and what to do. Only a handler that knows by itself whether the page was visited
// can use it. The same principal, or legacy session, gets the same page for the same key
// and url until it is done or about to expire.
func (q *Request) NeedURL(key, message, url string) error {
	r := q.live()
	n := r.invocation.Load()
	one := &URLQuestion(key, message, url).q
	if err := one.Prepare(&r.session.server.dialogues.Forms, r.version); err != nil || n == nil {
		return fmt.Errorf("asking the client %q: %w", key, err)
	}
	can := r.capabilities().ElicitURL()
	required := can && r.version.Has(mcp.FeatureElicitationIDs)
	about := pages.Need{Principal: r.principal.id(), Key: key, URL: url}
	if r.version.Era() == mcp.EraLegacy && !r.session.stateless {
		about.Session = r.session
	}
	var notified *pages.Client
	if required {
		notified = &pages.Client{Session: r.session, Call: n}
	}
	var err error
	if one.Page.ID, err = n.server().pages.For(n.Context(), about, notified); err != nil {
		return err
	}
	switch {
	case required:
		n.server().pages.Over(one.Page.ID)
		return mcp.URLElicitationRequired(&mcp.ElicitParams{Message: message, URL: one.Page.Address(), ElicitationID: one.Page.ID})
	case can && r.version.Era() == mcp.EraModern:
		return &InputRequired{Requests: mcp.InputRequests{key: {Method: mcp.MethodElicit, Params: one.Page.Params("")}}}
	}
	text := fmt.Sprintf("%s Open this page, then call again: %s", message, one.Page.Address())
	return questions.Refusal(text)
}

// Once does what a handler must not do twice, because it has an effect or comes out
// differently each time, and may run again for a later question:
//
//	order, err := mcpserver.Once(ctx, req, "order", func(ctx context.Context) (Order, error) { … })
//
// Its result, which must survive JSON, travels with the call under the key; only a
// result does, an error does not. What it did in a round that then was cancelled, or
// whose server crashed before it asked, is not known to the next one of another server:
// where that matters, f uses a key of its own for what it does.
//
// It may be called from any goroutine of the handler. One that comes with a key at which
// another is at work waits for that one's result; f must not come back with its own key.
func Once[T any](ctx context.Context, req Requester, key string, f func(ctx context.Context) (T, error)) (T, error) {
	n := req.asking().r.invocation.Load()
	if n == nil {
		return f(ctx) // it never runs again
	}
	if key == "" || len(key) > maxKey {
		var none T
		return none, errors.New("mcpserver: what is done once needs a key")
	}
	return onceIn(ctx, n, key, f)
}

// onceIn is Once in a call, for keys of any length.
func onceIn[T any](ctx context.Context, n *handlerCall, key string, f func(ctx context.Context) (T, error)) (value T, err error) {
	raw, done, err := n.Once(ctx, key, func(ctx context.Context) (raw json.RawMessage, err error) {
		if value, err = f(ctx); err != nil {
			return nil, err
		}
		if raw, err = jsonx.Marshal(value); err != nil {
			return nil, fmt.Errorf("keeping what was done once as %q: %w", key, err)
		}
		return raw, nil
	})
	if err == nil && done {
		if err = jsonx.Unmarshal(raw, &value); err != nil {
			err = fmt.Errorf("reading what was done once as %q: %w", key, err)
		}
	}
	return value, err
}
