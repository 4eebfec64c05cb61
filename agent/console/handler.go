package console

import (
	"cmp"
	"context"
	"errors"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/admin"
	"github.com/troupe-dev/troupe/internal/inspect"
)

// Handler returns a console over the store of a runtime, for the program that has opened it. Of o,
// nil is the same as the zero value, Store, Wake, Processes and Runs are the runtime's unless they are set.
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
	if own.Processes == nil {
		local := admin.NewLocal(inspect.Options(rt, "this program", nil))
		own.Processes = func(context.Context) ([]Process, error) { return []Process{local}, nil }
	}
	if own.Runs == nil {
		own.Runs = ControlOf(rt)
	}
	return New(&own)
}
