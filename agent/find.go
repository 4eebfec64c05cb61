package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/actors"
)

// Find returns the run of an ID: a live one of this runtime, or one that is in the store,
// of another process or of the past, which can be waited for and read but not cancelled. A
// sub-agent's run is found in the store. The error is [store.ErrNotFound] if there is none.
func (rt *Runtime) Find(ctx context.Context, id string) (*Run, error) {
	run, err := actors.Ask(ctx, rt.agents, func(r *actors.Reply[*Run]) any { return &findRun{id, r} })
	switch {
	case errors.Is(err, actors.ErrStopped) || errors.Is(err, actors.ErrClosed):
		return nil, ErrClosed
	case err != nil:
		return nil, err
	case run != nil:
		return run, nil
	}
	head, err := rt.store.Run(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("finding run %q: %w", id, err)
	}
	return &Run{id: head.ID, store: rt.store}, nil
}
