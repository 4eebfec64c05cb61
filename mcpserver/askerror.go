package mcpserver

import (
	"errors"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/questions"
)

// Refusals. A handler may return them as they are: a tool's becomes a result with
// isError that says so, never a protocol error (ELIC-05).
var (
	// ErrDeclined says that a person has said no.
	ErrDeclined = questions.ErrDeclined
	// ErrDismissed says that a person has closed the question without a choice.
	ErrDismissed = questions.ErrDismissed
)

// Ends of a handler that waits for answers. All of them are causes of its context, and
// returned by what it waits in: it must return, and whatever it returns is dropped.
var (
	// ErrSuspended ends a handler that is not kept until the answers come: it will run
	// again from the top then, and be given them. The client has the questions already, so
	// that the next run may begin before this one has returned. See [RoundOptions].NoParking.
	ErrSuspended = errors.New("mcpserver: the handler runs again when the answers have come")
	// ErrAbandoned ends a handler whose client has not come back within
	// [RoundOptions].ParkFor, or that had to make room for others. If the client comes after
	// all, the handler runs again.
	ErrAbandoned = errors.New("mcpserver: the client has not come back with the answers")
)

// CapabilityError says that a client does not support what a handler wants of it.
// Returned by the handler, it is answered with -32021 in 2026-07-28, and with a
// text that says so before.
type CapabilityError struct {
	Missing *mcp.ClientCapabilities // just that
}

func (e *CapabilityError) Error() string { return (*questions.CapabilityError)(e).Error() }

// wire is the error that the revision has for it.
func (e *CapabilityError) wire(v mcp.Version) *mcp.Error {
	if v.Era() == mcp.EraModern {
		w := mcp.MissingCapability(e.Missing)
		w.Message = e.Error()
		return w
	}
	return mcp.Errorf(mcp.CodeInvalidRequest, "%s", e.Error())
}

// told is an error as a request is answered with it where no run is.
func told(r *request, err error) error {
	if e, ok := errors.AsType[*CapabilityError](err); ok {
		return e.wire(r.version)
	}
	return err
}

// AnswerError says that what a client has answered is not an answer to the question.
type AnswerError struct {
	Key string
	Err error
}

func (e *AnswerError) Error() string { return (*questions.AnswerError)(e).Error() }

// Unwrap returns the reason.
func (e *AnswerError) Unwrap() error { return e.Err }

// ClientError is the error with which a legacy client has answered a question.
type ClientError struct {
	Method string
	Wire   *mcp.Error
}

func (e *ClientError) Error() string { return (*questions.ClientError)(e).Error() }

// Is compares codes, as [mcp.Error] does. The error does not unwrap to the client's: it
// is not the answer to the client's own request.
func (e *ClientError) Is(target error) bool { return e.Wire.Is(target) }

// public returns an error of package questions as what handlers know it as.
func public(err error) error {
	switch e := err.(type) {
	case *questions.CapabilityError:
		return (*CapabilityError)(e)
	case *questions.AnswerError:
		return (*AnswerError)(e)
	case *questions.ClientError:
		return (*ClientError)(e)
	}
	return err
}

// endsRound reports whether an error of a handler is none of its results: it ends a
// round, or has an answer of its own.
func endsRound(r *request, err error) bool {
	if _, ok := errors.AsType[*InputRequired](err); ok {
		return true
	}
	_, lacks := errors.AsType[*CapabilityError](err)
	return lacks && r.version.Era() == mcp.EraModern
}
