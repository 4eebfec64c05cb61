package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// Config defines an agent; nil is the same as the zero value.
type Config struct {
	// Instructions are the system text. Empty means none.
	Instructions string
	// Model is asked in place of the runtime's.
	Model llm.Model
	// Servers names those whose tools the agent has. Nil means all of the runtime's,
	// an empty list none.
	Servers []string
	// Tools are functions of the program, beside those of the runtime.
	Tools  []Tool
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
	// Description says in a sentence what the agent is good for, to the models of
	// agents that have it as a tool or hand over to it.
	Description string
	// Input is the JSON schema of what the agent takes as a tool, an object; the prompt
	// is then that object. Empty means a prompt. See [Agent.AsTool].
	Input json.RawMessage
	// Guards look at what goes in and out of a run, in this order.
	Guards []Guard
	// StopWhen ends a run after a turn that the model has not ended it with. The result
	// has what the model said in that turn, and [StopMet]. The zero value never does.
	StopWhen StopCondition
	// Repeats is in how many turns in a row the model may call the same tools with the
	// same arguments, and no others, before it is told so; at twice as often the run fails
	// with a [*LoopError]. Zero means 3, below zero switches it off.
	Repeats int
	// Context is how many tokens the model takes, input and output together. A
	// conversation that becomes larger is cut: the instructions, the first message and
	// the newest turn stay; results of tools are left out first, then whole turns, the
	// oldest before others. Events and journal have all of it, and a [HistoryCut] says
	// what the model does not see any more. Zero means what the model says of itself by
	// a method ContextLength() int, or else that nothing is cut before the model
	// refuses a turn as too long; then half of it is, once.
	Context int
	// Summarise says in a few words what is cut, in place of what it has said before
	// ("" the first time): messages as they were. What it spends is its own. An error
	// leaves a mark without words. Nil lets SummaryModel do it.
	Summarise func(ctx context.Context, before string, dropped []llm.Message) (string, error)
	// SummaryModel sums up what is cut, in 512 tokens at the most, on the account of the
	// run; where that has no room for it there is a mark without words. Nil, without
	// Summarise, leaves only marks.
	SummaryModel llm.Model
	// Output is the JSON schema the answer must fit. A model that misses it is told
	// so, twice at the most. Empty means any text.
	Output json.RawMessage
}

// RunOptions changes one run; nil is the same as the zero value.
type RunOptions struct {
	// ID names the run, at most 128 printable characters. Empty makes one up.
	ID string
	// Output replaces the agent's.
	Output json.RawMessage
}

// Agent is what runs are made of. It does not change.
type Agent struct {
	rt      *Runtime
	name    string
	cfg     Config
	model   llm.Model
	pricing *loop.Pricing // nil where nobody knows what the model costs
	tools   []loop.Tool
	team    map[string]Tool // those of them that are agents, by name
	hash    string
}

// newAgent checks a definition.
func newAgent(rt *Runtime, name string, cfg *Config) (*Agent, error) {
	a := &Agent{rt: rt, name: name}
	if cfg != nil {
		a.cfg = *cfg
	}
	a.cfg.Servers, a.cfg.Guards = slices.Clone(a.cfg.Servers), slices.Clone(a.cfg.Guards)
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
	if m, ok := a.model.(interface{ ContextLength() int }); ok && a.cfg.Context == 0 {
		a.cfg.Context = max(m.ContextLength(), 0)
	}
	a.model = a.rt.model(a.model)
	if err := a.priced(); err != nil {
		return err
	}
	for _, name := range a.cfg.Servers {
		if !a.rt.servers.has(name) {
			return fmt.Errorf("there is no server %q; there are %q", name, a.rt.servers.names())
		}
	}
	if err := loop.Limits(a.cfg.Limits).Validate(); err != nil {
		return err
	}
	if a.cfg.Parallel < 0 || a.cfg.MaxResult < 0 || a.cfg.MaxTokens < 0 || a.cfg.AskExpiry < 0 {
		return errors.New("a Parallel, MaxResult, MaxTokens or AskExpiry below zero: it must not be negative, zero means its default")
	}
	if _, err := checkAnswer(a.cfg.Output); err != nil {
		return err
	}
	if a.cfg.Summarise == nil && a.cfg.SummaryModel != nil {
		a.cfg.Summarise = a.rt.summariser(a.cfg.SummaryModel)
	}
	if a.cfg.Approve == nil {
		a.cfg.Approve = a.rt.opts.Approve
	}
	var err error
	if a.tools, err = compileAll(a.rt.opts.Tools, a.cfg.Tools); err != nil {
		return err
	}
	if err := a.checkTeam(); err != nil {
		return err
	}
	a.hash = a.configHash()
	return nil
}

