package dialogue

import (
	"encoding/json"
	"sync"

	"github.com/troupe-dev/troupe/actors"
)

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
