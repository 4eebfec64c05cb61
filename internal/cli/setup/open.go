// Package setup has the flags that choose servers, model, limits and approvals, and opens
// from them the runtime that a command works with.
package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/auth"
	"github.com/troupe-dev/troupe/store"
)

// Flags are the flags of commands that run agents.
type Flags struct {
	ServerFlags
	samplingFlags
	limitFlags
	model    string
	Agent    string
	approve  string
	thinking string
	yes      bool
	system   string
	allow    []string // --tool
	deny     []string // --no-tool

	// The rest are no flags: a command sets them itself.

	All         bool                 // open all agents of the configuration, not only the main one
	LeaveModel  bool                 // do not look for a model without a name
	noModel     bool                 // go on where there is no model: agents that need one are left out then
	NoWait      bool                 // do not wait for the servers, and do not say how they are
	WithOptions func(*agent.Options) // has the last word on the runtime
	Remember    bool                 // do not ask about tools that were allowed in this folder for good
	AskExpiry   time.Duration        // how long questions wait for a human; zero means some minutes

	set *pflag.FlagSet // of the command
}

// Add adds the flags to a command.
func (f *Flags) Add(cmd *cobra.Command) {
	f.ServerFlags.Add(cmd)
	f.samplingFlags.add(cmd)
	f.limitFlags.add(cmd)
	flags := cmd.Flags()
	f.set = flags
	flags.StringVarP(&f.model, "model", "m", "", "`PROVIDER/MODEL`, such as ollama/qwen3:8b (default: what is found)")
	flags.StringVarP(&f.Agent, "agent", "a", "", "run this `AGENT` of troupe.yaml or of .agents/agents")
	flags.StringVar(&f.thinking, "thinking", "", "how much the model thinks, as near as it can: `LEVEL` is none, minimal, low, medium, high, xhigh or max (default: the agent's, or the model's own)")
	flags.StringVar(&f.approve, "approve", "", "`WHICH` tool calls ask first: never, all, writes (all but read-only tools of trusted servers), or tainted (those that may carry private data out after untrusted text was read) (default: the agent's, or writes)")
	flags.BoolVar(&f.yes, "yes", false, "the same as --approve never")
	flags.StringVar(&f.system, "system", "", "instructions, the system `TEXT`, in place of the agent's")
	flags.StringSliceVar(&f.allow, "tool", nil, "let the model have only the servers' tools that fit the `PATTERN`, such as files__*")
	flags.StringSliceVar(&f.deny, "no-tool", nil, "keep the servers' tools from the model that fit the `PATTERN`")
}

// policy is the approval policy of the flags, or else the one of the agent.
func (f *Flags) policy(own string) (agent.ApprovePolicy, error) {
	if f.yes {
		f.approve = "never"
	}
	policy, ok := policyNamed(cmp.Or(f.approve, own, "writes"))
	if !ok {
		return nil, env.Usagef("--approve %q: want never, tainted, writes or all", f.approve)
	}
	return policy, nil
}

func policyNamed(name string) (agent.ApprovePolicy, bool) {
	switch name {
	case "never":
		return agent.NeverAsk, true
	case "writes":
		return agent.AskBeforeWrites, true
	case "tainted":
		return agent.AskOnTaint(agent.NeverAsk), true
	case "all":
		return agent.AskAlways, true
	}
	return nil, false
}

// Check refuses what is wrong before anything is opened.
func (f *Flags) Check() error {
	if err := f.limitFlags.check(); err != nil {
		return err
	}
	_, err := f.policy("")
	return err
}

// Opened is everything that a command which runs agents has opened.
type Opened struct {
	Runtime  *agent.Runtime
	Store    store.Store
	Agents   map[string]*agent.Agent // by name: the main one, and with all those of the configuration
	Model    llm.Model               // the one of the flags; nil where there is none
	Main     *agent.Agent            // what --agent names, or else one of the flags; nil without a model
	Servers  []mcpclient.Server
	Allowed  *ToolApprovals // for good in this folder; nil where they do not count
	Settings *env.Settings
	Log      *slog.Logger
	Telling  *exporting // nil where nothing is told to OpenTelemetry

	authorizer *auth.Authorizer // nil where no server may want a login
}

