package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/provider"
	"github.com/troupe-dev/troupe/agent/internal/answers"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// closeTime bounds [Runtime.Close]. Runs end within two graces.
const closeTime = 15 * time.Second

// Runtime holds servers, agents and runs. Make it with [Open] and end it with
// [Runtime.Close].
type Runtime struct {
	opts    options
	owner   string // of the leases
	store   store.Store
	own     bool // the store is the runtime's
	sys     *actors.System
	agents  actors.Ref
	llm     *provider.Group
	stalls  stalls
	answers *answers.Poller // given in other processes
	servers *servers
	tenants tenants
	basic   *Agent // what [Runtime.Run] runs; nil without a model

	closing sync.Once
	closed  error
}

// Open starts a runtime. It waits for the servers that are marked as Required, and returns
// an error if one of them cannot be connected to. It does not wait for the others: one
// that cannot be started, now or later, is a warning in the log, and named in
// [ToolsListed] as absent.
func Open(ctx context.Context, opts *Options) (*Runtime, error) {
	o := opts.withDefaults()
	if _, err := compileAll(o.Tools); err != nil {
		return nil, fmt.Errorf("opening the runtime: %w", err)
	}
	if err := checkPrices(o.Prices); err != nil {
		return nil, fmt.Errorf("opening the runtime: %w", err)
	}
	rt := &Runtime{opts: o, store: o.Store, owner: "agent-" + uuid.NewString()}
	if rt.store == nil {
		rt.store, rt.own = memstore.New(nil), true
	}
	if err := rt.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the runtime: %w", err), rt.Close())
	}
	return rt, nil
}

func (rt *Runtime) open(ctx context.Context) (err error) {
	if rt.sys, err = actors.NewSystem(&actors.Options{Logger: rt.opts.Logger}); err != nil {
		return err
	}
	if err = rt.openProviders(); err != nil {
		return err
	}
	if rt.answers, err = answers.Start(rt.sys, rt.store); err != nil {
		return err
	}
	if rt.servers, err = startServers(ctx, rt.sys, rt.store, &rt.opts.Options, rt.openSampling); err != nil {
		return err
	}
	rt.agents, err = rt.sys.Spawn(actors.Spec{Kind: actors.KindAgents, Name: "agents", New: func() actors.Actor {
		return &agents{store: rt.store, forget: rt.own, maximum: rt.opts.MaxRuns,
			runs: make(map[string]*Run), live: make(map[actors.Ref]*Run)}
	}})
	if err != nil {
		return err
	}
	if rt.opts.Model != nil {
		if rt.basic, err = newAgent(rt, "agent", nil); err != nil {
			return err
		}
	}
	return rt.servers.host.Ready(ctx)
}

// Agent defines an agent. An unknown server, a bad limit or a bad tool is an error
// here, and not one of its runs.
func (rt *Runtime) Agent(name string, cfg *Config) (*Agent, error) { return newAgent(rt, name, cfg) }

// Run runs the agent that has the runtime's model, all its tools, and no
// instructions: see [Agent.Run].
func (rt *Runtime) Run(ctx context.Context, prompt string) (*Result, error) {
	if rt.basic == nil {
		return nil, errors.New("running: there is no model: set Options.Model")
	}
	return rt.basic.Run(ctx, prompt, nil)
}

// Start starts a run of that same agent: see [Agent.Start].
func (rt *Runtime) Start(ctx context.Context, prompt string, opts *RunOptions) (*Run, error) {
	if rt.basic == nil {
		return nil, errors.New("starting a run: there is no model: set Options.Model")
	}
	return rt.basic.Start(ctx, prompt, opts)
}

// start begins a run, or finds the one that has its ID.
func (rt *Runtime) start(ctx context.Context, run *Run) (*Run, error) {
	found, err := rt.begin(ctx, run)
	if err != nil {
		return nil, err
	}
	opened, err := found.opened(ctx)
	if err != nil && found == run {
		run.Cancel(err)
	}
	return opened, err
}

