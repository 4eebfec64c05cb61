package mcpserver

import (
	"context"
	"encoding/json"
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
//
// It may be called from any goroutine of the handler. One that comes with a key at which
// another is at work waits for that one's result; f must not come back with its own key.
func Once[T any](ctx context.Context, req Requester, key string, f func(ctx context.Context) (T, error)) (T, error) {
	n := req.asking().r.invocation.Load()
	if n == nil {
		return f(ctx) // it never runs again
	}
	if key == "" || len(key) > maxKey {
		var none T
		return none, errors.New("mcpserver: what is done once needs a key")
	}
	return onceIn(ctx, n, key, f)
}

// onceIn is Once in a call, for keys of any length.
func onceIn[T any](ctx context.Context, n *handlerCall, key string, f func(ctx context.Context) (T, error)) (value T, err error) {
	raw, done, err := n.Once(ctx, key, func(ctx context.Context) (raw json.RawMessage, err error) {
		if value, err = f(ctx); err != nil {
			return nil, err
		}
		if raw, err = jsonx.Marshal(value); err != nil {
			return nil, fmt.Errorf("keeping what was done once as %q: %w", key, err)
		}
		return raw, nil
	})
	if err == nil && done {
		if err = jsonx.Unmarshal(raw, &value); err != nil {
			err = fmt.Errorf("reading what was done once as %q: %w", key, err)
		}
	}
	return value, err
}
