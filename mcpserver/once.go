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
	n := req.asking().r.run.Load()
	if n == nil {
		return f(ctx) // it never runs again
	}
	if key == "" || len(key) > maxKey {
		var none T
		return none, errors.New("mcpserver: what is done once needs a key")
	}
	value, _, err := onceIn(ctx, n, key, f)
	return value, err
}

// onceIn is Once in a run, for keys of any length. Done says that it was done before.
func onceIn[T any](ctx context.Context, n *run, key string, f func(ctx context.Context) (T, error)) (value T, done bool, err error) {
	raw, done, release, err := n.begin(ctx, key)
	switch {
	case err != nil:
		return value, false, err
	case done:
		if err := jsonx.Unmarshal(raw, &value); err != nil {
			return value, true, fmt.Errorf("reading what was done once as %q: %w", key, err)
		}
		return value, true, nil
	}
	defer release()
	if value, err = f(ctx); err != nil {
		return value, false, err
	}
	if raw, err = jsonx.Marshal(value); err != nil {
		return value, false, fmt.Errorf("keeping what was done once as %q: %w", key, err)
	}
	n.keep(key, raw)
	return value, false, nil
}

// begin returns what was done as key, or lets the caller do it, until release; it waits
// while another one does.
func (n *run) begin(ctx context.Context, key string) (raw json.RawMessage, done bool, release func(), err error) {
	for {
		n.mu.Lock()
		if raw, done := n.once[key]; done {
			n.mu.Unlock()
			return raw, true, nil, nil
		}
		other := n.doing[key]
		if other == nil {
			mine := make(chan struct{})
			if n.doing == nil {
				n.doing = make(map[string]chan struct{})
			}
			n.doing[key] = mine
			n.mu.Unlock()
			return nil, false, func() { n.endOnce(key, mine) }, nil
		}
		n.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, false, nil, context.Cause(ctx)
		case <-n.ctx.Done():
			return nil, false, nil, context.Cause(n.ctx)
		}
	}
}

func (n *run) endOnce(key string, mine chan struct{}) {
	n.mu.Lock()
	delete(n.doing, key)
	n.mu.Unlock()
	close(mine)
}
