package mcpclient

import (
	"bytes"
	"errors"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/watch"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/mcp"
)

// CallOutcome is what is known of a tool call that has failed.
type CallOutcome uint8

// The outcomes of calls without a result. What is not known to be one of the other two is unknown.
const (
	// OutcomeUnknown is a call that was sent, and may have had its effect: the connection was lost,
	// its time was over, or what came as its answer cannot be used, whatever is wrong with that.
	OutcomeUnknown CallOutcome = iota
	// OutcomeUnsent is a call that was surely not carried out: its server was not told of it, or has
	// refused access with HTTP status 401 or 403.
	OutcomeUnsent
	// OutcomeAnswered is a call whose server has said what came of it: with an error of its own, a
	// question without whose answer it does not go on, or a result that cannot be taken although it
	// is one: an [*OutputError], a [*MessageTooLongError] that is Certain.
	OutcomeAnswered
)

// OutcomeOf returns what is known of a tool call that has failed with err, which is not nil. It may be called
// from any goroutine.
func OutcomeOf(err error) CallOutcome {
	switch {
	case taskGoesOn(err):
		return OutcomeUnknown
	case unsent(err):
		return OutcomeUnsent
	case ofServer(err):
		return OutcomeAnswered
	}
	return OutcomeUnknown
}

// taskGoesOn reports whether the server had made a task of the call whose end is not
// known, or how far it came before it was cancelled. The errors of
// requests about a task must not be taken for answers to the call.
func taskGoesOn(err error) bool {
	return errors.Is(err, ErrTaskUnknown) || errors.Is(err, ErrTaskCancelled) || errors.Is(err, watch.ErrLeft)
}

// unsent reports whether the call surely did not reach the server.
func unsent(err error) bool {
	var (
		lost    *call.LostError
		timeout *call.TimeoutError
		refused *call.TransportError
		output  *OutputError
		server  *ServerError
	)
	return errors.Is(err, ErrNotSent) ||
		errors.As(err, &lost) && lost.Unsent ||
		errors.As(err, &timeout) && timeout.Unsent ||
		errors.As(err, &refused) && refused.Unsent ||
		errors.As(err, &output) && output.Result == nil ||
		errors.As(err, &server) && server.Method == "" || // it was not connected
		errors.Is(err, call.ErrBusy) ||
		errors.Is(err, call.ErrTooLong) ||
		errors.Is(err, ErrToolChanged) ||
		errors.Is(err, ErrUnknownTool) ||
		errors.Is(err, ErrUnsupported) ||
		errors.Is(err, ErrNotApproved)
}

// ofServer reports whether the server has reported the outcome of the call: its error, a question
// without whose answer it does not go on (MRTR-12, MRTR-13), or a result.
func ofServer(err error) bool {
	var (
		wire   *mcp.Error
		input  *InputError
		output *OutputError
		long   *MessageTooLongError
	)
	return errors.As(err, &wire) ||
		errors.As(err, &input) && input.Question != "" ||
		errors.As(err, &output) ||
		errors.As(err, &long) && long.Certain
}

// MetaOutcome is the key in the _meta of a result by which a gateway says what it knows of a call that
// it has passed on: see [UnknownResult].
const MetaOutcome = "dev.troupe/outcome"

var metaUnknown = []byte(`"unknown"`)

// maxReason bounds the error in an [UnknownResult], in bytes.
const maxReason = 1 << 10

// UnknownResult is the result of a call that another server was to carry out, and whose outcome is
// unknown because of err. A model reads so in its text, a program in its _meta.
func UnknownResult(err error) *mcp.CallToolResult {
	res := mcp.ErrorResult("The outcome of this call is unknown, it may have taken effect: %s", clip.Text(err.Error(), maxReason))
	res.Meta = mcp.Meta{MetaOutcome: metaUnknown}
	return res
}

// SaysUnknown reports whether res is an [UnknownResult] of a gateway.
func SaysUnknown(res *mcp.CallToolResult) bool {
	return res.IsError && bytes.Equal(res.Meta[MetaOutcome], metaUnknown)
}
