package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/agent/internal/summary"
	"github.com/troupe-dev/troupe/internal/schema"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// Config defines an agent; nil is the same as the zero value.
type Config struct {
	// Instructions are the system text. Empty means none.
	Instructions string
	// Model is asked in place of the runtime's.
	Model llm.Model
	// Servers names the servers whose tools the agent has. Nil means all of the runtime's,
	// an empty list none.
	Servers []string
	// Allow and Deny choose among the servers' tools, by patterns as in [path.Match] of
	// the names that the model sees, such as "files__*". A nil Allow allows all; Deny wins.
	Allow, Deny []string
	// Tools are functions of the program, beside those of the runtime.
	Tools []Tool
	// Limits bound each run. A zero limit has the default of [Limits].
	Limits Limits
	// Approve decides which calls wait for a human. Nil means the runtime's.
	Approve ApprovePolicy
	// AskExpiry is how long a question waits. Zero means 10 minutes.
	AskExpiry time.Duration
	// Parallel is how many tool calls of a run are made at once. Zero means 8.
	Parallel int
	// MaxResult is how much of a tool's result the model sees, in bytes of text. Zero
	// means 100,000. Events and journal have all of it.
	MaxResult int
	// MaxTokens bounds the output of one turn. Zero means the provider's limit.
	MaxTokens int
	// Temperature is left to the provider where nil.
	Temperature *float64
	// Thinking is how much the model thinks before it answers: the nearest effort that it takes. Empty leaves it to the model.
	Thinking llm.Effort
	// Description describes the purpose of the agent in a sentence, for the models of
	// agents that have it as a tool or hand over to it.
	Description string
	// Input is the JSON schema of the agent's arguments as a tool, an object; the prompt
	// is then that object. Empty means a prompt. See [Agent.AsTool].
	Input json.RawMessage
	// Guards check the input and output of a run, in this order.
	Guards []Guard
	// StopWhen ends a run after a turn, although the model goes on. The result has the
	// model's text of that turn, and [StopMet]. The zero value ends no run.
	StopWhen StopCondition
	// MaxRepeats is how often in a row the model may come to the same before it is told: the
	// same calls in each turn and no others, the same two to four turns in turn, or turns that
	// have the same error, or the same result that is long or of a tool without effects, whatever
	// they call. At twice as often the
	// run wraps up: it answers once more, as by [LimitWrapUp], with [StopRepeats]. Calls of
	// tools that poll do not count, see [Tool] and [Options]. Zero means 3, below zero
	// switches it off.
	MaxRepeats int
	// ContextLength is how many tokens the model takes, input and output together. A
	// conversation that becomes larger is cut: the instructions, the first message and
	// the newest turn stay; results of tools are left out first, then whole turns, the
	// oldest before others. Events and journal have all of it, and a [HistoryCut] reports
	// the cut. Zero means the length that the model returns by a method
	// ContextLength() int. Without the method the conversation is cut when the model
	// refuses a turn as too long: by half, once.
	ContextLength int
	// Summarise sums up the messages that are cut, in a few words, which replace its
	// summary before ("" the first time). Its costs are not the run's. An error leaves a
	// mark without words. Nil lets SummaryModel do it.
	Summarise func(ctx context.Context, before string, dropped []llm.Message) (string, error)
	// SummaryModel sums up the messages that are cut, in 512 tokens at the most, on the
	// account of the run; an account without room leaves a mark without words. Nil,
	// without Summarise, leaves only marks.
	SummaryModel llm.Model
	// Output is the JSON schema the answer must fit. A model whose answer does not fit
	// reads why and answers again, twice at the most. Empty means any text.
	Output json.RawMessage
}