// Open opens the store, the servers, the model and the agents of the flags. Errors carry
// the exit code. Ctx bounds the opening alone; close what is returned.
func Open(ctx context.Context, e *env.Env, f *Flags) (_ *Opened, err error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	o := &Opened{Agents: make(map[string]*agent.Agent)}
	defer func() {
		if err != nil {
			o.Close(&err)
		}
	}()
	if o.Log, err = e.Logger(); err != nil {
		return nil, err
	}
	if o.Store, err = e.OpenStore(); err != nil {
		return nil, err
	}
	if f.Remember && !e.NoStore {
		if o.Allowed, err = NewToolApprovals(o.Store); err != nil {
			return nil, err
		}
	}
	if o.Servers, err = ServersOf(e, &f.ServerFlags); err != nil {
		return nil, err
	}
	WarnOf(e, o.Servers)
	if err := f.takeOverTrust(ctx, o.Store, o.Servers); err != nil {
		return nil, err
	}
	if f.Service && !e.DryRun {
		if err := f.announce(ctx, e, o.Store, o.Log, o.Servers); err != nil {
			return nil, err
		}
	}
	if o.Settings, err = e.Config(); err != nil {
		return nil, err
	}
	for i := range o.Settings.Notes {
		e.Note("%v", &o.Settings.Notes[i])
	}
	if _, err := o.Settings.AgentNamed(f.Agent); err != nil {
		return nil, err
	}
	if o.Model, err = modelFor(ctx, e, f); err != nil {
		return nil, err
	}
	if err := openRuntime(ctx, e, f, o); err != nil {
		return nil, err
	}
	if !f.NoWait && !e.DryRun {
		if err := greetServers(ctx, e, &f.ServerFlags, o.Runtime, o.Servers); err != nil {
			return nil, err
		}
	}
	if err := openAgents(ctx, e, f, o); err != nil {
		return nil, err
	}
	return o, nil
}

// modelFor is the model of the flags, or else of the agent that they name; nil where
// there is none and that is no error.
func modelFor(ctx context.Context, e *env.Env, f *Flags) (llm.Model, error) {
	s, err := e.Config()
	if err != nil {
		return nil, err
	}
	a, err := s.AgentNamed(f.Agent)
	if err != nil {
		return nil, err
	}
	if f.LeaveModel && f.model == "" && a.Model == "" {
		return nil, nil
	}
	name := cmp.Or(f.model, a.Model)
	if v, ok := s.Value("models.default"); ok && name == "" && e.FoundConfig(v.File) {
		e.Note("the model %s is the project's choice: %s", v.Text, v.Origin())
	}
	model, err := ChooseModel(ctx, e, name)
	if err == nil || !f.noModel || f.model != "" || ctx.Err() != nil {
		return model, err
	}
	e.Note("without a model: %v", err)
	return nil, nil
}

// openRuntime opens the runtime of the flags.
func openRuntime(ctx context.Context, e *env.Env, f *Flags, o *Opened) error {
	sampling, err := samplingFor(ctx, e, &f.samplingFlags, o.Servers)
	if err != nil {
		return err
	}
	prices, err := f.allPrices(o.Settings)
	if err != nil {
		return err
	}
	opts := &agent.Options{
		Model: o.Model, Servers: o.Servers, Store: o.Store, Logger: o.Log, OnClose: agent.CancelRuns,
		Consent: f.consent, Sampling: sampling,
		Host:      &mcpclient.HostOptions{Options: mcpclient.Options{Logger: o.Log, AskOptions: mcpclient.AskOptions{AskExpiry: f.AskExpiry, OnePerson: true, LoginCommand: loginCommand(e, &f.ServerFlags)}}},
		Providers: o.Settings.Providers(), Prices: prices, Polls: o.Settings.MCP.Polls,
	}
	if opts.StartedWith, err = f.startedWith(e, o.Servers); err != nil {
		return err
	}
	if o.authorizer, err = OpenAuthorizer(e, o.Store, o.Servers, AuthorizerOptions{}); err != nil {
		return err
	}
	if o.authorizer != nil {
		opts.Host.Authorizer = o.authorizer
	}
	if o.Telling, err = openTelemetry(ctx, o.Settings, e.DryRun, o.Log); err != nil {
		return err
	}
	if o.Telling != nil {
		o.Telling.Instrument(opts)
	}
	if f.WithOptions != nil {
		f.WithOptions(opts)
	}
	if e.DryRun {
		opts.Host.Lazy = true
		for i := range opts.Servers {
			opts.Servers[i].Required = false
		}
		prices[unknownModel{}.Name()] = llm.Price{}
	}
	if o.Runtime, err = agent.Open(ctx, opts); err != nil {
		return env.Usagef("%w", err)
	}
	return nil
}

