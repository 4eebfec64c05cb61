package agent

import "github.com/troupe-dev/troupe/store"

// Store returns the store that the runtime was opened with; nil if it keeps what happens in
// memory only.
func (rt *Runtime) Store() store.Store {
	if rt.own {
		return nil
	}
	return rt.store
}
