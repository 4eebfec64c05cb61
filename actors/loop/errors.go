package loop

import (
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/internal/budget"
)

// CancelledError ends a run that was cancelled.
type CancelledError struct{ Cause error }

func (e *CancelledError) Error() string {
	if e.Cause == nil {
		return "the run was cancelled"
	}
	return "the run was cancelled: " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *CancelledError) Unwrap() error { return e.Cause }

// JournalError ends a run whose events could not be written: it must not go on.
type JournalError struct{ Err error }

func (e *JournalError) Error() string { return "the run's journal: " + e.Err.Error() }

// Unwrap returns the cause, such as [store.ErrFenced].
func (e *JournalError) Unwrap() error { return e.Err }

// LeftError ends the work of this process on a run that another one has, or will have: nothing was appended
// for that, and the run goes on where its journal ends. [ErrLeft] is one too.
type LeftError struct{ Cause error }

func (e *LeftError) Error() string {
	if e.Cause == nil {
		return ErrLeft.Error()
	}
	return ErrLeft.Error() + ": " + e.Cause.Error()
}

// Is implements the interface that [errors.Is] uses.
func (e *LeftError) Is(target error) bool { return target == ErrLeft }

// Unwrap returns the cause, such as a [*JournalError] with [store.ErrFenced].
func (e *LeftError) Unwrap() error { return e.Cause }

// RefusedError reports that a run cannot be resumed. It is left as it is.
type RefusedError struct{ Run, Why string }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the run %s cannot be resumed: %s", e.Run, e.Why)
}

// UnknownError is a call of unknown outcome, such as one whose connection
// was lost after it had been sent.
type UnknownError struct{ Err error }

func (e *UnknownError) Error() string { return "the outcome of the call is unknown: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *UnknownError) Unwrap() error { return e.Err }

// NoPriceError refuses a run with a limit of money whose model has no price.
type NoPriceError struct{ Model string }

func (e *NoPriceError) Error() string {
	return fmt.Sprintf("there is a limit of money, and no price for the model %s", e.Model)
}

// Errors of runs and calls.
var (
	// ErrOutcomeUnknown ends a run that goes on with a call of unknown outcome, and that was to end
	// then: see [Resumption].Unknown.
	ErrOutcomeUnknown = errors.New("the outcome of a call is unknown, and the run was to end")
	// ErrSuspended ends the work on a run that was suspended. In its journal it has not
	// ended: it waits, until it is resumed.
	ErrSuspended = errors.New("the run was suspended: no process works on it until it is resumed")
	// ErrLeft ends the work on a run that this process does not have any more: see [LeftError].
	ErrLeft = errors.New("this process does not work on the run any more; it goes on where its journal ends")
	// ErrNotWaiting is returned for a run that does not wait for answers alone.
	ErrNotWaiting = errors.New("the run does not wait for a human")
	// ErrNotAsked refuses a question: the run ends, or the call has asked too much.
	ErrNotAsked = errors.New("the question cannot be asked")
	// ErrNotDispatched ends a call that was not sent because its run has ended.
	ErrNotDispatched = errors.New("not called: the run has ended")
)

func overLimit(limit string, most any) *budget.LimitError {
	return &budget.LimitError{Limit: limit, Max: fmt.Sprint(most)}
}

// errPanicked is the outcome of work that has panicked.
var errPanicked = errors.New("it panicked")

var errGrace = errors.New("it did not answer in time")
