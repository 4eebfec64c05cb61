package dialogue

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/troupe-dev/troupe/actors"
)

// Once runs f, which must not run twice in the call, and returns its result, or that of the
// goroutine that has run it before, which done says. A goroutine that comes while another
// one is at work waits for that; what fails may run again.
func (c *Call) Once(ctx context.Context, key string, f func(ctx context.Context) (json.RawMessage, error)) (raw json.RawMessage, done bool, err error) {
	once, mine := &c.talking().once, new(actors.Reply[json.RawMessage])
	for {
		found, there := once.entries.LoadOrStore(key, mine)
		if !there {
			break
		}
		other := found.(*actors.Reply[json.RawMessage])
		if !other.Completed() {
			select {
			case <-other.Done():
			case <-ctx.Done():
				return nil, false, context.Cause(ctx)
			case <-c.Context().Done():
				return nil, false, context.Cause(c.Context())
			}
		}
		if raw, err := other.Result(); err == nil {
			return raw, true, nil
		}
	}
	failed := true
	defer func() { // also when f panics
		if failed {
			once.entries.Delete(key)
			mine.Complete(nil, errFailed)
		}
	}()
	if raw, err = f(ctx); err == nil {
		failed = false
		mine.Complete(raw, nil)
	}
	return raw, false, err
}

var errFailed = errors.New("it has failed")

// onceTable has the results of what a handler does once. Any goroutine of the handler uses it.
type onceTable struct{ entries sync.Map } // by key, a *actors.Reply[json.RawMessage]

// add keeps results.
func (t *onceTable) add(results map[string]json.RawMessage) {
	for key, raw := range results {
		done := new(actors.Reply[json.RawMessage])
		done.Complete(raw, nil)
		t.entries.Store(key, done)
	}
}

// results is a copy of what was done, nil for nothing.
func (t *onceTable) results() (all map[string]json.RawMessage) {
	t.entries.Range(func(key, entry any) bool {
		if done := entry.(*actors.Reply[json.RawMessage]); done.Completed() {
			if raw, err := done.Result(); err == nil {
				if all == nil {
					all = make(map[string]json.RawMessage)
				}
				all[key.(string)] = raw
			}
		}
		return true
	})
	return all
}

// size is how many bytes are kept, as JSON and as what was decoded from it.
func (t *onceTable) size() (size int64) {
	for key, raw := range t.results() {
		size += int64(len(key)) + 2*int64(len(raw))
	}
	return size
}