// begin is start without the wait until the run is recorded. It waits for another run of
// the ID that is not recorded yet.
func (rt *Runtime) begin(ctx context.Context, run *Run) (*Run, error) {
	for {
		found, err := rt.tryBegin(ctx, run)
		if !errors.Is(err, errUnopened) {
			return found, err
		}
		if _, err := found.loop.Opened(ctx); err == nil {
			continue // it has the ID
		}
		select {
		case <-found.loop.Stopped(): // the actor of all runs has forgotten it by the next message
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// tryBegin is begin without any wait: with [errUnopened] comes the run to wait for.
func (rt *Runtime) tryBegin(ctx context.Context, run *Run) (*Run, error) {
	if ctx.Err() != nil { // else the answer and the end race
		return nil, context.Cause(ctx)
	}
	found, err := actors.Ask(ctx, rt.agents, func(r *actors.Reply[*Run]) any { return &startRun{run, r} })
	switch {
	case errors.Is(err, actors.ErrStopped) || errors.Is(err, actors.ErrClosed):
		return nil, ErrClosed
	case errors.Is(err, errUnopened):
		return found, err
	case err != nil:
		rt.agents.Send(cancelStart{run, err}) // it may have started all the same
		return nil, err
	}
	return found, nil
}

// stopRuns cancels the runs of a tenant, or of all and takes no more if it is nil, and
// waits for their end.
func (rt *Runtime) stopRuns(ctx context.Context, of *Tenant, cause error) error {
	if rt.agents.IsZero() {
		return nil
	}
	_, err := actors.Ask(ctx, rt.agents, func(r *actors.Reply[struct{}]) any { return &stopRuns{of, cause, r} })
	if errors.Is(err, actors.ErrStopped) {
		return nil
	}
	return err
}

// Host returns the connections to the servers that runs without a tenant share: for the
// catalogue, and for calls that belong to no run. It must not be closed.
func (rt *Runtime) Host() *mcpclient.Host { return rt.servers.host }

// Wake has the runtime look now for answers that were given in other processes. Without it
// the runs learn of them within a second.
func (rt *Runtime) Wake() { rt.answers.Wake() }

// Runs returns the runs that have not ended, sub-agents' among them, in no order.
func (rt *Runtime) Runs(ctx context.Context) ([]*Run, error) {
	runs, err := actors.Ask(ctx, rt.agents, func(r *actors.Reply[[]*Run]) any { return &listRuns{r} })
	if errors.Is(err, actors.ErrStopped) || errors.Is(err, actors.ErrClosed) {
		return nil, nil
	}
	return runs, err
}

// System returns the actor system the runtime lives in, for those who put actors of
// their own beside it.
func (rt *Runtime) System() *actors.System { return rt.sys }

// Failed returns a channel that is closed when the runtime has ended because of a bug
// in its own kernel, which [Runtime.Err] then names. All runs have ended then.
func (rt *Runtime) Failed() <-chan struct{} { return rt.sys.Failed() }

// Err returns the failure that ended the runtime, nil if there is none.
func (rt *Runtime) Err() error { return rt.sys.Err() }

// Close is [Runtime.Shutdown] with a bound of 15 seconds.
func (rt *Runtime) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	return rt.Shutdown(ctx)
}

// Shutdown ends everything the runtime has started: runs are cancelled with
// [ErrClosed] and recorded as such, servers stopped. It waits for that until ctx
// ends; the error names what did not stop. Later calls return what the first did.
func (rt *Runtime) Shutdown(ctx context.Context) error {
	rt.closing.Do(func() { rt.closed = rt.shutdown(ctx) })
	return rt.closed
}

func (rt *Runtime) shutdown(ctx context.Context) error {
	var errs []error
	if err := rt.stopRuns(ctx, nil, ErrClosed); err != nil {
		errs = append(errs, fmt.Errorf("ending the runs: %w", err))
	}
	if rt.servers != nil {
		errs = append(errs, rt.tenants.close(ctx, rt.sys), rt.servers.close(ctx))
	}
	if rt.sys != nil {
		errs = append(errs, rt.sys.Shutdown(ctx))
	}
	if rt.own {
		errs = append(errs, rt.store.Close())
	}
	return errors.Join(errs...)
}

// Servers waits until every server is ready or has failed, or for ctx, and
// returns how they stand, in the order they were given. Each has a bound of its
// own: see [mcpclient.Server].ConnectTimeout.
func (rt *Runtime) Servers(ctx context.Context) ([]mcpclient.ServerStatus, error) {
	if _, err := rt.servers.host.Tools(ctx); err != nil {
		return nil, err
	}
	return rt.servers.host.Servers(), nil
}

// Store returns the store that the runtime was opened with; nil if it keeps what happens in
// memory only.
func (rt *Runtime) Store() store.Store {
	if rt.own {
		return nil
	}
	return rt.store
}

// Find returns the run of an ID: a live one of this runtime, or one that is in the store,
// of another process or of the past, which can be waited for and read but not cancelled. A
// sub-agent's run is found in the store. The error is [store.ErrNotFound] if there is none.
func (rt *Runtime) Find(ctx context.Context, id string) (*Run, error) {
	run, err := actors.Ask(ctx, rt.agents, func(r *actors.Reply[*Run]) any { return &findRun{id, r} })
	switch {
	case errors.Is(err, actors.ErrStopped) || errors.Is(err, actors.ErrClosed):
		return nil, ErrClosed
	case err != nil:
		return nil, err
	case run != nil:
		return run, nil
	}
	head, err := rt.store.Run(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("finding run %q: %w", id, err)
	}
	return &Run{id: head.ID, store: rt.store}, nil
}
