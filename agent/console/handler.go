package console

import (
	"cmp"
	"errors"

	"github.com/troupe-dev/troupe/agent"
)

// Handler returns a console over the store of a runtime, for the program that has opened it. Of o,
// nil is the same as the zero value, Store and Wake are the runtime's unless they are set.
func Handler(rt *agent.Runtime, o *Options) (*Console, error) {
	own := *cmp.Or(o, new(Options))
	if own.Store == nil {
		own.Store = rt.Store()
	}
	if own.Store == nil {
		return nil, errors.New("opening the console: the runtime keeps its runs in its own memory: open it with a store (agent.Options.Store)")
	}
	if own.Wake == nil {
		own.Wake = rt.Wake
	}
	return New(&own)
}