// Agent is a definition of which runs are started. It does not change.
type Agent struct {
	rt      *Runtime
	name    string
	path    []string // of a run of its own: the name
	cfg     Config
	model   llm.Model
	pricing *loop.Pricing // nil where the model has no known price
	tools   []loop.Tool
	team    map[string]Tool // those of them that are agents, by name
	answer  answerCheck
	input   *schema.Schema // of Config.Input; nil without
	hash    string
	offers  offers
	warned  atomic.Bool    // that there are very many tools
	runs    *loop.Template // the configuration that all of its runs share
}

// newAgent checks a definition.
func newAgent(rt *Runtime, name string, cfg *Config) (*Agent, error) {
	a := &Agent{rt: rt, name: name, path: []string{name}}
	if cfg != nil {
		a.cfg = *cfg
	}
	a.cfg.Servers, a.cfg.Guards = slices.Clone(a.cfg.Servers), slices.Clone(a.cfg.Guards)
	a.cfg.Allow, a.cfg.Deny = slices.Clone(a.cfg.Allow), slices.Clone(a.cfg.Deny)
	if name == "" || len(name) > store.MaxID {
		return nil, fmt.Errorf("the agent's name %q does not have 1 to %d characters", name, store.MaxID)
	}
	if err := a.check(); err != nil {
		return nil, fmt.Errorf("agent %q: %w", name, err)
	}
	return a, nil
}

func (a *Agent) check() error {
	if a.model = a.cfg.Model; a.model == nil {
		a.model = a.rt.opts.Model
	}
	if a.model == nil {
		return errors.New("there is no model: set Options.Model or Config.Model")
	}
	if m, ok := a.model.(interface{ ContextLength() int }); ok && a.cfg.ContextLength == 0 {
		a.cfg.ContextLength = max(m.ContextLength(), 0)
	}
	a.model = a.rt.models.Behind(a.model)
	if err := a.priced(); err != nil {
		return err
	}
	for _, name := range a.cfg.Servers {
		if !a.rt.servers.has(name) {
			return fmt.Errorf("there is no server %q; there are %q", name, a.rt.servers.names())
		}
	}
	if err := checkPatterns("Allow or Deny", slices.Concat(a.cfg.Allow, a.cfg.Deny)); err != nil {
		return err
	}
	if err := a.cfg.Limits.loop().Validate(); err != nil {
		return err
	}
	if a.cfg.Parallel < 0 || a.cfg.MaxResult < 0 || a.cfg.MaxTokens < 0 || a.cfg.AskExpiry < 0 {
		return errors.New("a Parallel, MaxResult, MaxTokens or AskExpiry below zero: it must not be negative, zero means its default")
	}
	if t := a.cfg.Thinking; t != "" && !slices.Contains(llm.Efforts, t) {
		return fmt.Errorf("there is no effort %q of thinking: want one of %v, or none of them", t, llm.Efforts)
	}
	if a.cfg.Approve == nil {
		a.cfg.Approve = a.rt.opts.Approve
	}
	var err error
	if a.answer, err = checkAnswer(a.cfg.Output); err != nil {
		return err
	}
	if a.tools, err = compileAll(a.rt.opts.Tools, a.cfg.Tools); err != nil {
		return err
	}
	if err := a.checkTeam(); err != nil {
		return err
	}
	a.hash = a.configHash()
	return a.shareConfig()
}

// shareConfig makes the configuration that all runs share.
func (a *Agent) shareConfig() (err error) {
	rt := a.rt
	cfg := a.character()
	cfg.Journal, cfg.Owner, cfg.Lease, cfg.Answers = rt.store, rt.claims.Owner, rt.claims.Lease, rt.answers
	cfg.Stored = !rt.own
	cfg.Limits, cfg.Repeats, cfg.Grace = a.cfg.Limits.loop(), a.cfg.MaxRepeats, rt.opts.Grace
	cfg.Parallel, cfg.MaxResult, cfg.AskExpiry = a.cfg.Parallel, a.cfg.MaxResult, a.cfg.AskExpiry
	a.runs, err = loop.NewTemplate(cfg)
	return err
}

