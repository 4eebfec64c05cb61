package mcpserver

import (
	"errors"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/questions"
)

// Refusals. A handler may return them as they are: of a tool they become a result with
// isError, never a protocol error.
var (
	// ErrDeclined is the error of a question that a person has declined.
	ErrDeclined = questions.ErrDeclined
	// ErrDismissed is the error of a question that a person has closed without a choice.
	ErrDismissed = questions.ErrDismissed
)

// Ends of a handler that waits for answers. Each is the cause of its context, and the error
// of the function in which it waits: the handler must return, and the server drops its result.
var (
	// ErrSuspended ends a handler that is not kept until the answers come: then it runs
	// again from the top, and gets them. The client has the questions already, so the next
	// run may begin before this one has returned. See [RoundOptions].NoParking.
	ErrSuspended = errors.New("mcpserver: the handler runs again when the answers have come")
	// ErrAbandoned ends a handler whose client has not answered within
	// [RoundOptions].ParkFor, or that had to make room for others. If the client answers
	// later, the handler runs again.
	ErrAbandoned = errors.New("mcpserver: the client has not come back with the answers")
)

// CapabilityError is the error of a question that the client does not support. If a
// handler returns it, a client of 2026-07-28 gets -32021, an older one a text.
type CapabilityError struct {
	Missing *mcp.ClientCapabilities // only the missing capabilities
}

func (e *CapabilityError) Error() string { return (*questions.CapabilityError)(e).Error() }

// wire returns the error of the protocol, as the revision has it.
func (e *CapabilityError) wire(v mcp.Version) *mcp.Error {
	if v.Era() == mcp.EraModern {
		w := mcp.MissingCapability(e.Missing)
		w.Message = e.Error()
		return w
	}
	return mcp.Errorf(mcp.CodeInvalidRequest, "%s", e.Error())
}

// answerTo returns an error as the response to a request that starts no handler.
func answerTo(r *request, err error) error {
	if e, ok := errors.AsType[*CapabilityError](err); ok {
		return e.wire(r.version)
	}
	return err
}

// AnswerError is the error of an answer that does not fit its question.
type AnswerError struct {
	Key string
	Err error
}

func (e *AnswerError) Error() string { return (*questions.AnswerError)(e).Error() }

// Unwrap returns the reason.
func (e *AnswerError) Unwrap() error { return e.Err }

// ClientError is an error that a legacy client has returned for a question.
type ClientError struct {
	Method string
	Wire   *mcp.Error
}

func (e *ClientError) Error() string { return (*questions.ClientError)(e).Error() }

// Is compares codes, as [mcp.Error] does. The error does not unwrap to the client's,
// which must not become the response to the client's own request.
func (e *ClientError) Is(target error) bool { return e.Wire.Is(target) }

// public returns an error of package questions as the public type that handlers know.
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

// endsRound reports whether an error of a handler is not its result: it ends a round, or
// has a response of its own.
func endsRound(r *request, err error) bool {
	if _, ok := errors.AsType[*InputRequired](err); ok {
		return true
	}
	_, lacks := errors.AsType[*CapabilityError](err)
	return lacks && r.version.Era() == mcp.EraModern
}

var errNoAsking = errors.New("mcpserver: this handler cannot ask the client")
