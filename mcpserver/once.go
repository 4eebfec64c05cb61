package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"

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
	value, _, err := onceIn(ctx, n, key, f)
	return value, err
}

// onceIn is Once in a call, for keys of any length. Done says that it was done before.
func onceIn[T any](ctx context.Context, n *handlerCall, key string, f func(ctx context.Context) (T, error)) (value T, done bool, err error) {
	table := &n.dialogue().once
	raw, done, release, err := table.begin(ctx, n.Context(), key)
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
	table.add(map[string]json.RawMessage{key: raw})
	return value, false, nil
}

// onceTable has the results of what a handler does once.
type onceTable struct {
	mu    sync.Mutex // guards both maps, which any goroutine of a handler looks into
	done  map[string]json.RawMessage
	doing map[string]chan struct{} // what is being done, until closed
}

// begin returns what was done as key, or lets the caller do it, until release; it waits
// while another one does, or for the end of a context.
func (t *onceTable) begin(ctx, call context.Context, key string) (raw json.RawMessage, done bool, release func(), err error) {
	for {
		raw, done, other, mine := t.look(key)
		switch {
		case done:
			return raw, true, nil, nil
		case mine != nil:
			return nil, false, func() { t.end(key, mine) }, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, false, nil, context.Cause(ctx)
		case <-call.Done():
			return nil, false, nil, context.Cause(call)
		}
	}
}

// look returns what was done, or what is closed when another one has done it; else the
// caller does it.
func (t *onceTable) look(key string) (raw json.RawMessage, done bool, other, mine chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if raw, done := t.done[key]; done {
		return raw, true, nil, nil
	}
	if other := t.doing[key]; other != nil {
		return nil, false, other, nil
	}
	if t.doing == nil {
		t.doing = make(map[string]chan struct{})
	}
	mine = make(chan struct{})
	t.doing[key] = mine
	return nil, false, nil, mine
}

func (t *onceTable) end(key string, mine chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.doing, key)
	close(mine)
}

// add keeps results.
func (t *onceTable) add(results map[string]json.RawMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done == nil && len(results) > 0 {
		t.done = make(map[string]json.RawMessage, len(results))
	}
	maps.Copy(t.done, results)
}

// results is a copy of what was done.
func (t *onceTable) results() map[string]json.RawMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.done)
}

// size is how many bytes are kept, as JSON and as what was decoded from it.
func (t *onceTable) size() (size int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, raw := range t.done {
		size += int64(len(key)) + 2*int64(len(raw))
	}
	return size
}
