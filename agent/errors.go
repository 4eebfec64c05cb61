package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/actors/provider"
	"github.com/troupe-dev/troupe/agent/internal/claims"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/store"
)

// Conditions that callers test with errors.Is.
var (
	// ErrRunExists is returned by Start for the ID of a run that was started with
	// another input.
	ErrRunExists = errors.New("a run of this ID was started with another input")
	// ErrNotEnded is returned by [Run.Result] for a run that is still under way.
	ErrNotEnded = errors.New("the run has not ended")
	// ErrInterrupted is returned by Wait for a run of a process that has gone: no process
	// works on it. [Agent.Start] with its ID and [Runtime.Resume] go on with it.
	ErrInterrupted = errors.New("the run was interrupted: no process works on it")
	// ErrClosed is the cause with which runs end when their runtime is closed, and
	// the error of every method of a closed runtime.
	ErrClosed = errors.New("the runtime is closed")
	// ErrTooManyRuns is returned by Start at the limit of [Options].MaxRuns.
	ErrTooManyRuns = errors.New("too many runs at once")
	// ErrTooManyTenants is returned by [Runtime.NewTenant] at the limit of
	// [Options].MaxTenants.
	ErrTooManyTenants = errors.New("too many tenants at once")
	// ErrSuspended is returned by Wait for a run that was suspended, by [Run.Suspend] or as its
	// runtime was closed.
	ErrSuspended = loop.ErrSuspended
	// ErrLeft is returned by Wait for a run that this process does not work on any more, as its lease was lost, or its actor
	// has died: it has not ended, and goes on where its journal ends, in the process that has it now or by
	// [Runtime.Resume]. The error wraps the reason, such as [store.ErrFenced].
	ErrLeft = loop.ErrLeft
	// ErrNotWaiting is returned by [Run.SuspendIdle] for a run that does not wait for answers alone,
	// and by [Run.Suspend] for one that has ended.
	ErrNotWaiting = loop.ErrNotWaiting
	// ErrOutcomeUnknown ends a run that was resumed with a call of unknown outcome, where
	// [EndUnknown] or [EndRun] says so.
	ErrOutcomeUnknown = loop.ErrOutcomeUnknown
	// ErrSettled is returned for an answer to a question that is decided already: by
	// another answer, by the clock, or because its run has ended.
	ErrSettled = store.ErrSettled
	// ErrProviderBusy fails or leaves a run whose provider of models has too many requests waiting: see [OutageError].
	ErrProviderBusy = provider.ErrBusy
	// ErrProviderDown fails or leaves a run whose provider of models has failed too often, and gets
	// no requests for a while: see [ProviderOptions] and [OutageError].
	ErrProviderDown = provider.ErrCircuitOpen
)

// LimitError ends a run that has reached one of its limits.
type LimitError struct {
	Account string // whose limit it is: the run's, or that of one above; empty for wall time and repeats
	Limit   string // "tokens", "cost", "model calls", "tool calls", "steps", "depth", "wall time" or "repeats", see [Config.MaxRepeats]
	Max     string // a decimal of money, or a whole number

	text string
}

func (e *LimitError) Error() string {
	if e.text == "" {
		return fmt.Sprintf("the run has reached its limit: %s %s", e.Max, e.Limit)
	}
	return e.text
}

// GuardError ends a run that a [Guard] has stopped, or whose answers it has refused too
// often.
type GuardError struct {
	Guard  string
	Point  GuardPoint
	Reason string
}

func (e *GuardError) Error() string {
	return (&guard.Error{Guard: e.Guard, Point: string(e.Point), Reason: e.Reason}).Error()
}

