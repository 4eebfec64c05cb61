package router

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/troupe-dev/troupe/llm"
)

// Stream runs one turn, as [llm.Model] has it, on the first candidate for what the
// request needs. [llm.Observer.Chose] of the context is told of each choice, with the name
// under which [Router.Price] knows it. The request's Model is a name or an alias of one
// of the cards, and then no other is asked.
//
// If a model fails in a way that is its server's (a retryable error, or that the model, the
// credentials or the quota are not there), the next candidate is asked, as long as nothing
// of the turn has been passed on or the observer allows a restart. If all fail the error
// is a [*FailedError].
func (r *Router) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		candidates, err := r.Choose(NeedOf(req))
		if err != nil {
			yield(nil, err)
			return
		}
		t := &turn{observer: llm.ObserverOf(ctx), yield: yield}
		own := *req
		own.Model = "" // the candidate's own
		var failed []Failure
		for i, c := range candidates {
			t.choose(&c, failed)
			err := t.run(t.observe(ctx, i < len(candidates)-1), &c, &own)
			if err == nil {
				return
			}
			failed = append(failed, Failure{c.Model.Name(), err})
			if ctx.Err() != nil || !another(err) || i == len(candidates)-1 || !t.mayRestart() {
				yield(nil, failure(failed))
				return
			}
		}
	}
}

// turn is one turn on its way to the one who asked.
type turn struct {
	observer *llm.Observer
	yield    func(llm.Event, error) bool
	begun    bool // something has been passed on
}

// observe returns the context for one candidate: what is behind it is told whether another
// follows, and may begin the turn again in its own right.
func (t *turn) observe(ctx context.Context, another bool) context.Context {
	o := *t.observer
	o.Fallback = o.Fallback || another
	if restart := o.Restart; restart != nil {
		o.Restart = func() { restart(); t.begun = false }
	}
	return llm.Observe(ctx, &o)
}

// choose tells the observer of a choice.
func (t *turn) choose(c *Candidate, failed []Failure) {
	if t.observer.Chose == nil {
		return
	}
	choice := llm.Choice{Model: c.Model.Name(), Reason: c.Reason, Fallback: len(failed)}
	if len(failed) > 0 {
		last := failed[len(failed)-1]
		choice.Reason, choice.After = fmt.Sprintf("%s, after %s failed: %v", c.Reason, last.Model, last.Err), last.Err
	}
	t.observer.Chose(choice)
}

// run passes the events of one candidate on. It returns the candidate's error; nil means
// that the turn is complete, or that the caller has stopped reading.
func (t *turn) run(ctx context.Context, c *Candidate, req *llm.Request) error {
	for ev, err := range c.Model.Stream(ctx, req) {
		if err != nil {
			return err
		}
		if end, ok := ev.(llm.Finish); ok && end.Model == "" {
			end.Model = c.Model.Name()
			ev = end
		}
		t.begun = true
		if !t.yield(ev, nil) {
			return nil
		}
	}
	return nil
}

// mayRestart reports whether the turn may begin again, and says so to its reader where
// something has been passed on.
func (t *turn) mayRestart() bool {
	if !t.begun {
		return true
	}
	if t.observer.Restart == nil {
		return false
	}
	t.observer.Restart()
	t.begun = false
	return true
}

// another reports whether another model may do better.
func another(err error) bool {
	var e *llm.Error
	if errors.As(err, &e) && e.Retryable {
		return true
	}
	for _, kind := range []error{llm.ErrNotFound, llm.ErrAuth, llm.ErrQuota, llm.ErrUnreachable} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// Failure is one model that failed.
type Failure struct {
	Model string
	Err   error
}

// FailedError says that several models were asked for a turn and none gave it. It wraps
// their errors, the last first.
type FailedError struct{ Failures []Failure }

// Error names each model and how it failed.
func (e *FailedError) Error() string {
	parts := make([]string, len(e.Failures))
	for i, f := range e.Failures {
		parts[i] = fmt.Sprintf("%s: %v", f.Model, f.Err)
	}
	return fmt.Sprintf("%d models failed: %s", len(parts), strings.Join(parts, "; then "))
}

// Unwrap returns the errors of the models.
func (e *FailedError) Unwrap() []error {
	errs := make([]error, 0, len(e.Failures))
	for i := len(e.Failures) - 1; i >= 0; i-- {
		errs = append(errs, e.Failures[i].Err)
	}
	return errs
}

// failure is the error of a turn: that of the one model that was asked, as it is, or all.
func failure(failed []Failure) error {
	if len(failed) == 1 {
		return failed[0].Err
	}
	return &FailedError{failed}
}