// openAgents makes the main agent, and with all those of the configuration; without a
// model only those that have one of their own.
func openAgents(ctx context.Context, e *env.Env, f *Flags, o *Opened) (err error) {
	if o.Model != nil {
		def, err := o.Settings.AgentNamed(f.Agent)
		if err != nil {
			return err
		}
		if def.Foreign {
			e.Note("the agent %s is the project's: %s", f.Agent, def.Source)
		}
		if o.Main, err = NewAgent(e, f, o, cmp.Or(f.Agent, config.MainAgent), &def, nil); err != nil {
			return err
		}
		o.Agents[o.Main.Name()] = o.Main
	}
	if !f.All {
		return nil
	}
	var faults []error // of all agents
	for _, name := range slices.Sorted(maps.Keys(o.Settings.Agents)) {
		def := o.Settings.Agents[name]
		if o.Agents[name] != nil {
			continue
		}
		if def.Err != nil {
			e.Note("without the agent %s: %v", env.Plain(name), def.Err)
			continue
		}
		var own llm.Model
		if def.Model != "" && f.model == "" {
			if own, err = ChooseModel(ctx, e, def.Model); err != nil {
				faults = append(faults, fmt.Errorf("%s: the agent %s: %w", def.Source, name, err))
				continue
			}
		}
		if own == nil && o.Model == nil {
			e.Note("without the agent %s: it needs a model", name)
			continue
		}
		a, err := NewAgent(e, f, o, name, &def, own)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", def.Source, err))
			continue
		}
		o.Agents[name] = a
	}
	return errors.Join(faults...)
}

// DryRun reports what the start of a command that opens all agents would refuse of servers, models, agents and
// telemetry. E is one for dry runs.
func DryRun(ctx context.Context, e *env.Env) (err error) {
	f := Flags{All: true, NoWait: true}
	f.Add(new(cobra.Command))
	o, err := Open(ctx, e, &f)
	if err != nil {
		return err
	}
	o.Close(&err)
	return err
}

// NewAgent makes an agent of its definition; what the flags say comes first. Without a
// model it has the runtime's.
func NewAgent(e *env.Env, f *Flags, o *Opened, name string, def *config.Agent, model llm.Model) (*agent.Agent, error) {
	policy, err := f.policy(def.Approve)
	if err != nil {
		return nil, err
	}
	if o.Allowed != nil && f.approve != "all" { // which a user types who wants to be asked
		policy = o.Allowed.policy(policy)
	}
	own := def.Limits.Or(o.Settings.Limits)
	limits, err := f.limits(own)
	if err != nil {
		return nil, err
	}
	thinking := llm.Effort(f.thinking)
	if thinking != "" && !slices.Contains(llm.Efforts, thinking) {
		return nil, env.Usagef("--thinking %q: want one of %v", f.thinking, llm.Efforts)
	}
	cfg := &agent.Config{
		Instructions: cmp.Or(f.system, def.Instructions), Description: def.Description, Model: model, Servers: def.Servers,
		Allow: def.Allow, Deny: slices.Concat(def.Deny, f.deny), Limits: limits, Approve: policy, Input: def.Input, Output: def.Output,
		Thinking: cmp.Or(thinking, def.Thinking), AskExpiry: f.AskExpiry, MaxRepeats: own.Repeats,
	}
	if f.allow != nil {
		cfg.Allow = f.allow
	}
	a, err := o.Runtime.Agent(name, cfg)
	if err != nil {
		return nil, env.Usagef("%w", priceError(err))
	}
	return a, nil
}

// Close closes all of it and adds what fails to the error of the command.
func (o *Opened) Close(err *error) {
	if o.Runtime != nil {
		*err = errors.Join(*err, o.Runtime.Close())
	}
	if o.authorizer != nil {
		*err = errors.Join(*err, o.authorizer.Close())
	}
	if o.Telling != nil {
		if failed := o.Telling.close(context.Background()); failed != nil {
			o.Log.Warn("telemetry could not be sent", "error", failed)
		}
	}
	if o.Store != nil {
		env.CloseStore(o.Store, err)
	}
}
