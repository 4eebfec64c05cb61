package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/asking"
	"github.com/troupe-dev/troupe/mcpserver/internal/pages"
	"github.com/troupe-dev/troupe/mcpserver/internal/questions"
)

// Requester is a [*Request], or a type that embeds it: handlers get one.
type Requester interface{ asking() *Request }

func (q *Request) asking() *Request { return q }

// Question is one question to the client, and then its answer. [FormQuestion],
// [URLQuestion], [SampleQuestion] and [RootsQuestion] make it, for one [Request.Ask].
type Question struct {
	// Elicited answers a form or a URL question, Sampled a question to the model, Roots the
	// question for the roots. Ask sets the one that fits.
	Elicited *mcp.ElicitResult
	Sampled  *mcp.CreateMessageResult
	Roots    []mcp.Root
	// Err says why there is no usable answer: [ErrDeclined], [ErrDismissed], an
	// [*AnswerError], or, with a legacy client, a [*ClientError] or the end of the request.
	Err error

	q questions.Question
}

// FormQuestion asks a person to fill in a form. The key identifies the question within the
// call.
func FormQuestion(key string, p *mcp.ElicitParams) *Question {
	return &Question{q: questions.Question{Key: key, Method: mcp.MethodElicit, Form: p}}
}

// ElicitationID stands for the id of the elicitation in the URLs of [URLQuestion] and
// [Request.ElicitURL]: the page passes it to [Server.CompleteElicitation]. The id proves
// nothing: the page must authenticate its visitor.
const ElicitationID = questions.ElicitationID

// URLQuestion sends a person to a web page. url is https, or http on this machine, with
// [ElicitationID] where the page needs the id; it must hold no secret.
func URLQuestion(key, message, url string) *Question {
	return &Question{q: questions.Question{Key: key, Method: mcp.MethodElicit, Page: &questions.Page{Message: message, URL: url}}}
}

// PageQuestion is [URLQuestion] for an elicitation that is open: see
// [Server.OpenElicitation].
func PageQuestion(key, message, url, id string) *Question {
	q := URLQuestion(key, message, url)
	q.q.Page.ID = id
	return q
}

// SampleQuestion asks the client's model.
func SampleQuestion(key string, p *mcp.CreateMessageParams) *Question {
	return &Question{q: questions.Question{Key: key, Method: mcp.MethodCreateMessage, Sample: p}}
}

// RootsQuestion asks for the client's roots.
func RootsQuestion(key string) *Question {
	return &Question{q: questions.Question{Key: key, Method: mcp.MethodListRoots}}
}

// Ask puts several questions at once: to a client of 2026-07-28 in one round, of which
// clients allow few, to an older client in requests side by side. It returns when all have
// their answers, which may take days. If they never come the handler's context ends.
//
// The error is not nil when Ask cannot put the questions: a [*CapabilityError] if the
// client does not support one, or the end of the call. A handler returns every error that
// it does not know: by [ErrSuspended], for example, a handler ends that will run again. A
// refusal is not such an error: see [Question].Err.
//
// A handler that runs again must put the same questions in the same order, so its
// questions follow from the arguments and earlier answers alone; everything else that it
// depends on, or causes, goes through [Once]. Questions of several goroutines wait for
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

// ask puts one question. Its error is also a refusal.
func (q *Request) ask(ctx context.Context, one *Question) error {
	if err := q.Ask(ctx, one); err != nil {
		return err
	}
	return one.Err
}

// Elicit asks a person to fill in a form with the fields of T, a struct of strings,
// numbers and booleans; the tags json and jsonschema give names and descriptions, and a
// field that is omitempty, omitzero or a pointer is optional. The error is [ErrDeclined],
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
// it has all required fields and no unknown ones, and the server adds no defaults.
func (q *Request) ElicitForm(ctx context.Context, key string, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	one := FormQuestion(key, p)
	err := q.ask(ctx, one)
	if one.Elicited != nil && (errors.Is(err, ErrDeclined) || errors.Is(err, ErrDismissed)) {
		return one.Elicited, nil
	}
	return one.Elicited, err
}

// ElicitURL sends a person to a web page, and returns once the page has called
// [Server.CompleteElicitation]. The error is [ErrDeclined], [ErrDismissed], the end of the
// wait, or one of [Request.Ask].
//
// A client of 2026-07-28 gets input_required, and repeats its request until the page is
// done; one of 2025-11-25 gets a request, and a notification of the end; for others, and
// those without the capability, the error is a [*CapabilityError]. See [Request.NeedURL] for
// the error -32042.
func (q *Request) ElicitURL(ctx context.Context, key, message, url string) error {
	return q.ask(ctx, URLQuestion(key, message, url))
}

// Roots asks for the client's roots: the places where the server may work. They are
// guidance, not a sandbox.
func (q *Request) Roots(ctx context.Context, key string) ([]mcp.Root, error) {
	one := RootsQuestion(key) // ROOT-05
	err := q.ask(ctx, one)
	return one.Roots, err
}

// ErrNoElicitation is returned by [Server.CompleteElicitation] if no elicitation of the id
// is open for the principal.
var ErrNoElicitation = pages.ErrUnknown