// configHash identifies what a resume would have to find unchanged.
func (a *Agent) configHash() string {
	tools := make([]string, len(a.tools))
	for i, t := range a.tools {
		tools[i] = t.Hash
	}
	return hashOf(map[string]any{
		"instructions": a.cfg.Instructions, "model": a.model.Name(), "servers": a.cfg.Servers, "all": a.cfg.Servers == nil,
		"tools": tools, "output": a.cfg.Output,
	})
}

// Name returns the agent's name.
func (a *Agent) Name() string { return a.name }

// Run starts a run and waits for its result. If ctx ends, the run is cancelled, and
// the result says what it has cost.
func (a *Agent) Run(ctx context.Context, prompt string, opts *RunOptions) (*Result, error) {
	run, err := a.Start(ctx, prompt, opts)
	if err != nil {
		return nil, err
	}
	if run.loop == nil {
		return run.Wait(ctx) // another process runs it, or has
	}
	stop := context.AfterFunc(ctx, func() { run.Cancel(context.Cause(ctx)) })
	defer stop()
	// The run ends a bounded time after its cancel, and says then what it has cost.
	return run.Wait(context.WithoutCancel(ctx))
}

// Start begins a run. ctx covers the start only: the run then lives until it ends,
// [Run.Cancel], or [Runtime.Close].
//
// If there is a run of that ID already, in this process or in the store, it is
// returned as it stands if it was started by the same agent's name with the same
// prompt and output; else the error is [ErrRunExists].
func (a *Agent) Start(ctx context.Context, prompt string, opts *RunOptions) (*Run, error) {
	var o RunOptions
	if opts != nil {
		o = *opts
	}
	if o.ID == "" {
		o.ID = uuid.NewString()
	}
	if err := store.CheckID("run ID", o.ID); err != nil {
		return nil, fmt.Errorf("starting a run: %w", err)
	}
	if len(o.Output) == 0 {
		o.Output = a.cfg.Output
	}
	run, err := a.newRun(prompt, o, nil)
	if err != nil {
		return nil, fmt.Errorf("starting run %q: %w", o.ID, err)
	}
	started, err := a.rt.start(ctx, run)
	if err != nil {
		return nil, fmt.Errorf("starting run %q: %w", o.ID, err)
	}
	return started, nil
}

// newRun makes a run that has not begun.
// From is the call that starts it; nil for a run of its own.
func (a *Agent) newRun(prompt string, o RunOptions, from *starter) (*Run, error) {
	check, err := checkAnswer(o.Output)
	if err != nil {
		return nil, err
	}
	rt, rec := a.rt, newRecord(o.ID, a.rt.store, from)
	run := &Run{id: o.ID, store: rt.store, record: rec,
		hash: hashOf([]any{a.name, prompt, o.Output})}
	cfg := &loop.Config{
		ID: o.ID, Agent: a.name, InputHash: run.hash, Hash: a.hash,
		System: a.cfg.Instructions, Input: []llm.Message{llm.User(prompt)},
		Model:     a.model,
		MaxTokens: a.cfg.MaxTokens, Temperature: a.cfg.Temperature,
		Schema: o.Output, Check: check,
		Journal: rt.store, Owner: rt.owner, Sink: rec,
		Limits: loop.Limits(a.cfg.Limits), Pricing: a.pricing, Parallel: a.cfg.Parallel, MaxResult: a.cfg.MaxResult, AskExpiry: a.cfg.AskExpiry,
		Grace: rt.opts.Grace,
	}
	newScope(run, a, from).fill(cfg)
	run.loop, err = loop.New(cfg)
	return run, err
}