// OutageError is returned by Wait for a run whose model cannot be asked at the moment, or that of a sub-agent of it: what fails
// is the provider, and the same request may do better later. It takes the place of the end of a run that has
// [Options].Store: the run is left there as by [Run.Suspend], and [ErrSuspended] is one too. [Runtime.Resume] goes on with it;
// what the provider has refused counts against no limit, nor does the wait.
type OutageError struct {
	Provider string    // such as "openai"; empty where the model does not say
	Class    string    // see [llm.Outage]
	RetryAt  time.Time // before that it is of little use to resume the run
	Err      error     // the model's, as a rule an [*llm.Error]
}

func (e *OutageError) Error() string {
	return (&loop.OutageError{Class: e.Class, Err: e.Err}).Error()
}

// Is implements the interface that [errors.Is] uses.
func (e *OutageError) Is(target error) bool { return target == ErrSuspended }

// Unwrap returns the model's error.
func (e *OutageError) Unwrap() error { return e.Err }

// CancelledError ends a run that was cancelled.
type CancelledError struct{ Cause error }

func (e *CancelledError) Error() string { return (*loop.CancelledError)(e).Error() }

// Unwrap returns the cause.
func (e *CancelledError) Unwrap() error { return e.Cause }

// JournalError ends a run whose events could not be written: it must not go on.
type JournalError struct{ Err error }

func (e *JournalError) Error() string { return (*loop.JournalError)(e).Error() }

// Unwrap returns the store's error, such as [store.ErrFenced].
func (e *JournalError) Unwrap() error { return e.Err }

// NoPriceError refuses a run with a limit of money whose model has no price.
type NoPriceError struct{ Model string }

func (e *NoPriceError) Error() string { return (*loop.NoPriceError)(e).Error() }

// RunError is a run of another process, or of the past, that has not finished with
// an answer. Runs of this runtime have the errors themselves.
type RunError struct {
	State   store.RunState
	Message string
}

func (e *RunError) Error() string { return e.Message }

// runError is an error of a run's loop. With errors.As it is also the error of this
// package that stands for the loop's.
type runError struct {
	about string // the part that failed, such as: run "r"; empty for none
	err   error
}

// errorOf returns an error of a loop as users get it; nil for nil.
func errorOf(about string, err error) error {
	if err == nil {
		return nil
	}
	return &runError{about, err}
}

func (e *runError) Error() string {
	if e.about == "" {
		return e.err.Error()
	}
	return e.about + ": " + e.err.Error()
}

// Unwrap returns the loop's error.
func (e *runError) Unwrap() error { return e.err }

// As implements the interface that [errors.As] uses.
func (e *runError) As(target any) bool {
	switch t := target.(type) {
	case **LimitError:
		return convert(e.err, t, func(l *budget.LimitError) *LimitError {
			return &LimitError{Account: l.Account, Limit: l.Limit, Max: l.Max, text: l.Error()}
		})
	case **GuardError:
		return convert(e.err, t, func(g *guard.Error) *GuardError { return &GuardError{g.Guard, GuardPoint(g.Point), g.Reason} })
	case **OutageError:
		return convert(e.err, t, func(o *loop.OutageError) *OutageError {
			return &OutageError{Provider: o.Provider, Class: o.Class, RetryAt: o.RetryAt, Err: o.Err}
		})
	case **CancelledError:
		return convert(e.err, t, func(c *loop.CancelledError) *CancelledError { return (*CancelledError)(c) })
	case **JournalError:
		return convert(e.err, t, func(j *loop.JournalError) *JournalError { return (*JournalError)(j) })
	case **NotResumableError:
		return convert(e.err, t, func(r *claims.Refusal) *NotResumableError { return (*NotResumableError)(r) })
	case **NoPriceError:
		return convert(e.err, t, func(n *loop.NoPriceError) *NoPriceError { return (*NoPriceError)(n) })
	}
	return false
}

// convert finds an error in a chain, and sets target to the error that this package has for it.
func convert[From error, To any](err error, target *To, as func(From) To) bool {
	from, ok := errors.AsType[From](err)
	if ok {
		*target = as(from)
	}
	return ok
}
