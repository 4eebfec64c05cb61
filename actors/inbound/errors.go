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

var (
	// ErrFinished is the cause of a handler's context once its request is over.
	ErrFinished = errors.New("inbound: the request is finished")
	// ErrParked is returned by a [Handler] that calls [Call.Finish] later.
	ErrParked = errors.New("inbound: the handler will finish later")

	// Reasons for not accepting a request. [mcp.ErrorOf] gives the answer to each.

	// ErrDuplicateID says that the id is that of a request in flight. It is
	// answered with -32600.
	ErrDuplicateID error = &refusal{mcp.Errorf(mcp.CodeInvalidRequest, "the id is in use by a request that is not yet answered")}
	// ErrBusy says that as many requests are in flight as [Options].Limit allows.
	// It is answered with -32603: the protocol has no code for it, and nothing
	// else would be understood by a peer.
	ErrBusy error = &refusal{mcp.Errorf(mcp.CodeInternal, "too many requests in flight")}
	// ErrClosed says that the connection takes no more requests. It is also what the
	// outcome of a request is whose connection ended under it.
	ErrClosed error = &refusal{mcp.Errorf(mcp.CodeInternal, "shutting down")}
)

// cancelledError is the outcome of a request that the peer cancelled. Nothing
// is written for it. It is [context.Canceled] to errors.Is.
type cancelledError struct {
	Reason string // what the peer said; for logs only
}

func (e *cancelledError) Error() string {
	if e.Reason == "" {
		return "cancelled by the peer"
	}
	return fmt.Sprintf("cancelled by the peer: %q", e.Reason)
}

func (e *cancelledError) Is(target error) bool { return target == context.Canceled }

// deadlineError is the outcome of a request whose handler took too long. It is
// [context.DeadlineExceeded] to errors.Is.
type deadlineError struct {
	At time.Time
}

func (e *deadlineError) Error() string {
	return "the handler did not end by " + e.At.Format(time.RFC3339)
}

func (e *deadlineError) Is(target error) bool { return target == context.DeadlineExceeded }

// closedError is the outcome of requests whose connection ended under them.
type closedError struct {
	Cause error // what [Table.Close] was given
}

func (e *closedError) Error() string { return fmt.Sprintf("the connection ended: %v", e.Cause) }

func (e *closedError) Is(target error) bool { return target == ErrClosed }

func (e *closedError) Unwrap() error { return e.Cause }
