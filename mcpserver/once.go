package mcpserver

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// Once does what a handler must not do twice, because it has an effect or comes out
// differently each time, and may run again for a later question:
//
//	order, err := mcpserver.Once(ctx, req, "order", func(ctx context.Context) (Order, error) { … })
//
// Its result, which must survive JSON, travels with the call under the key; only a
// result does, an error does not. What it did in a round that then was cancelled, or
// whose server crashed before it asked, is not known to the next one of another server:
// where that matters, f uses a key of its own for what it does.
func Once[T any](ctx context.Context, req Requester, key string, f func(ctx context.Context) (T, error)) (T, error) {
	var value T
	n := req.asking().r.run.Load()
	if n == nil {
		return f(ctx) // it never runs again
	}
	if key == "" || len(key) > maxKey {
		return value, errors.New("mcpserver: what is done once needs a key")
	}
	if raw, done := n.done(key); done {
		if err := jsonx.Unmarshal(raw, &value); err != nil {
			return value, fmt.Errorf("reading what was done once as %q: %w", key, err)
		}
		return value, nil
	}
	value, err := f(ctx)
	if err != nil {
		return value, err
	}
	raw, err := jsonx.Marshal(value)
	if err != nil {
		return value, fmt.Errorf("keeping what was done once as %q: %w", key, err)
	}
	n.keep(key, raw)
	return value, nil
}