// character is the part of the configuration that a hand-off replaces.
func (a *Agent) character() *loop.Config {
	return &loop.Config{Agent: a.name, Hash: a.hash, System: a.cfg.Instructions, Model: a.model, Pricing: a.pricing,
		MaxTokens: a.cfg.MaxTokens, Temperature: a.cfg.Temperature, Effort: a.cfg.Thinking, GateNow: looksNothingUp(a.cfg.Approve), Guards: compileGuards(a.cfg.Guards),
		Context: a.cfg.ContextLength, Summarise: a.summarise(), StopWhen: a.cfg.StopWhen.loop()}
}

// summarise returns the function that sums up the messages that are cut; nil for none.
func (a *Agent) summarise() func(ctx context.Context, by *loop.Call, before string, dropped []llm.Message) (string, error) {
	if f := a.cfg.Summarise; f != nil {
		return func(ctx context.Context, _ *loop.Call, before string, dropped []llm.Message) (string, error) {
			return f(ctx, before, dropped)
		}
	}
	if a.cfg.SummaryModel == nil {
		return nil
	}
	m := a.rt.models.Behind(a.cfg.SummaryModel)
	return summary.By(m, a.rt.models.Pricing(m))
}

// configHash identifies the parts of the definition that a resume must find unchanged.
func (a *Agent) configHash() string {
	tools := make([]string, len(a.tools))
	for i, t := range a.tools {
		tools[i] = t.Hash
	}
	what := map[string]any{
		"instructions": a.cfg.Instructions, "model": a.model.Name(), "servers": a.cfg.Servers, "all": a.cfg.Servers == nil,
		"tools": tools, "output": a.cfg.Output,
	}
	if a.cfg.Allow != nil || a.cfg.Deny != nil {
		what["allow"], what["deny"] = a.cfg.Allow, a.cfg.Deny
	}
	return hashOf(what)
}

// Name returns the agent's name.
func (a *Agent) Name() string { return a.name }

// Description returns the purpose of the agent in a sentence; it may be empty.
func (a *Agent) Description() string { return a.cfg.Description }

// Config returns a copy of the agent's definition, completed by the runtime's defaults.
// The caller must not change the values that it refers to.
func (a *Agent) Config() Config {
	cfg := a.cfg
	cfg.Servers, cfg.Tools, cfg.Guards = slices.Clone(cfg.Servers), slices.Clone(cfg.Tools), slices.Clone(cfg.Guards)
	return cfg
}

// Run starts a run and waits for its result. If ctx ends, the run is cancelled, and
// the result has the costs so far.
func (a *Agent) Run(ctx context.Context, prompt string, opts *RunOptions) (*Result, error) {
	run, err := a.Start(ctx, prompt, opts)
	if err != nil {
		return nil, err
	}
	if run.Done() == nil {
		return run.Wait(ctx) // another process has run it
	}
	select {
	case <-run.Done():
	case <-ctx.Done():
		run.Cancel(context.Cause(ctx))
		<-run.Done() // it ends a bounded time after its cancel, and its result then has the costs
	}
	return run.Result()
}

// Start begins a run. ctx covers the start only: the run then lives until it ends,
// [Run.Cancel], or [Runtime.Close].
//
// If there is a run of that ID already, in this process or in the store, it is
// returned as it stands if it was started by the same agent's name with the same
// prompt and output; else the error is [ErrRunExists]. If no process works on that run any
// more it goes on here: see [Runtime.Resume]. While another process works on it, the run that is returned follows
// it, by its journal, to its result; and it goes on here once that process has left it or is gone, which
// is known at once on its own machine (Linux), and else by the end of its lease. Until then, Cancel ends only the wait for it.
func (a *Agent) Start(ctx context.Context, prompt string, opts *RunOptions) (*Run, error) {
	o := *cmp.Or(opts, new(RunOptions))
	if o.ID == "" {
		o.ID = uuid.NewString()
	}
	run, err := a.prepare(ctx, prompt, &o)
	if err == nil {
		run, err = a.start(ctx, run, &o)
	}
	if err != nil {
		return nil, startError(o.ID, err)
	}
	return run, nil
}

