package inbound

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// refusal is a sentinel that is answered with a certain wire error.
type refusal struct{ wire *mcp.Error }

func (r *refusal) Error() string { return r.wire.Message }

// Unwrap lets [mcp.ErrorOf] find the wire error.
func (r *refusal) Unwrap() error { return r.wire }

// Reasons for not accepting a request. [mcp.ErrorOf] gives the answer to each.
var (
	// ErrDuplicateID says that the id is that of a request in flight (BASE-04,
	// BASE-05). It is answered with -32600.
	ErrDuplicateID error = &refusal{mcp.Errorf(mcp.CodeInvalidRequest, "the id is in use by a request that is not yet answered")}
	// ErrBusy says that as many requests are in flight as [Options].Limit allows.
	// It is answered with -32603: the protocol has no code for it, and nothing
	// else would be understood by a peer.
	ErrBusy error = &refusal{mcp.Errorf(mcp.CodeInternal, "too many requests in flight")}
	// ErrClosed says that the connection takes no more requests.
	ErrClosed error = &refusal{mcp.Errorf(mcp.CodeInternal, "shutting down")}
)

// ErrFinished is the cause of a handler's context once its request is over.
var ErrFinished = errors.New("inbound: the request is finished")

// ErrParked is returned by a [Handler] that calls [Call.Finish] later.
var ErrParked = errors.New("inbound: the handler will finish later")

// CancelledError is the outcome of a request that the peer cancelled. Nothing
// is written for it. It is [context.Canceled] to errors.Is.
type CancelledError struct {
	Reason string // what the peer said; for logs only
}

func (e *CancelledError) Error() string {
	if e.Reason == "" {
		return "cancelled by the peer"
	}
	return fmt.Sprintf("cancelled by the peer: %q", e.Reason)
}

// Is reports that the error is [context.Canceled].
func (e *CancelledError) Is(target error) bool { return target == context.Canceled }

// DeadlineError is the outcome of a request whose handler took too long. It is
// [context.DeadlineExceeded] to errors.Is.
type DeadlineError struct {
	At time.Time
}

func (e *DeadlineError) Error() string {
	return "the handler did not end by " + e.At.Format(time.RFC3339)
}

// Is reports that the error is [context.DeadlineExceeded].
func (e *DeadlineError) Is(target error) bool { return target == context.DeadlineExceeded }

// ClosedError is the outcome of requests whose connection ended under them.
type ClosedError struct {
	Cause error // what [Table.Close] was given
}

func (e *ClosedError) Error() string { return fmt.Sprintf("the connection ended: %v", e.Cause) }

// Unwrap returns the cause.
func (e *ClosedError) Unwrap() error { return e.Cause }
