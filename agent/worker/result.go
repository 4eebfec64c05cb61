package worker

import (
	"encoding/json"
	"strings"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// resultOf is the result of an ended run, for its job.
func resultOf(id string, end *runlog.RunFinished) json.RawMessage {
	if end == nil {
		return nil
	}
	return hooks.Encode(&agent.Result{RunID: id, Text: end.Text, Structured: end.Structured, StopReason: agent.StopReason(end.Stop), Incomplete: agent.Incomplete(end.Incomplete),
		Usage: agent.Usage(end.Usage), Steps: end.Steps, ToolCalls: end.ToolCalls, Spent: agent.Spent(end.Spent)})
}

// bounded cuts an error to the bound of a store.
func bounded(s string) string {
	return clip.Text(clip.Valid(strings.ReplaceAll(s, "\x00", "")), store.MaxText-len("…"))
}
