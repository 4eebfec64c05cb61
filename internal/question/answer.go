package question

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/form"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// ScopeOnce is the scope of a decision that counts for this question only.
const ScopeOnce = "once"

// Outcomes are the ways on from a call of unknown outcome.
var Outcomes = []string{runlog.OutcomeHappened, runlog.OutcomeAgain, runlog.OutcomeTell, runlog.OutcomeEnd}

// Answer is a yes to a question. What its kind does not take is not looked at; the zero value
// says yes once, with a form's defaults and as much more of a limit as is asked for.
type Answer struct {
	Scope   string                     // of a call that asks first: [ScopeOnce] or [runlog.ScopeRun]; empty means once
	Content map[string]json.RawMessage // of a form
	More    string                     // of a limit: the amount
	Page    mcpclient.PageAction       // of a page that is waited for; empty means to try again
	Outcome string                     // of a call of unknown outcome: one of [Outcomes]
	Result  string                     // of such a call, if it happened: for the model
}

// Accept is the decision that an answer is. An answer that the question does not take is an
// error, and a form's a [form.ContentError].
func (v *View) Accept(a *Answer) (store.Decision, error) {
	d := store.Decision{Status: store.AskAccepted, Scope: ScopeOnce}
	switch {
	case v.Bad != nil:
		return store.Decision{}, v.Bad
	case v.Kind == runlog.AskOutcome:
		if !slices.Contains(Outcomes, a.Outcome) {
			return store.Decision{}, fmt.Errorf("what came of the call: %q is none of %s", a.Outcome, strings.Join(Outcomes, ", "))
		}
		return runlog.OutcomeDecision(a.Outcome, a.Result), nil
	case v.Kind == runlog.AskPage:
		if a.Page == mcpclient.PageOpen {
			return runlog.PageDecision(string(mcpclient.PageOpen)), nil
		}
		return runlog.PageDecision(string(mcpclient.PageRetry)), nil
	case v.Kind == runlog.AskKind && a.Scope == runlog.ScopeRun:
		d.Scope = runlog.ScopeRun
		return d, nil
	case v.Limit != nil:
		if err := v.checkMore(a.More); err != nil {
			return store.Decision{}, err
		}
		d.Answer = runlog.MoreAnswer(a.More)
		return d, nil
	case v.Asked == nil:
		return d, nil
	}
	answer := &mcpclient.Decision{Action: mcp.ActionAccept}
	if v.Form != nil {
		content, err := v.Form.Complete(a.Content)
		if err != nil {
			return store.Decision{}, err
		}
		answer.Content = content
	}
	return v.Decided(answer)
}

// Decided is the decision of a yes to what a server asks, bound to what was shown.
func (v *View) Decided(answer *mcpclient.Decision) (store.Decision, error) {
	answer.Hash = v.Asked.Hash
	raw, err := jsonx.Marshal(answer)
	if err != nil {
		return store.Decision{}, fmt.Errorf("writing the answer down: %w", err)
	}
	return store.Decision{Status: store.AskAccepted, Scope: ScopeOnce, Answer: raw}, nil
}

// Decline is the decision of a no, with a reason for the model or none.
func (v *View) Decline(reason string) store.Decision {
	if v.Kind == runlog.AskPage {
		return runlog.PageDecision(string(mcpclient.PageCancel))
	}
	return store.Decision{Status: store.AskDeclined, Answer: runlog.DeclineAnswer(reason)}
}

// checkMore refuses an amount that is no amount of the limit.
func (v *View) checkMore(more string) error {
	if more == "" {
		return nil
	}
	if m, err := llm.ParseMoney(more); err != nil || m <= 0 || (v.Limit.Limit != "cost" && strings.Contains(more, ".")) {
		return fmt.Errorf("%q: want an amount of %s above zero, such as %s", more, v.Limit.Limit, v.Limit.More)
	}
	return nil
}

// Typed reads the values of a form's fields as a person has typed them. An empty one of an
// optional field is left out.
func Typed(f *form.Form, values map[string]string) (map[string]json.RawMessage, error) {
	content := make(map[string]json.RawMessage)
	for name, value := range values {
		field := f.Field(name)
		if field == nil {
			return nil, NoFieldError(f, name)
		}
		raw, err := field.Parse(value)
		if err != nil {
			return nil, fmt.Errorf("the value of %q %w", name, err)
		}
		if raw != nil {
			content[name] = raw
		}
	}
	return content, nil
}

// NoFieldError is the error of a field that a form does not have.
func NoFieldError(f *form.Form, name string) error {
	names := make([]string, len(f.Fields))
	for i := range f.Fields {
		names[i] = f.Fields[i].Name
	}
	return fmt.Errorf("it has no field %q, only %s", name, cmp.Or(strings.Join(names, ", "), "-"))
}