// CompleteElicitation reports that a person has done what a page is for. The handler that
// waits goes on, at another server that shares [Options].Records within seconds, and a
// client of 2025-11-25 is notified. principal is the ID of the visitor, which the page must
// have authenticated itself: if the elicitation is for another principal, unknown or expired,
// the error is [ErrNoElicitation].
func (s *Server) CompleteElicitation(id, principal string) error {
	return s.pages.Complete(id, principal)
}

// OpenElicitation opens an elicitation for the principal of that ID, for several questions by
// URL ([PageQuestion]) that one page answers: of calls side by side, and of calls that follow
// each other. It expires after life, an hour if that is zero.
func (s *Server) OpenElicitation(ctx context.Context, principal string, life time.Duration) (id string, err error) {
	return s.pages.Make(ctx, principal, life)
}

// LookupElicitation returns [ErrNoElicitation] unless an elicitation of the id is open for the
// principal, or has ended lately: a page looks before it shows its visitor anything.
func (s *Server) LookupElicitation(ctx context.Context, id, principal string) (ended bool, err error) {
	return s.pages.Lookup(ctx, id, principal)
}

// FailElicitation reports that a person has refused on the page of an elicitation, or that it
// cannot be done: handlers that wait get an error that is [ErrDeclined], with the reason, which
// clients see. Everything else is as of [Server.CompleteElicitation].
func (s *Server) FailElicitation(id, principal, reason string) error {
	return s.pages.Fail(id, principal, reason)
}

// NeedURL is [Request.Need] with one [URLQuestion].
func (q *Request) NeedURL(key, message, url string) error {
	return q.Need(URLQuestion(key, message, url))
}

// Need is for handlers that do not wait: the handler returns its error, which sends the
// person to the pages of questions by URL, and lets the client call again when they are done. A
// client of 2025-11-25 gets -32042, one of 2026-07-28 input_required, with the answers in
// [Request.Responses]; other clients, and those without the capability, get a text with the
// addresses and the next step. The handler must find out itself whether the person has visited
// the pages. The same principal, or legacy session, gets the same page for the same key and
// url until it is done or about to expire.
func (q *Request) Need(all ...*Question) error {
	r := q.live()
	n := r.invocation.Load()
	if len(all) == 0 || len(all) > questions.Most { // URL-40
		return fmt.Errorf("asking the client: %d pages at once, want 1 to %d", len(all), questions.Most)
	}
	can := r.capabilities().ElicitURL()
	required := can && r.version.Has(mcp.FeatureElicitationIDs)
	var notified *pages.Client
	if required && n != nil {
		notified = &pages.Client{Session: r.session, Call: n}
	}
	needed := make([]*questions.Question, len(all))
	for i, one := range all {
		key, page := one.q.Key, one.q.Page
		if page == nil || n == nil {
			return fmt.Errorf("asking the client %q: %w", key, errNoAsking)
		}
		if err := one.q.Prepare(&r.session.server.dialogues.Forms, r.version); err != nil {
			return fmt.Errorf("asking the client %q: %w", key, err)
		}
		about := pages.Need{Principal: r.principal.id(), Key: key, URL: page.URL}
		if r.version.Era() == mcp.EraLegacy && !r.session.stateless {
			about.Session = r.session
		}
		var err error
		if page.ID, err = n.server().pages.For(n.Context(), page.ID, about, notified); err != nil {
			return err
		}
		defer n.server().pages.Over(page.ID, r.session)
		needed[i] = &one.q
	}
	params, inputs, text := questions.Needed(needed)
	switch {
	case required:
		return mcp.URLElicitationRequired(params...)
	case can && r.version.Era() == mcp.EraModern:
		return &InputRequired{Requests: inputs}
	}
	return questions.Refusal(text)
}

// Once runs f at most once in a call, although the handler may run again for a later
// question: for work that has an effect, or another result each time.
//
//	order, err := mcpserver.Once(ctx, req, "order", func(ctx context.Context) (Order, error) { … })
//
// The result of f, which must survive JSON, travels with the call under the key; an error
// does not. If a round is cancelled, or the server crashes before the handler asks, another
// server does not know the result and runs f again: where that matters, f needs an
// idempotency key of its own.
//
// Once may be called from any goroutine of the handler. A second goroutine with the same key
// waits for the result of the first; f must not call Once with its own key.
func Once[T any](ctx context.Context, req Requester, key string, f func(ctx context.Context) (T, error)) (T, error) {
	n := req.asking().r.invocation.Load()
	if n == nil {
		return f(ctx) // it never runs again
	}
	if key == "" || len(key) > maxKey {
		var none T
		return none, fmt.Errorf("mcpserver: Once needs a key of 1 to %d bytes, and got %d", maxKey, len(key))
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
			return nil, fmt.Errorf("keeping the result of Once %q: %w", key, err)
		}
		return raw, nil
	})
	if err == nil && done {
		if err = jsonx.Unmarshal(raw, &value); err != nil {
			err = fmt.Errorf("reading the result of Once %q: %w", key, err)
		}
	}
	return value, err
}