func startError(id string, err error) error {
	if store.CheckID("run ID", id) != nil {
		return fmt.Errorf("starting a run: %w", err)
	}
	return errorOf(fmt.Sprintf("starting run %q", id), err)
}

// prepare makes a run that has not begun, for a program that starts it.
func (a *Agent) prepare(ctx context.Context, prompt string, o *RunOptions) (*Run, error) {
	if err := store.CheckID("run ID", o.ID); err != nil {
		return nil, err
	}
	if len(o.Output) == 0 {
		o.Output = a.cfg.Output
	}
	prompt, err := a.startsWith(prompt, o.Input)
	if err == nil {
		err = cmp.Or(o.OnUnknown.check(), a.checkTenant(o.Tenant), checkStartedWith(o.StartedWith))
	}
	if err != nil {
		return nil, err
	}
	return a.newRun(ctx, prompt, *o, nil)
}

// start begins a run that is prepared, or finds the one that has its ID.
func (a *Agent) start(ctx context.Context, run *Run, o *RunOptions) (*Run, error) {
	started, err := a.rt.start(ctx, run)
	if err == nil && started != run {
		return a.again(ctx, started, o)
	}
	return started, err
}

// startLater is Start, but calls answer in place of the wait until the run is recorded. It waits only where another
// run has the ID. The options name the run, and are its own.
func (a *Agent) startLater(ctx context.Context, prompt string, o *RunOptions, answer func(*Run, error)) {
	done := func(run *Run, err error) {
		if err != nil {
			run, err = nil, startError(o.ID, err)
		}
		answer(run, err)
	}
	run, err := a.prepare(ctx, prompt, o)
	if err != nil {
		done(nil, err)
		return
	}
	switch found, err := a.rt.tryBegin(ctx, run); {
	case errors.Is(err, errUnopened), err == nil && found != run:
		done(a.start(ctx, run, o))
		return
	case err != nil:
		done(nil, err)
		return
	}
	stop := actors.AfterDone(ctx, func() { run.Cancel(context.Cause(ctx)) })
	run.loop.OnOpened(func() {
		stop()
		opened, err := run.opened(context.Background()) // without a wait
		if err != nil || opened == run {
			done(opened, err)
			return
		}
		a.rt.sys.Go("run-"+o.ID, func() { done(a.again(context.WithoutCancel(ctx), opened, o)) })
	})
}

// newRun makes a run that has not begun. Ctx is that of its start; from is the call that
// starts it, nil for a run of its own.
func (a *Agent) newRun(ctx context.Context, prompt string, o RunOptions, from *starter) (*Run, error) {
	check, err := a.checkOf(o.Output)
	if err != nil {
		return nil, err
	}
	run := &Run{id: o.ID, store: a.rt.store, onAsk: o.OnAsk, onUnknown: o.OnUnknown, tenant: o.Tenant, hash: identity(a.name, prompt, &o)}
	own := loop.Own{ID: o.ID, Schema: o.Output, Check: check,
		Origin: &loop.Origin{InputHash: run.hash.String(), Input: append(slices.Clip(o.History), llm.User(prompt))}}
	if from == nil { // that of the others is the same
		own.Origin.With = a.rt.startedWith(o.StartedWith)
	}
	return run, a.complete(ctx, run, &own, &o, from)
}

