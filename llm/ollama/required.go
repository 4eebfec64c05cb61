package ollama

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/rest"
)

// required runs a turn in which the model must call a tool: it is told so, and if it did
// not, asked again with a grammar that leaves it no other way.
func (c *Client) required(ctx context.Context, req *llm.Request, emit func(llm.Event) bool) error {
	told := *req
	told.System = strings.TrimSpace(req.System + "\n\nYou must call one of the tools.")
	t := newTurn(c.origin(req), &told, emit)
	if err := c.ask(ctx, &told, t); err != nil {
		return err
	}
	if t.calls+len(t.bad) == 0 {
		if err := c.force(ctx, req, t); err != nil {
			return err
		}
	}
	return t.finish()
}

// force asks for nothing but a call in JSON, and gives it to t.
func (c *Client) force(ctx context.Context, req *llm.Request, t *turn) error {
	forced, err := rest.Forced(req, rest.Usage(req, t.input, t.output, t.bytes).Output)
	switch {
	case err != nil:
		return t.origin.Wrap(fmt.Errorf("%w: %w", llm.ErrInvalidRequest, err))
	case forced == nil:
		return nil
	}
	var text strings.Builder
	f := newTurn(t.origin, forced, func(ev llm.Event) bool {
		if delta, ok := ev.(llm.TextDelta); ok {
			text.WriteString(delta.Text)
		}
		return text.Len() < rest.MaxForced
	})
	err = c.ask(ctx, forced, f)
	switch {
	case errors.Is(err, errLeft): // it was not the reader who left, but we
		return t.origin.New(llm.ErrTooLarge, "a call of more than %d bytes", rest.MaxForced)
	case err != nil:
		return err
	}
	t.input, t.output, t.reason, t.model = t.input+f.input, t.output+f.output, f.reason, f.model
	var call rest.ForcedCall
	if err := jsonx.Unmarshal([]byte(text.String()), &call); err != nil {
		if f.reason == "length" {
			return nil // cut by its limit: there is no call, and the reason says so
		}
		return t.origin.Retryable(llm.ErrBadCall, "%v", err)
	}
	return t.call("", call.Name, call.Arguments)
}
