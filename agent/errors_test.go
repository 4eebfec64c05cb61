package agent

import (
	"errors"
	"fmt"
	"testing"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/store"
)

// TestErrorsOfALoop: every error of a loop is the one of this package that users look for,
// with the same text, however deep it is wrapped.
func TestErrorsOfALoop(t *testing.T) {
	tests := map[string]struct {
		err error
		is  func(error) (error, bool)
	}{
		"limit":     {&budget.LimitError{Limit: budget.Steps, Max: "3"}, func(err error) (error, bool) { return errors.AsType[*LimitError](err) }},
		"guard":     {&guard.Error{Guard: "g", Point: "final", Reason: "r"}, func(err error) (error, bool) { return errors.AsType[*GuardError](err) }},
		"cancelled": {&loop.CancelledError{Cause: ErrClosed}, func(err error) (error, bool) { return errors.AsType[*CancelledError](err) }},
		"journal":   {&loop.JournalError{Err: store.ErrFenced}, func(err error) (error, bool) { return errors.AsType[*JournalError](err) }},
		"price":     {&loop.NoPriceError{Model: "m"}, func(err error) (error, bool) { return errors.AsType[*NoPriceError](err) }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := errorOf(`run "r"`, fmt.Errorf("deep: %w", errors.Join(errors.New("other"), tt.err)))
			if got, ok := tt.is(fmt.Errorf("outer: %w", err)); !ok || got.Error() != tt.err.Error() {
				t.Errorf("got %v, %v, want the text %q", got, ok, tt.err)
			}
			if want := "run \"r\": deep: other\n" + tt.err.Error(); err.Error() != want {
				t.Errorf("got the text %q, want %q", err, want)
			}
			if cause := errors.Unwrap(tt.err); cause != nil && !errors.Is(err, cause) {
				t.Errorf("the cause %v is not in the chain", cause)
			}
			for other, o := range tests {
				if _, ok := o.is(err); ok != (other == name) {
					t.Errorf("as the error of %q: got %v", other, ok)
				}
			}
		})
	}
	if errorOf("about", nil) != nil {
		t.Error("no error became one")
	}
}
