package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Conditions that callers test with errors.Is.
var (
	ErrNotFound = errors.New("store: not found")
	ErrExists   = errors.New("store: exists already")
	ErrRepeated = errors.New("store: an identical job exists already") // see [Jobs]
	ErrFenced   = errors.New("store: the lease is no longer held")
	ErrLeased   = errors.New("store: leased to another owner")
	ErrFinished = errors.New("store: it has ended")             // a run, or a job
	ErrConflict = errors.New("store: it was changed meanwhile") // see [Append.After] and [Vault.PutSealed]
	ErrSettled  = errors.New("store: the ask is settled already")
	ErrClosed   = errors.New("store: closed")
	ErrInvalid  = errors.New("store: invalid argument")   // see [InvalidError]
	ErrTooLarge = errors.New("store: argument too large") // see [LimitError]

	// ErrFull is a full disk or a store at its limit. What was acknowledged is
	// safe, and writes succeed again once there is room.
	ErrFull = errors.New("store: no space left")
	// ErrBusy is another process that holds the store locked for too long.
	ErrBusy = errors.New("store: locked by another process")
	// ErrCorrupt is a damaged file, or one that is not a store.
	ErrCorrupt = errors.New("store: damaged or not a store")
	// ErrTooNew is a store written by a newer version of the program.
	ErrTooNew = errors.New("store: written by a newer version")
)

// Passing reports whether a write that failed with err may succeed later, unchanged: the
// store is locked, full, or cannot be reached. It is false for nil, for a refusal, for a damaged or closed store, and for
// the end of a context.
func Passing(err error) bool {
	return err != nil && !slices.ContainsFunc(lasting, func(l error) bool { return errors.Is(err, l) })
}

var lasting = []error{
	ErrNotFound, ErrExists, ErrRepeated, ErrFenced, ErrLeased, ErrFinished, ErrConflict, ErrSettled, ErrClosed,
	ErrInvalid, ErrTooLarge, ErrCorrupt, ErrTooNew, context.Canceled, context.DeadlineExceeded,
}

// InvalidError is an argument that breaks a rule; it wraps [ErrInvalid]. It does
// not repeat the value, which may be hostile or secret.
type InvalidError struct {
	Field  string // such as "run.ID"
	Reason string
}

func (e *InvalidError) Error() string { return fmt.Sprintf("store: %s %s", e.Field, e.Reason) }

// Unwrap returns [ErrInvalid].
func (e *InvalidError) Unwrap() error { return ErrInvalid }

// LimitError is an argument beyond a bound; it wraps [ErrTooLarge].
type LimitError struct {
	Field     string // such as "event.Body"
	Size, Max int    // in bytes, or a count
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("store: %s has size %d, at most %d is allowed", e.Field, e.Size, e.Max)
}

// Unwrap returns [ErrTooLarge].
func (e *LimitError) Unwrap() error { return ErrTooLarge }
