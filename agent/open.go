package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/agent/internal/answers"
	"github.com/troupe-dev/troupe/agent/internal/claims"
	"github.com/troupe-dev/troupe/agent/internal/models"
	"github.com/troupe-dev/troupe/internal/owner"
	"github.com/troupe-dev/troupe/store/memstore"
)

// closeTime bounds [Runtime.Close]. Runs end within two graces.
const closeTime = 15 * time.Second

// Open starts a runtime. It waits for the servers that are marked as Required, and returns
// an error if one of them cannot be connected to. It does not wait for the others: one
// that cannot be started, now or later, is a warning in the log, and named in
// [ToolsListed] as absent.
func Open(ctx context.Context, opts *Options) (*Runtime, error) {
	o := opts.withDefaults()
	if _, err := compileAll(o.Tools); err != nil {
		return nil, fmt.Errorf("opening the runtime: %w", err)
	}
	if err := checkPatterns("Polls", o.Polls); err != nil {
		return nil, fmt.Errorf("opening the runtime: %w", err)
	}
	if err := o.OnDrift.check(); err != nil {
		return nil, err
	}
	if err := o.OnUnknown.check(); err != nil {
		return nil, fmt.Errorf("opening the runtime: %w", err)
	}
	if err := checkStartedWith(o.StartedWith); err != nil {
		return nil, fmt.Errorf("opening the runtime: %w", err)
	}
	if err := models.CheckPrices(o.Prices); err != nil {
		return nil, fmt.Errorf("opening the runtime: %w", err)
	}
	rt := &Runtime{opts: o, store: o.Store}
	if rt.store == nil {
		rt.store, rt.own = memstore.New(nil), true
	}
	rt.claims = claims.Claimer{Store: rt.store, Owner: owner.New("agent"), Lease: o.Lease}
	if err := rt.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the runtime: %w", err), rt.Close())
	}
	return rt, nil
}

func (rt *Runtime) open(ctx context.Context) (err error) {
	if rt.sys, err = actors.NewSystem(&actors.Options{Logger: rt.opts.Logger}); err != nil {
		return err
	}
	if err = rt.openModels(); err != nil {
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
			runs: make(map[string]*Run), follows: make(map[string]*Run), live: make(map[actors.Ref]*Run), tenants: make(map[*Tenant]bool)}
	}})
	if err != nil {
		return err
	}
	if rt.opts.Model != nil {
		if rt.basic, err = rt.Agent("agent", nil); err != nil {
			return err
		}
	}
	return rt.servers.host.Ready(ctx)
}

// Agent defines an agent. An unknown server, a bad limit or a bad tool is an error
// here, and not one of its runs.
func (rt *Runtime) Agent(name string, cfg *Config) (*Agent, error) {
	a, err := newAgent(rt, name, cfg)
	if err == nil {
		rt.defined.Store(name, a)
	}
	return a, err
}

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

// Close is [Runtime.Shutdown] with a bound of 15 seconds.
func (rt *Runtime) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	return rt.Shutdown(ctx)
}

// Shutdown ends everything the runtime has started: runs are suspended, or cancelled with [ErrClosed]
// and recorded as such, see [Options].OnClose, and servers stopped. It waits for that until ctx ends;
// the error names the parts that did not stop. Later calls return the first's result.
func (rt *Runtime) Shutdown(ctx context.Context) error {
	rt.closing.Do(func() { rt.closed = rt.shutdown(ctx) })
	return rt.closed
}

func (rt *Runtime) shutdown(ctx context.Context) error {
	var errs []error
	if rt.opts.OnClose == ParkRuns && rt.opts.Store != nil {
		rt.parkRuns(ctx)
	}
	if err := rt.stopRuns(ctx, nil, ErrClosed); err != nil {
		errs = append(errs, fmt.Errorf("ending the runs: %w", err))
	}
	if rt.servers != nil {
		errs = append(errs, rt.closeTenants(ctx), rt.servers.close(ctx))
	}
	if rt.sys != nil {
		errs = append(errs, rt.sys.Shutdown(ctx))
	}
	if rt.own {
		errs = append(errs, rt.store.Close())
	}
	return errors.Join(errs...)
}

// CloseMode says what becomes of the runs under way when a runtime closes.
type CloseMode int

const (
	// ParkRuns suspends them, if the runtime has a Store, as [Run.Suspend] does: [Runtime.Resume] goes
	// on with them, also in another process.
	ParkRuns CloseMode = iota
	// CancelRuns cancels them.
	CancelRuns
)

// parkRuns suspends all runs. Those of sub-agents are suspended with the runs that have started them.
func (rt *Runtime) parkRuns(ctx context.Context) {
	runs, err := rt.list(ctx, true)
	if err != nil || rt.sys == nil {
		return // they are cancelled
	}
	var parked []*actors.Reply[struct{}]
	for _, r := range runs {
		done := new(actors.Reply[struct{}])
		rt.sys.Go("parking run "+r.id, func() { done.Complete(struct{}{}, rt.parkRun(ctx, r)) })
		parked = append(parked, done)
	}
	for _, done := range parked {
		_, _ = done.Wait(ctx) // a run that is not parked is cancelled
	}
}

func (rt *Runtime) parkRun(ctx context.Context, r *Run) error {
	head, err := rt.store.Run(ctx, r.id)
	if err != nil || head.Parent != "" {
		return err
	}
	return r.Suspend(ctx)
}
