package agent

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/internal/toolresult"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// Conversation returns the messages of a run so far, the results of its tools included,
// for [RunOptions].History of the next one. It is read from the store, so the run may be
// of another process or of the past. What a run that was cut off has left open is not in
// it. A run that is not there is a [store.ErrNotFound].
func (rt *Runtime) Conversation(ctx context.Context, runID string) ([]llm.Message, error) {
	if _, err := rt.store.Run(ctx, runID); err != nil {
		return nil, fmt.Errorf("reading the conversation of run %q: %w", runID, err)
	}
	var c conversation
	for ev, err := range store.Replay(ctx, rt.store, runID, 0) {
		if err != nil {
			return nil, fmt.Errorf("reading the conversation of run %q: %w", runID, err)
		}
		e, err := runlog.Decode(ev)
		if err == nil {
			err = c.add(&e)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the conversation of run %q: %w", runID, err)
		}
	}
	return c.said, nil
}

// conversation rebuilds the messages from the events of a run.
type conversation struct {
	maxResult int
	said      []llm.Message
	turn      *llm.Message                      // the model's last, not said yet; nil for none
	results   map[string]*mcp.ToolResultContent // of its calls, by their ids
}

func (c *conversation) add(e *runlog.Entry) (err error) {
	switch b := e.Body.(type) {
	case *runlog.RunStarted:
		c.maxResult, c.said = b.MaxResult, b.Input
	case *runlog.ModelResult:
		c.flush()
		c.turn, c.results = &b.Message, make(map[string]*mcp.ToolResultContent)
	case *runlog.ToolResult:
		err = c.result(b.CallID, b.Result)
	case *runlog.ToolUnknown:
		err = c.result(b.CallID, mcp.ErrorResult("The outcome of this call is unknown, it may have taken effect: %s", b.Reason))
	case *runlog.InputAdded:
		c.flush()
		c.said = append(c.said, b.Message)
	case *runlog.RunFinished:
		if b.State == store.Finished && len(c.results) == 0 { // maybe a guard's
			c.turn = &llm.Message{Role: llm.RoleAssistant, Content: mcp.Contents{mcp.Text(b.Text)}}
		}
		c.flush()
	}
	return err
}

func (c *conversation) result(id string, r *mcp.CallToolResult) error {
	fit, err := toolresult.Clip(r, c.maxResult)
	if err != nil {
		return err
	}
	if c.results != nil {
		c.results[id] = &mcp.ToolResultContent{ToolUseID: id, Content: fit.Content, StructuredContent: fit.StructuredContent, IsError: fit.IsError}
	}
	return nil
}

// flush adds the last turn with the results of its calls, in the model's order. A turn
// of which one is missing was left open.
func (c *conversation) flush() {
	turn, results := c.turn, c.results
	c.turn, c.results = nil, nil
	if turn == nil {
		return
	}
	var answers mcp.Contents
	for _, b := range turn.Content {
		if use, ok := b.(*mcp.ToolUseContent); ok {
			r, there := results[use.ID]
			if !there {
				return
			}
			answers = append(answers, r)
		}
	}
	if turn.Content.Text() == "" && len(answers) == 0 { // models do not take an empty message
		turn = &llm.Message{Role: turn.Role, Content: mcp.Contents{mcp.Text("(no answer)")}}
	}
	c.said = append(c.said, *turn)
	if len(answers) > 0 {
		c.said = append(c.said, llm.Message{Role: llm.RoleUser, Content: answers})
	}
}
