package call

import (
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// What a call can end with beside the peer's answer. None of them is ever a
// wire error.
var (
	// ErrTimeout is what a [TimeoutError] is.
	ErrTimeout = errors.New("call: timed out")
	// ErrConnectionLost is what a [LostError] is.
	ErrConnectionLost = errors.New("call: connection lost")
	// ErrBusy refuses a call at a limit: of pending calls, of calls that wait for
	// a connection, or of what the transport may queue.
	ErrBusy = errors.New("call: too many calls")
	// ErrTooLong refuses a request that the transport cannot carry. As after
	// ErrBusy, the connection goes on.
	ErrTooLong = errors.New("call: the request is too long")
	// ErrClosed refuses or ends a call because the connection is being closed.
	ErrClosed = errors.New("call: the connection is closed")
	// ErrUnsent is wrapped by an error of [Table.Failed] that leaves no doubt: the
	// peer has not carried out the request, so that it may be sent again.
	ErrUnsent = errors.New("call: the request was not carried out")
	// ErrTooManyAttempts ends a call whose Follow never has enough.
	ErrTooManyAttempts = errors.New("call: too many attempts")
	// ErrInvalidResponse is what a [ResponseError] is.
	ErrInvalidResponse = errors.New("call: invalid response")
)

// TimeoutError is a limit of the call that ran out.
type TimeoutError struct {
	Method string
	After  time.Duration // the limit
	Idle   bool          // it was the limit without progress, not the whole one
	// Unsent is set when the call never left, for lack of a connection; Err then
	// says why there was none, if that is known.
	Unsent bool
	Err    error
}

func (e *TimeoutError) Error() string {
	what := "no result"
	if e.Idle {
		what = "neither a result nor progress"
	}
	if e.Unsent {
		what = "no connection"
	}
	text := fmt.Sprintf("%s: %s within %v", e.Method, what, e.After)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Is reports that the error is [ErrTimeout].
func (e *TimeoutError) Is(target error) bool { return target == ErrTimeout }

// Unwrap returns why there was no connection, or nil.
func (e *TimeoutError) Unwrap() error { return e.Err }

// Timeout implements the method of net.Error.
func (e *TimeoutError) Timeout() bool { return true }

// LostError says that the connection went away before the answer came. Whether
// the peer has carried out the request is not known, unless Unsent is set.
type LostError struct {
	Method string
	Unsent bool  // it never left this process
	Err    error // why the connection was lost; may be nil
}

func (e *LostError) Error() string {
	text := e.Method + ": connection lost before the answer"
	if e.Unsent {
		text = e.Method + ": no connection"
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Is reports that the error is [ErrConnectionLost].
func (e *LostError) Is(target error) bool { return target == ErrConnectionLost }

// Unwrap returns why the connection was lost.
func (e *LostError) Unwrap() error { return e.Err }

// TransportError says that the transport refused one request, or gave no answer
// to it, while the connection goes on: an HTTP status, for example. The request is
// not sent again.
type TransportError struct {
	Method string // of the request
	Status int    // of HTTP; 0 when there was none
	// Unsent is set when the request was surely not carried out: it never left, or access to it
	// was refused with 401 or 403.
	Unsent bool
	Err    error // what went wrong; may be nil
}

func (e *TransportError) Error() string {
	text := e.Method + ": refused by the transport"
	if e.Status != 0 {
		text = fmt.Sprintf("%s: HTTP status %d", e.Method, e.Status)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns what went wrong.
func (e *TransportError) Unwrap() error { return e.Err }

// ResponseError says that the peer's response cannot be used: what has become of the request
// is not known, unless it is one without an effect.
type ResponseError struct {
	Method string
	Err    error
}

func (e *ResponseError) Error() string {
	return fmt.Sprintf("%s: invalid response: %v", e.Method, e.Err)
}

// Is reports that the error is [ErrInvalidResponse].
func (e *ResponseError) Is(target error) bool { return target == ErrInvalidResponse }

// Unwrap returns what is wrong with it; nil where Err has a wire error, such as that of
// [mcp.Scan], in its chain: an [*mcp.Error] that is found in the error of a call is the peer's
// own word, and this one is ours.
func (e *ResponseError) Unwrap() error {
	if _, ours := errors.AsType[*mcp.Error](e.Err); ours {
		return nil
	}
	return e.Err
}

// Heard reports whether err, of a request that is no task's, shows that the peer is alive: it has
// answered, be it with an error, or with what cannot be used.
func Heard(err error) bool {
	_, wire := errors.AsType[*mcp.Error](err)
	return wire || errors.Is(err, ErrInvalidResponse)
}
