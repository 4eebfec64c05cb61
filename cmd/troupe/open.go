package main

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

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// openFlags are the flags of commands that run agents.
type openFlags struct {
	serverFlags
	samplingFlags
	limitFlags
	model   string
	agent   string
	approve string
	yes     bool
	system  string
	allow   []string // --tool
	deny    []string // --no-tool

	// The rest are no flags: a command sets them itself.

	all         bool                 // open all agents of the configuration, not only the main one
	leaveModel  bool                 // do not look for a model that nobody has named
	noModel     bool                 // go on where there is no model: agents that need one are left out then
	noWait      bool                 // do not wait for the servers, and do not say how they are
	withOptions func(*agent.Options) // has the last word on the runtime
	remember    bool                 // do not ask about tools that were allowed in this folder for good
	askExpiry   time.Duration        // how long questions wait for a human; zero means some minutes
}

// add adds the flags to a command.
func (f *openFlags) add(cmd *cobra.Command) {
	f.serverFlags.add(cmd)
	f.samplingFlags.add(cmd)
	f.limitFlags.add(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.model, "model", "m", "", "`PROVIDER/MODEL`, such as ollama/qwen3:8b (default: what is found)")
	flags.StringVarP(&f.agent, "agent", "a", "", "run this `AGENT` of troupe.yaml or of .agents/agents")
	flags.StringVar(&f.approve, "approve", "", "`WHICH` tool calls ask first: never, all, writes (all but read-only tools of trusted servers), or tainted (those that may carry private data out after untrusted text was read) (default: the agent's, or writes)")
	flags.BoolVar(&f.yes, "yes", false, "the same as --approve never")
	flags.StringVar(&f.system, "system", "", "instructions, the system `TEXT`, in place of the agent's")
	flags.StringSliceVar(&f.allow, "tool", nil, "let the model have only the servers' tools that fit the `PATTERN`, such as files__*")
	flags.StringSliceVar(&f.deny, "no-tool", nil, "keep the servers' tools from the model that fit the `PATTERN`")
}

