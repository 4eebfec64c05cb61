package sampling

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/internal/asking"
)

// Options changes how a [Loop] works; nil is the same as the zero value.
type Options struct {
	// MaxTurns is how often the model is asked. In the last turn it may call no more.
	// Zero means 8.
	MaxTurns int
	// MaxRounds bounds the rounds of the whole call where a client of 2026-07-28 is asked,
	// those before the loop included: clients end a call after some ten. A loop
	// has at least one turn. Zero means 8.
	MaxRounds int
	// Parallel is how many tools run at once. Zero means 8.
	Parallel int
	// MaxCalls bounds the calls of tools; beyond it the loop ends with an error. Zero
	// means 64.
	MaxCalls int
	// MaxResult bounds what the model sees of one tool's result, in bytes of text. Longer
	// ones are cut, with a note. Zero means 16 KiB.
	MaxResult int
	// MaxTokens bounds input and output of all turns together. What a client's model costs
	// is estimated, since MCP does not report it. Zero means no bound.
	MaxTokens int
	// OnStep is called before each step, and after each tool that has returned. It must not
	// block. Nil reports them as progress ([mcpserver.Request.Progress]).
	OnStep func(Step)
}

// Step is one step of a loop: a question to the model, a call of a tool, or the end
// of one.
type Step struct {
	N    int    // counts the steps from one
	Turn int    // of the model, from one
	Tool string // that is called; "" is a question to the model
	Done bool   // the tool has returned
}

// Result is how a loop has ended.
type Result struct {
	// Answer is the model's last, without calls.
	Answer *mcp.CreateMessageResult
	// Messages are the whole conversation, Answer last: calls and results balance, so that
	// another question can go on from it.
	Messages []mcp.SamplingMessage
	Turns    int
	Calls    int // of tools, refused ones left out
	// Usage is what the turns have cost, estimated where the client's model answers.
	Usage llm.Usage
	// Own says that the server's own model has answered.
	Own bool
}

// Text returns the text of the answer.
func (r *Result) Text() string { return r.Answer.Content.Text() }

func (o *Options) withDefaults() (Options, error) {
	d := *cmp.Or(o, new(Options))
	if min(d.MaxTurns, d.MaxRounds, d.Parallel, d.MaxCalls, d.MaxResult, d.MaxTokens) < 0 {
		return d, errors.New("an option is negative")
	}
	d.MaxTurns, d.MaxRounds = cmp.Or(d.MaxTurns, 8), cmp.Or(d.MaxRounds, 8)
	d.Parallel, d.MaxCalls, d.MaxResult = cmp.Or(d.Parallel, 8), cmp.Or(d.MaxCalls, 64), cmp.Or(d.MaxResult, 16<<10)
	return d, nil
}

// Loop asks the model p, lets it call the tools, gives it their results, and so on,
// until it answers without a call:
//
//	answer, err := sampling.Loop(ctx, req, "plan", p, []*sampling.Tool{weather, trains}, nil)
//
// The key tells the loop from what else the handler asks. [mcpserver.Request.Sample] says
// which model answers; it is decided once for the loop: the client's if it has
// sampling.tools, else [mcpserver.Options].Model, else the error is a
// [*mcpserver.CapabilityError]. p.Tools must be empty; p.ToolChoice is that of the first
// turn.
//
// A handler that runs again finds the turns and the tools' results as they were: no tool
// is called twice for them, with the reserve of [mcpserver.Once]. A tool that fails, panics
// or is unknown is a result that the model reads. When ctx ends, or the call does, so do the
// question that is open, the tools and the model; the error is then the context's cause.
// Other errors are those of Sample, and a [*budget.LimitError] where an option's bound
// was reached.
func Loop(ctx context.Context, req mcpserver.Requester, key string, p *mcp.CreateMessageParams, tools []*Tool, o *Options) (*Result, error) {
	l, err := newRun(ctx, req, key, p, tools, o)
	if err != nil {
		return nil, err
	}
	cfg := l.config()
	made, err := loop.NewTemplate(cfg)
	if err != nil {
		return nil, fmt.Errorf("starting the loop %q: %w", key, err)
	}
	actor, err := made.New(cfg.Own)
	if err != nil {
		return nil, fmt.Errorf("starting the loop %q: %w", key, err)
	}
	return l.carry(ctx, actor)
}

// run is a loop that a handler waits for.
type run struct {
	handler asking.Handler
	// Of the handler's request, which mcpserver has behind the type that it gives.
	ask      func(ctx context.Context, questions ...*mcpserver.Question) error
	progress func(progress, total float64, message string)

	key    string
	params mcp.CreateMessageParams // of the first turn
	tools  []*Tool
	opts   Options
	plan   plan
	values context.Context // the handler's: for the values in it

	// Of the turn that the model is asked; each one comes after the other.
	asked  []mcp.SamplingMessage
	said   []mcp.Contents // by the model, as it has said it
	answer *mcp.CreateMessageResult
}

// plan is decided once for a loop.
type plan struct {
	Own   bool `json:"own,omitzero"`
	Turns int  `json:"turns"`
}