// complete gives a run its record and its loop.
func (a *Agent) complete(ctx context.Context, run *Run, own *loop.Own, o *RunOptions, from *starter) (err error) {
	rt, rec := a.rt, newRecord(run, a.rt.store, &a.rt.stalls, from)
	rec.standing.log = rt.sys.Log()
	if !rt.own && from == nil { // the runtime's own store keeps the events in memory anyway
		rec.log.Leave()
	}
	run.record, own.Sink = rec, rec
	if own.Origin == nil { // a run that goes on has no use for it
		own.Origin = new(loop.Origin)
	}
	switch {
	case from != nil:
		run.onAsk, run.onUnknown = from.by.run.onAsk, from.by.run.onUnknown
	case run.onAsk == nil:
		run.onAsk = rt.opts.OnAsk
	}
	own.Unknown = string(cmp.Or(run.onUnknown, rt.opts.OnUnknown))
	rec.asks = newAnswering(run, rt.sys)
	asked := a.asked(o)
	rec.servers = asked.servers
	newScope(run, a, from, asked).fill(own)
	if job := &o.job; job.ID != "" {
		own.Job, own.Owner, own.Epoch, own.Lease, own.Held = job.ID, job.Owner, job.Epoch, job.Lease, !o.claimed
		own.EndsJob = func(out *loop.Outcome) *store.JobUpdate {
			return job.Ends(resultOfRun(run.id, out), errorOf("", out.Err))
		}
	}
	run.trace(ctx, a, own)
	run.loop, err = a.runs.New(*own)
	return err
}

// priced finds the price of the agent's model, and refuses a limit of money where the
// price is unknown.
func (a *Agent) priced() error {
	a.pricing = a.rt.models.Pricing(a.model)
	if a.cfg.Limits.Cost == 0 {
		return nil
	}
	missing := a.pricing.Unknown(a.model.Name())
	if m := a.cfg.SummaryModel; missing == "" && m != nil {
		missing = a.rt.models.Pricing(m).Unknown(m.Name())
	}
	if missing == "" {
		return nil
	}
	return fmt.Errorf("%w: state what a million tokens cost in Options.Prices", &NoPriceError{Model: missing})
}

// Priced reports whether it is known what the agent's model costs, so that results say
// so in money.
func (a *Agent) Priced() bool { return a.pricing.Unknown(a.model.Name()) == "" }

// startsWith is the text that a run begins with.
func (a *Agent) startsWith(prompt string, input json.RawMessage) (string, error) {
	if len(input) == 0 {
		return prompt, nil
	}
	if a.input == nil {
		return "", fmt.Errorf("the agent %q takes no input: set Config.Input", a.name)
	}
	if err := a.input.Validate(input); err != nil {
		return "", fmt.Errorf("the input does not fit: %w", err)
	}
	if prompt == "" {
		return string(input), nil
	}
	return prompt + "\n\n" + string(input), nil
}

// checkTenant refuses a tenant of another runtime, and one that is closed.
func (a *Agent) checkTenant(t *Tenant) error {
	switch {
	case t == nil:
	case t.rt != a.rt:
		return errors.New("the tenant is of another runtime")
	case t.gone.Load():
		return errTenantClosed
	}
	return nil
}

// asked returns the answerers for a run with these options.
func (a *Agent) asked(o *RunOptions) asked {
	out := asked{servers: a.rt.servers, sampler: o.Sampler, roots: o.Roots}
	if o.Tenant != nil {
		out.servers = o.Tenant.servers
	}
	if s := out.sampler; s != nil && !reflect.TypeOf(s).Comparable() {
		out.sampler = &boxedSampler{s}
	}
	return out
}

// trace prepares a run to be traced. Ctx is that of its start.
func (run *Run) trace(ctx context.Context, a *Agent, own *loop.Own) {
	rt := a.rt
	if rt.opts.Tracer == nil {
		return
	}
	run.traced = &tracing{tracer: rt.opts.Tracer, log: rt.sys.Log(), ctx: context.WithoutCancel(ctx),
		about: RunTrace{ID: own.ID, Agent: a.name, Path: own.Path, Parent: own.Origin.Parent, Model: a.model.Name()}}
	own.Trace, run.record.traced = run.traced, run.traced
}
