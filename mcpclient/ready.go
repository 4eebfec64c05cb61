package mcpclient

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/actors"
)

// Ready connects to the servers that are [Server].Required, all at once, and returns
// when each is connected or its first attempt has failed. The error joins a
// [*ServerError] for each that failed or is disabled; it is the cause of ctx if that
// ends first, or [ErrClosed]. Without required servers Ready returns nil at once.
func (h *Host) Ready(ctx context.Context) error {
	if h.closed.Load() {
		return ErrClosed
	}
	var attempts []*actors.Reply[struct{}]
	for _, e := range h.entries {
		if !e.server.Required {
			continue
		}
		attempt := new(actors.Reply[struct{}])
		h.sys.Go("required server "+e.server.Name, func() { attempt.Complete(struct{}{}, e.connect(ctx)) })
		attempts = append(attempts, attempt)
	}
	var errs []error
	for _, attempt := range attempts {
		_, err := attempt.Wait(ctx)
		errs = append(errs, err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(errs...)
}

// connect waits for the first attempt to connect to a required server.
func (e *entry) connect(ctx context.Context) error {
	c := e.client.Load()
	if c == nil {
		return &ServerError{Server: e.server.Name, Err: errors.New("it is required, and disabled")}
	}
	if _, err := c.Info(ctx); err != nil {
		return fmt.Errorf("it is required: %w", err)
	}
	return nil
}