func newRun(ctx context.Context, req mcpserver.Requester, key string, p *mcp.CreateMessageParams, tools []*Tool, o *Options) (*run, error) {
	handler, err := asking.Of(req)
	if err != nil { // MRTR-01
		return nil, err
	}
	if key == "" || len(key) > asking.MaxKey-len("/999") {
		return nil, errors.New("mcpserver: a loop needs a key")
	}
	opts, err := o.withDefaults()
	switch {
	case err != nil:
	case p == nil:
		err = errors.New("there is no question")
	case len(p.Tools) > 0:
		err = errors.New("its tools are not those of the question")
	}
	if err != nil {
		return nil, fmt.Errorf("the loop %q: %w", key, err)
	}
	client := req.(interface {
		Ask(ctx context.Context, questions ...*mcpserver.Question) error
		Progress(progress, total float64, message string)
	})
	l := &run{handler: handler, ask: client.Ask, progress: client.Progress, key: key, params: *p, tools: tools, opts: opts, values: ctx}
	l.params.Tools = nil // what is appended must not be in the caller's array
	for _, t := range tools {
		if err := t.Err(); err != nil {
			return nil, fmt.Errorf("the loop %q: %w", key, err)
		}
		if slices.ContainsFunc(l.params.Tools, func(other mcp.Tool) bool { return other.Name == t.def.Name }) {
			return nil, fmt.Errorf("the loop %q: two tools %q", key, t.def.Name)
		}
		l.params.Tools = append(l.params.Tools, *t.def)
	}
	l.plan, _, err = once(ctx, handler, planKey+key, l.makePlan)
	return l, err
}

// makePlan decides which model answers, and how often. A client without what a question
// needs is refused before a tool has run.
func (l *run) makePlan(ctx context.Context) (plan, error) {
	made := plan{Turns: l.opts.MaxTurns}
	if !l.handler.HasModel(&l.params) {
		if made.Own = l.handler.Model() != nil; !made.Own {
			return made, l.handler.Missing(&l.params)
		}
		return made, nil
	}
	turns, err := l.handler.Turns(ctx, made.Turns, l.opts.MaxRounds)
	made.Turns = turns
	return made, err
}

// never is longer than any call takes: what bounds a loop is its call.
const never = 10 * 365 * 24 * time.Hour

// config is what the loop is for the actor that carries it out.
func (l *run) config() *loop.Config {
	input := make([]llm.Message, len(l.params.Messages))
	for i, m := range l.params.Messages {
		input[i] = llm.Message{Role: m.Role, Content: m.Content}
	}
	return &loop.Config{
		Own: loop.Own{ID: l.handler.LoopID(), Nonce: l.key, Origin: &loop.Origin{Input: input}, Tools: l, Gate: allow,
			Sink: &steps{loop: l, names: make(map[string]string)}, Grace: l.handler.Grace()},
		Kind: actors.KindLoop, System: l.params.SystemPrompt, MaxTokens: int(l.params.MaxTokens), Model: l,
		// Equal calls are not told apart from a loop that turns on the spot: its turns are bounded.
		Limits:      loop.Limits{Steps: l.plan.Turns, Tokens: l.opts.MaxTokens, ToolCalls: l.opts.MaxCalls, Wall: never},
		LastAnswers: true, Repeats: -1, Parallel: l.opts.Parallel, MaxResult: l.opts.MaxResult + maxNote,
	}
}

// carry runs the loop until its outcome.
func (l *run) carry(ctx context.Context, actor *loop.Run) (*Result, error) {
	ctx, stop := l.handler.Within(ctx)
	defer stop()
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if err := l.handler.Start(ctx, actor.Start, actor.Cancel); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("starting the loop %q: %w", l.key, err)
	}
	select {
	case <-actor.Ended():
	case <-ctx.Done():
		actor.Cancel(context.Cause(ctx))
		<-actor.Ended() // within the grace
	}
	<-actor.Stopped()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return l.result(actor.Outcome())
}

// result is what the handler gets.
func (l *run) result(out loop.Outcome) (*Result, error) {
	if out.Err != nil {
		if asked, ok := errors.AsType[*turnError](out.Err); ok {
			return nil, asked.err
		}
		if _, died := errors.AsType[*actors.Failure](out.Err); died { // what it says is in the log
			return nil, errLoopDied
		}
		return nil, fmt.Errorf("the loop %q: %w", l.key, out.Err)
	}
	answer := mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: l.answer.Content}
	return &Result{
		Answer: l.answer, Messages: append(slices.Clip(l.asked), answer), Turns: out.Steps, Calls: out.ToolCalls,
		Usage: llm.Usage{Input: out.Usage.Input, Output: out.Usage.Output, Estimated: out.Usage.Estimated}, Own: l.plan.Own,
	}, nil
}

// errLoopDied ends a loop whose actor has failed.
var errLoopDied = errors.New("the loop has failed: internal error")

// Keys of the records of a loop, apart from those of handlers.
const (
	planKey = "\x00plan:"
	callKey = "\x00call:"
)

// once does f once for the key. Done says that it was done before.
func once[T any](ctx context.Context, h asking.Handler, key string, f func(ctx context.Context) (T, error)) (value T, done bool, err error) {
	raw, done, err := h.Once(ctx, key, func(ctx context.Context) (json.RawMessage, error) {
		made, err := f(ctx)
		if err != nil {
			return nil, err
		}
		return jsonx.Marshal(made)
	})
	if err == nil {
		err = jsonx.Unmarshal(raw, &value)
	}
	return value, done, err
}
