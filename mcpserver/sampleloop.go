package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// LoopOptions changes how a [Request.SampleLoop] works; nil is the same as the zero
// value.
type LoopOptions struct {
	// MaxTurns is how often the model is asked. In the last turn it may call no more
	// (SAMP-31). Zero means 8.
	MaxTurns int
	// MaxRounds bounds the rounds of the whole call where a client of 2026-07-28 is asked,
	// those before the loop included: clients end a call after some ten (MRTR-15). A loop
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
	// is estimated, since MCP does not tell it. Zero means no bound.
	MaxTokens int
	// OnStep hears of each step before it is taken, and of each tool that has returned. It
	// must not block. Nil reports them as progress ([Request.Progress]).
	OnStep func(LoopStep)
}

// LoopStep is one step of a loop: a question to the model, a call of a tool, or the end
// of one.
type LoopStep struct {
	N    int    // counts the steps from one
	Turn int    // of the model, from one
	Tool string // that is called; "" is a question to the model
	Done bool   // the tool has returned
}

// LoopResult is how a loop has ended.
type LoopResult struct {
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
func (r *LoopResult) Text() string { return r.Answer.Content.Text() }

func (o *LoopOptions) withDefaults() (LoopOptions, error) {
	var d LoopOptions
	if o != nil {
		d = *o
	}
	if min(d.MaxTurns, d.MaxRounds, d.Parallel, d.MaxCalls, d.MaxResult, d.MaxTokens) < 0 {
		return d, errors.New("an option is negative")
	}
	d.MaxTurns, d.MaxRounds = cmp.Or(d.MaxTurns, 8), cmp.Or(d.MaxRounds, 8)
	d.Parallel, d.MaxCalls, d.MaxResult = cmp.Or(d.Parallel, 8), cmp.Or(d.MaxCalls, 64), cmp.Or(d.MaxResult, 16<<10)
	return d, nil
}

// SampleLoop asks the model p, lets it call the tools, gives it their results, and so on,
// until it answers without a call (SAMP-30):
//
//	answer, err := req.SampleLoop(ctx, "plan", p, []*mcpserver.LoopTool{weather, trains}, nil)
//
// The key tells the loop from what else the handler asks. Who answers is decided as in
// [Request.Sample], once for the loop: the client's model if it has sampling.tools, else
// [Options].Model, else the error is a [*CapabilityError]. p.Tools must be empty;
// p.ToolChoice is that of the first turn.
//
// A handler that runs again finds the turns and the tools' results as they were: no tool
// is called twice for them, with the reserve of [Once]. A tool that fails, panics or is
// unknown is a result that the model reads. When ctx ends, or the call does, so do the
// question that is open, the tools and the model; the error is then the context's cause.
// Other errors are those of Sample, and a [*budget.LimitError] where an option's bound
// was reached.
func (q *Request) SampleLoop(ctx context.Context, key string, p *mcp.CreateMessageParams, tools []*LoopTool, o *LoopOptions) (*LoopResult, error) {
	l, err := q.newLoop(ctx, key, p, tools, o)
	if err != nil {
		return nil, err
	}
	run, err := loop.New(l.config())
	if err != nil {
		return nil, fmt.Errorf("starting the loop %q: %w", key, err)
	}
	return l.carry(ctx, run)
}

// sampleLoop is a loop that a handler waits for.
type sampleLoop struct {
	request *Request
	run     *handlerCall
	key     string
	params  mcp.CreateMessageParams // of the first turn
	tools   []*LoopTool
	opts    LoopOptions
	plan    loopPlan
	values  context.Context // the handler's: for the values in it

	// Of the turn that the model is asked; each one comes after the other.
	asked  []mcp.SamplingMessage
	said   []mcp.Contents // by the model, as it has said it
	answer *mcp.CreateMessageResult
}

// loopPlan is decided once for a loop.
type loopPlan struct {
	Own   bool `json:"own,omitzero"`
	Turns int  `json:"turns"`
}

func (q *Request) newLoop(ctx context.Context, key string, p *mcp.CreateMessageParams, tools []*LoopTool, o *LoopOptions) (*sampleLoop, error) {
	n := q.r.invocation.Load()
	if _, completes := q.r.job().(*completing); completes || n == nil { // MRTR-01
		return nil, errors.New("mcpserver: this handler can not ask")
	}
	if key == "" || len(key) > maxKey-len("/999") {
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
	l := &sampleLoop{request: q, run: n, key: key, params: *p, tools: tools, opts: opts, values: ctx}
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
	l.plan, _, err = onceIn(ctx, n, planKey+key, l.makePlan)
	return l, err
}

// makePlan decides who answers, and how often. A client that can not be asked is found
// out before a tool has run.
func (l *sampleLoop) makePlan(ctx context.Context) (loopPlan, error) {
	live := l.run.current()
	one := SampleQuestion(l.key, &l.params)
	plan := loopPlan{Turns: l.opts.MaxTurns}
	if !one.clientAnswers(live.capabilities()) {
		if plan.Own = l.run.server.model != nil; !plan.Own {
			return plan, missing(live.capabilities(), []*Question{one})
		}
	}
	if plan.Own || live.version.Era() == mcp.EraLegacy || live.task != nil {
		return plan, nil
	}
	leave, err := l.run.enter(ctx) // the rounds are his who asks
	if err != nil {
		return plan, err
	}
	defer leave()
	plan.Turns = max(1, min(plan.Turns, l.opts.MaxRounds-l.run.dialogue().round))
	return plan, nil
}

// never is longer than any call takes: what bounds a loop is its call.
const never = 10 * 365 * 24 * time.Hour

// config is what the loop is for the actor that carries it out.
func (l *sampleLoop) config() *loop.Config {
	s := l.run.server
	input := make([]llm.Message, len(l.params.Messages))
	for i, m := range l.params.Messages {
		input[i] = llm.Message{Role: m.Role, Content: m.Content}
	}
	return &loop.Config{
		ID: strconv.FormatUint(s.loops.Add(1), 36), Kind: actors.KindLoop, Nonce: l.key,
		System: l.params.SystemPrompt, Input: input, MaxTokens: int(l.params.MaxTokens), Model: l, Tools: l,
		Gate: allow, Sink: &loopSteps{loop: l, names: make(map[string]string)},
		// Equal calls are not told apart from a loop that turns on the spot: its turns are bounded.
		Limits:      loop.Limits{Steps: l.plan.Turns, Tokens: l.opts.MaxTokens, ToolCalls: l.opts.MaxCalls, Wall: never},
		LastAnswers: true, Repeats: -1, Parallel: l.opts.Parallel, MaxResult: l.opts.MaxResult + maxNote, Grace: s.opts.Grace,
	}
}

// startLoop is a message to the server's actor, which is the parent of all loops.
type startLoop struct {
	run   *loop.Run
	reply *actors.Reply[struct{}]
}

func (m *startLoop) start(c *actors.Context) {
	err := m.run.Start(c)
	if !m.reply.Complete(struct{}{}, err) && err == nil { // nobody waits for it any more
		m.run.Cancel(actors.ErrStopped)
	}
}

// carry runs the loop until its outcome.
func (l *sampleLoop) carry(ctx context.Context, run *loop.Run) (*LoopResult, error) {
	n := l.run
	ctx, stop := n.within(ctx)
	defer stop()
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	_, err := actors.Ask(ctx, n.server.ref, func(reply *actors.Reply[struct{}]) any { return &startLoop{run, reply} })
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("starting the loop %q: %w", l.key, err)
	}
	select {
	case <-run.Ended():
	case <-ctx.Done():
		run.Cancel(context.Cause(ctx))
		<-run.Ended() // within the grace
	}
	<-run.Stopped()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return l.result(run.Outcome())
}

// result is what the handler gets.
func (l *sampleLoop) result(out loop.Outcome) (*LoopResult, error) {
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
	return &LoopResult{
		Answer: l.answer, Messages: append(slices.Clip(l.asked), answer), Turns: out.Steps, Calls: out.ToolCalls,
		Usage: llm.Usage{Input: out.Usage.Input, Output: out.Usage.Output, Estimated: out.Usage.Estimated}, Own: l.plan.Own,
	}, nil
}

// errLoopDied ends a loop whose actor has failed.
var errLoopDied = errors.New("the loop has failed: internal error")
