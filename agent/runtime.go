package agent

import (
	"context"
	"sync"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/agent/internal/answers"
	"github.com/troupe-dev/troupe/agent/internal/claims"
	"github.com/troupe-dev/troupe/agent/internal/models"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// Runtime holds servers, agents and runs. Make it with [Open] and end it with
// [Runtime.Close].
type Runtime struct {
	opts    options
	claims  claims.Claimer
	store   store.Store
	own     bool // the store is the runtime's
	sys     *actors.System
	agents  actors.Ref
	models  *models.Set
	stalls  stalls
	answers *answers.Poller // given in other processes
	servers *servers
	basic   *Agent // of [Runtime.Run]; nil without a model

	defined  sync.Map // the agent that was defined last, by name: goroutines of the program define them
	resuming sync.Map // IDs of runs that are being claimed: no two callers may take one from each other

	closing sync.Once
	closed  error
}

// Host returns the connections to the servers that runs without a tenant share: for the
// catalogue, and for calls that belong to no run. It must not be closed.
func (rt *Runtime) Host() *mcpclient.Host { return rt.servers.host }

// Wake has the runtime look now for answers that were given in other processes. Without it
// the runs learn of them within a second.
func (rt *Runtime) Wake() { rt.answers.Wake() }

// System returns the actor system of the runtime, for programs that put actors of
// their own beside it.
func (rt *Runtime) System() *actors.System { return rt.sys }

// Failed returns a channel that is closed when the runtime has ended because of a bug
// in its own kernel, which [Runtime.Err] then names. All runs have ended then.
func (rt *Runtime) Failed() <-chan struct{} { return rt.sys.Failed() }

// Err returns the failure that ended the runtime, nil if there is none.
func (rt *Runtime) Err() error { return rt.sys.Err() }

// Servers waits until every server is ready or has failed, or for ctx, and
// returns how they stand, in the order they were given. Each has a bound of its
// own: see [mcpclient.Server].ConnectTimeout.
func (rt *Runtime) Servers(ctx context.Context) ([]mcpclient.ServerStatus, error) {
	if _, err := rt.servers.host.Tools(ctx); err != nil {
		return nil, err
	}
	return rt.servers.host.Servers(), nil
}

// Store returns the store that the runtime was opened with; nil if it keeps its runs in
// memory only.
func (rt *Runtime) Store() store.Store {
	if rt.own {
		return nil
	}
	return rt.store
}

// Stalled returns the runs that wait for the store, the longest first.
func (rt *Runtime) Stalled() []StalledRun { return rt.stalls.list() }

// IsStalled reports whether the run with that ID waits for the store.
func (rt *Runtime) IsStalled(id string) bool {
	_, ok := rt.stalls.runs.Load(id)
	return ok
}
