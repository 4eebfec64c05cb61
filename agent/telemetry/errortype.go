package telemetry

import (
	"context"
	"errors"
	"strconv"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// toolError is the error.type of a tool that ran and failed.
const toolError = "tool_error"

// kinds are the values of error.type; the first that fits counts.
var kinds = []struct {
	err  error
	name string
}{
	{llm.ErrRateLimit, "rate_limit"},
	{llm.ErrQuota, "quota"},
	{llm.ErrAuth, "auth"},
	{llm.ErrUnreachable, "unreachable"},
	{llm.ErrContextLength, "context_length"},
	{llm.ErrStreamCut, "stream_cut"},
	{llm.ErrIdle, "idle"},
	{agent.ErrClosed, "closed"},
	{agent.ErrSuspended, "suspended"},
	{agent.ErrLeft, "left"},
	{mcpclient.ErrNotSent, "not_sent"},
	{context.DeadlineExceeded, "timeout"},
	{context.Canceled, "cancelled"},
}

// errorType returns the class of an error, for the attribute error.type.
func errorType(err error) string {
	var (
		limit     *agent.LimitError
		cancelled *agent.CancelledError
		wire      *mcp.Error
		timeout   *call.TimeoutError
		lost      *call.LostError
	)
	switch {
	case errors.As(err, &limit):
		return "limit"
	case errors.As(err, &cancelled):
		return "cancelled"
	case errors.As(err, &wire):
		return strconv.FormatInt(wire.Code, 10)
	case errors.As(err, &timeout):
		return "timeout"
	case errors.As(err, &lost):
		return "connection_lost"
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.name
		}
	}
	return "_OTHER"
}