// policy is the approval policy of the flags, or else the one of the agent.
func (f *openFlags) policy(own string) (agent.ApprovePolicy, error) {
	if f.yes {
		f.approve = "never"
	}
	policy, ok := policyNamed(cmp.Or(f.approve, own, "writes"))
	if !ok {
		return nil, usagef("--approve %q: want never, tainted, writes or all", f.approve)
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

// check refuses what is wrong before anything is opened.
func (f *openFlags) check() error {
	if err := f.limitFlags.check(); err != nil {
		return err
	}
	_, err := f.policy("")
	return err
}

// opened is everything that a command which runs agents has opened.
type opened struct {
	rt       *agent.Runtime
	store    store.Store
	agents   map[string]*agent.Agent // by name: the main one, and with all those of the configuration
	model    llm.Model               // the one of the flags; nil where there is none
	main     *agent.Agent            // what --agent names, or else one of the flags; nil without a model
	servers  []mcpclient.Server
	allowed  *toolApprovals // for good in this folder; nil where they do not count
	settings *settings
	log      *slog.Logger
	telling  *exporting // nil where nothing is told to OpenTelemetry
}

// open opens the store, the servers, the model and the agents of the flags. Errors carry
// the exit code. Ctx bounds the opening alone; close what is returned.
func (p *program) open(ctx context.Context, f *openFlags) (_ *opened, err error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	o := &opened{agents: make(map[string]*agent.Agent)}
	defer func() {
		if err != nil {
			o.close(&err)
		}
	}()
	if o.log, err = p.logger(); err != nil {
		return nil, err
	}
	if o.store, err = p.openStore(); err != nil {
		return nil, err
	}
	if f.remember && !p.noStore {
		if o.allowed, err = newToolApprovals(o.store); err != nil {
			return nil, err
		}
	}
	if o.servers, err = p.servers(&f.serverFlags); err != nil {
		return nil, err
	}
	p.warnOf(o.servers)
	if err := f.takeOverTrust(ctx, o.store, o.servers); err != nil {
		return nil, err
	}
	if o.settings, err = p.config(); err != nil {
		return nil, err
	}
	for i := range o.settings.Notes {
		p.note("%v", &o.settings.Notes[i])
	}
	if _, err := o.settings.agent(f.agent); err != nil {
		return nil, err
	}
	if o.model, err = p.modelFor(ctx, f); err != nil {
		return nil, err
	}
	if err := p.openRuntime(ctx, f, o); err != nil {
		return nil, err
	}
	if !f.noWait {
		if err := p.greetServers(ctx, o.rt, o.servers); err != nil {
			return nil, err
		}
	}
	if err := p.openAgents(ctx, f, o); err != nil {
		return nil, err
	}
	return o, nil
}

// modelFor is the model of the flags, or else of the agent that they name; nil where
// there is none and that is no error.
func (p *program) modelFor(ctx context.Context, f *openFlags) (llm.Model, error) {
	s, err := p.config()
	if err != nil {
		return nil, err
	}
	a, err := s.agent(f.agent)
	if err != nil {
		return nil, err
	}
	if f.leaveModel && f.model == "" && a.Model == "" {
		return nil, nil
	}
	name := cmp.Or(f.model, a.Model)
	if v, ok := s.Value("models.default"); ok && name == "" && p.foundConfig(v.File) {
		p.note("the model %s is the project's choice: %s", v.Text, v.Origin())
	}
	model, err := p.chooseModel(ctx, name)
	if err == nil || !f.noModel || f.model != "" || ctx.Err() != nil {
		return model, err
	}
	p.note("without a model: %v", err)
	return nil, nil
}

// openRuntime opens the runtime of the flags.
func (p *program) openRuntime(ctx context.Context, f *openFlags, o *opened) error {
	sampling, err := p.sampling(ctx, &f.samplingFlags, o.servers)
	if err != nil {
		return err
	}
	prices, err := f.allPrices(o.settings)
	if err != nil {
		return err
	}
	opts := &agent.Options{
		Model: o.model, Servers: o.servers, Store: o.store, Logger: o.log,
		Consent: f.consent, Sampling: sampling,
		Host:      &mcpclient.HostOptions{Logger: o.log, AskOptions: mcpclient.AskOptions{AskExpiry: f.askExpiry, OnePerson: true}},
		Providers: o.settings.providers(), Prices: prices,
	}
	if o.telling, err = openTelemetry(ctx, o.settings, o.log); err != nil {
		return err
	}
	if o.telling != nil {
		o.telling.Instrument(opts)
	}
	if f.withOptions != nil {
		f.withOptions(opts)
	}
	if o.rt, err = agent.Open(ctx, opts); err != nil {
		return usagef("%w", err)
	}
	return nil
}

// openAgents makes the main agent, and with all those of the configuration; without a
// model only those that have one of their own.
func (p *program) openAgents(ctx context.Context, f *openFlags, o *opened) (err error) {
	if o.model != nil {
		def, err := o.settings.agent(f.agent)
		if err != nil {
			return err
		}
		if def.Foreign {
			p.note("the agent %s is the project's: %s", f.agent, def.Source)
		}
		if o.main, err = p.newAgent(f, o, cmp.Or(f.agent, config.MainAgent), &def, nil); err != nil {
			return err
		}
		o.agents[o.main.Name()] = o.main
	}
	if !f.all {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(o.settings.Agents)) {
		def := o.settings.Agents[name]
		if o.agents[name] != nil {
			continue
		}
		if def.Err != nil {
			p.note("without the agent %s: %v", plain(name), def.Err)
			continue
		}
		var own llm.Model
		if def.Model != "" && f.model == "" {
			if own, err = p.chooseModel(ctx, def.Model); err != nil {
				return fmt.Errorf("the agent %s: %w", name, err)
			}
		}
		if own == nil && o.model == nil {
			p.note("without the agent %s: it needs a model", name)
			continue
		}
		if o.agents[name], err = p.newAgent(f, o, name, &def, own); err != nil {
			return err
		}
	}
	return nil
}

// newAgent makes an agent of its definition; what the flags say comes first. Without a
// model it has the runtime's.
func (p *program) newAgent(f *openFlags, o *opened, name string, def *config.Agent, model llm.Model) (*agent.Agent, error) {
	policy, err := f.policy(def.Approve)
	if err != nil {
		return nil, err
	}
	if o.allowed != nil && f.approve != "all" { // which a user types who wants to be asked
		policy = o.allowed.policy(policy)
	}
	limits, err := f.limits(def.Limits.Or(o.settings.Limits))
	if err != nil {
		return nil, err
	}
	cfg := &agent.Config{
		Instructions: cmp.Or(f.system, def.Instructions), Description: def.Description, Model: model, Servers: def.Servers,
		Allow: def.Allow, Deny: slices.Concat(def.Deny, f.deny), Limits: limits, Approve: policy, Input: def.Input, Output: def.Output,
		AskExpiry: f.askExpiry,
	}
	if f.allow != nil {
		cfg.Allow = f.allow
	}
	a, err := o.rt.Agent(name, cfg)
	if err != nil {
		return nil, usagef("%w", priceError(err))
	}
	return a, nil
}

// close closes all of it and adds what fails to the error of the command.
func (o *opened) close(err *error) {
	if o.rt != nil {
		*err = errors.Join(*err, o.rt.Close())
	}
	if o.telling != nil {
		if failed := o.telling.close(context.Background()); failed != nil {
			o.log.Warn("telemetry could not be sent", "error", failed)
		}
	}
	if o.store != nil {
		closeStore(o.store, err)
	}
}
