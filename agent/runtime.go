package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/provider"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// Options says what a runtime is made of; nil is the same as the zero value.
type Options struct {
	// Model is asked by agents that have none of their own.
	Model llm.Model
	// Retry changes how a model that fails is asked again; see [llm.Retry]. Nil means
	// its defaults, MaxAttempts 1 switches it off.
	Retry *llm.RetryOptions
	// Providers says how each provider of models is asked, by its name: "openai" and
	// "ollama" for their usual servers, "openai@host" for others, or the name that a
	// client was given; see package actors/provider. "" is for all that are not named.
	// Where Retry is nil there it is the one above. Nil means the defaults.
	Providers map[string]ProviderOptions
	// Prices says what models cost, by their full names such as "openai/gpt-5-mini", in
	// whatever currency [Limits].Cost is in. A router's own prices count where the name
	// is not here. Nothing else is a price: no public list is trusted.
	Prices map[string]llm.Price
	// Servers are the MCP servers whose tools agents may use. Those that come from a
	// file start only with consent, see Consent; naming one here in Go is consent.
	Servers []mcpclient.Server
	// Consent is asked about a server that comes from a file, before its command is
	// started, unless the store has a recorded approval of exactly this definition
	// (SECA-45). An error refuses it, and is shown as the reason. Nil refuses.
	Consent func(ctx context.Context, server mcpclient.Server) error
	// Sampling lets servers ask a model, and says what each may have of it. It takes the
	// place of the Host's Sampler. Nil refuses.
	Sampling *Sampling
	// Host changes how servers are talked to; its Consent is not used. Nil means the
	// defaults; its Pins, if they are nil, are those of the Store: see [Pins].
	Host *mcpclient.HostOptions
	// Tools are functions of the program that every agent has.
	Tools []Tool
	// Approve decides which calls wait for a human, for agents that do not say it
	// themselves. Nil means [AskBeforeWrites].
	Approve ApprovePolicy
	// OnAsk answers the questions of runs, those of sub-agents among them: may this call be
	// made, what does this server's form want? Nil leaves them to readers of [Run.Events]
	// and to those who settle them in the store. They can still answer what it leaves open, and
	// a question without an answer is declined after [Config].AskExpiry, 10 minutes: in a
	// program without a person, set it, or Approve, or trust a server whose tools only read.
	OnAsk AskFunc
	// Store keeps runs, questions, approvals and pins, and is left open by Close. Nil keeps
	// them in memory, the last 128 runs that have ended among them.
	Store store.Store
	// Tracer observes runs, turns and tool calls. Nil means none.
	Tracer Tracer
	// Lease is how long the lease on a run lasts, which is renewed three times in it: after
	// that others may take a run over whose process has gone or stands still. Zero means a
	// minute, and that there are no others. It is also how long a run waits for a Store that
	// is locked, full or out of reach: see [Runtime.Stalled]. With zero it waits until it is
	// cancelled.
	Lease time.Duration
	// MaxRuns bounds the runs at once. Zero means 10,000.
	MaxRuns int
	// MaxTenants bounds the tenants at once. Zero means 1000.
	MaxTenants int
	// Grace is how long a run that was cancelled waits for tools that do not heed it,
	// and once more for its store. Zero means 5 seconds.
	Grace time.Duration
	// Logger takes structured logs. Nil passes warnings and errors to [slog.Default], as it
	// is when the runtime is opened, and discards the rest: a server that does not start or
	// a tool that panics is seen without any set-up. [slog.DiscardHandler] silences all.
	Logger *slog.Logger
}

// closeTime bounds [Runtime.Close]. Runs end within two graces.
const closeTime = 15 * time.Second

type options struct {
	Options
	Retry llm.RetryOptions
}

func (o *Options) withDefaults() options {
	var d options
	if o != nil {
		d.Options = *o
	}
	if d.Options.Retry != nil {
		d.Retry = *d.Options.Retry
	}
	if d.Approve == nil {
		d.Approve = AskBeforeWrites
	}
	if d.MaxRuns == 0 {
		d.MaxRuns = 10_000
	}
	if d.MaxTenants == 0 {
		d.MaxTenants = maxTenants
	}
	if d.Grace == 0 {
		d.Grace = 5 * time.Second
	}
	if d.Logger == nil {
		d.Logger = slog.New(warnings{slog.Default().Handler()})
	}
	return d
}

// warnings is a handler that drops what is below a warning.
type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}

func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }

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
	answers *answers // given in other processes
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
	if rt.answers, err = startAnswers(rt.sys, rt.store); err != nil {
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
