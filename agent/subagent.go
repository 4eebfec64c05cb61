package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/agent/internal/claims"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/schema"
	"github.com/troupe-dev/troupe/mcp"
)

// maxDepth bounds how many levels of sub-agents may be below a run, whatever its
// limits say: questions name them all.
const maxDepth = 16

// MetaRun is the key in the _meta of a sub-agent's result whose value is the ID of its
// run.
const MetaRun = "dev.troupe/run"

// MetaIncomplete is the key in the _meta of the result of an agent that is exposed as a tool, whose value
// is its [Result].Incomplete. It is absent of a whole answer.
const MetaIncomplete = "dev.troupe/incomplete"

const (
	promptSchema  = `{"type":"object","properties":{"prompt":{"type":"string","description":"what the agent is to do, with all that it has to know: it sees nothing else of this conversation"}},"required":["prompt"],"additionalProperties":false}`
	handOffSchema = `{"type":"object","properties":{"reason":{"type":"string","description":"why the other agent is to go on"}},"additionalProperties":false}`
)

// AsTool returns a tool whose calls each run the agent: with a prompt, or with the object
// of [Config].Input. An empty description is the agent's own. Calls of one turn
// run side by side.
//
// Such a run has an ID, a journal and an outcome of its own; [ToolStarted].Run, the
// store's Parent and the result's _meta name it, and its events are [Nested] in those of
// the run that has started it. Its costs are reserved of that run too; it ends with
// it, at the latest when that run's wall time does, and is cancelled with it. While it
// waits for a human the clocks of all runs above stand still. It has the agent's own
// limits, policy and guards. Of levels below each other there may be [Limits].Depth, and
// never more than 16.
//
// The answer is the tool's result. A run without one is a result with isError and the
// reason, and no failure of the run that has started it.
func (a *Agent) AsTool(name, description string) Tool {
	if description == "" {
		description = a.cfg.Description
	}
	t := Tool{Name: name, Description: description, InputSchema: a.cfg.Input, sub: a}
	if len(t.InputSchema) == 0 {
		t.InputSchema = json.RawMessage(promptSchema)
	}
	return t
}

// HandOff returns tools with which an agent hands the conversation over, one for each of
// the agents, named "transfer_to_" and the agent's name in letters that tools may have.
// The other agent goes on with the same conversation in the same run, once the turn is
// over: its instructions, model, tools, servers, policy, guards, conditions and context
// take the place of the first one's. Limits, output and history stay the run's. A
// [HandedOff] event reports it. It happens at most 8 times in a run.
func HandOff(to ...*Agent) []Tool {
	tools := make([]Tool, len(to))
	for i, a := range to {
		text := fmt.Sprintf("Hands this conversation over to the agent %q, who goes on with it in your place.", a.name)
		if a.cfg.Description != "" {
			text += " " + a.cfg.Description
		}
		tools[i] = Tool{Name: transferName(a.name), Description: text, InputSchema: json.RawMessage(handOffSchema), handOff: a}
	}
	return tools
}

// transferName makes a tool's name of an agent's.
func transferName(agent string) string {
	name := strings.Map(func(c rune) rune {
		if checkToolName(string(c)) != nil {
			return '_'
		}
		return c
	}, "transfer_to_"+agent)
	return name[:min(len(name), 64)]
}

// checkTeam refuses tools that cannot work between agents.
func (a *Agent) checkTeam() error {
	if len(a.cfg.Input) > 0 {
		var err error
		if a.input, err = schema.Compile(a.cfg.Input, nil); err != nil {
			return fmt.Errorf("the schema of the input: %w", err)
		}
	}
	a.team = make(map[string]Tool)
	for _, t := range slices.Concat(a.rt.opts.Tools, a.cfg.Tools) {
		if t.sub != nil || t.handOff != nil {
			a.team[t.Name] = t
		}
		for _, other := range []*Agent{t.sub, t.handOff} {
			if other != nil && other.rt != a.rt {
				return fmt.Errorf("tool %q is an agent of another runtime", t.Name)
			}
		}
	}
	return nil
}

// scope is the part of a run that it hands down to the agents that work in it.
type scope struct {
	asked
	run   *Run
	agent *Agent
	from  *starter // the call that has started the run; nil for a run of its own
	path  []string
	depth int // levels above
	taint *guard.TaintState
	grace time.Duration
}

// starter is a call of a run that starts another.
type starter struct {
	by   *scope
	call *loop.Call
}

func newScope(run *Run, a *Agent, from *starter, as asked) *scope {
	s := &scope{asked: as, run: run, agent: a, from: from, path: a.path, taint: new(guard.TaintState), grace: a.rt.opts.Grace}
	if from != nil {
		up := from.by
		s.asked = up.asked
		s.path, s.depth, s.taint = append(slices.Clone(up.path), a.name), up.depth+1, up.taint
		// A run ends within two graces, and so within the one of its call.
		s.grace = max(up.grace/2, time.Millisecond)
	}
	return s
}

// fill completes the part of the configuration that is the run's own.
func (s *scope) fill(own *loop.Own) {
	own.Tools, own.Gate = s.tools(), s.gate()
	own.Path, own.Taint, own.Grace = s.path, s.taint, s.grace
	if s.from == nil {
		return
	}
	s.from.by.run.loop.Below(own)
	own.Origin.Parent, own.Origin.Budget = s.from.by.run.id, s.from.call.Budget()
	own.Wall = s.agent.cfg.Limits.Wall
	if left := s.from.call.Left(); own.Wall == 0 || own.Wall > left {
		own.Wall = max(left, time.Millisecond)
	}
}

// tools are the tools that the agent has in this run.
func (s *scope) tools() loop.Tools {
	return &toolbox{asked: s.asked, agent: s.agent, own: s.bind(s.agent.tools)}
}

// gate decides on the calls of this run.
func (s *scope) gate() func(context.Context, *loop.Tool, json.RawMessage) guard.Verdict {
	return gate(s.agent.name, s.agent.cfg.Approve, s.taint)
}

// bind makes the tools that are agents those of this run.
func (s *scope) bind(tools []loop.Tool) []loop.Tool {
	if len(s.agent.team) == 0 {
		return tools
	}
	tools = slices.Clone(tools)
	for i := range tools {
		t, member := &tools[i], s.agent.team[tools[i].Name]
		switch {
		case member.sub != nil:
			t.Child = childID
			t.Do = func(ctx context.Context, call *loop.Call) (*mcp.CallToolResult, error) {
				return s.runChild(ctx, member.sub, call)
			}
		case member.handOff != nil:
			next := *s
			next.agent, next.path = member.handOff, append(slices.Clone(s.path), member.handOff.name)
			t.HandOff = func() *loop.Config {
				cfg := next.agent.character()
				cfg.Tools, cfg.Gate = next.tools(), next.gate()
				return cfg
			}
			t.Do = func(context.Context, *loop.Call) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(fmt.Sprintf(
					"The conversation was handed over. You are the agent %q now: go on with it.", next.agent.name))}}, nil
			}
		}
	}
	return tools
}

// childID is the ID of the run that a call starts: the same if the call is ever
// repeated.
func childID(key string) string { return "sub-" + key }

// runChild makes a call that is a run of another agent.
func (s *scope) runChild(ctx context.Context, a *Agent, call *loop.Call) (*mcp.CallToolResult, error) {
	if s.depth+1 > maxDepth {
		return nil, fmt.Errorf("agents may call each other %d levels deep at the most", maxDepth)
	}
	prompt, err := promptOfCall(a, call.Arguments)
	if err != nil {
		return nil, err
	}
	run, err := s.childRun(ctx, a, prompt, call)
	if err != nil {
		return nil, err
	}
	s.run.record.log.Adopt(call.Key, run.record)
	if ctx.Err() != nil && !run.resumes { // one that goes on is ended
		return nil, context.Cause(ctx)
	}
	// From here on it is waited for: a run ends a bounded time after its cancel.
	ended := context.WithoutCancel(ctx)
	if run, err = a.rt.begin(ended, run); err != nil {
		return nil, fmt.Errorf("starting the agent %q: %w", a.name, err)
	}
	stop := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); errors.Is(cause, ErrSuspended) {
			run.loop.BeginSuspend()
		} else {
			run.Cancel(cause)
		}
	})
	defer stop()
	opened, err := run.opened(ended)
	if err != nil {
		return nil, fmt.Errorf("starting the agent %q: %w", a.name, err)
	}
	if opened.loop == nil { // another process runs it
		ended = ctx
	}
	res, err := opened.Wait(ended)
	if away, ok := errors.AsType[*loop.OutageError](err); ok { // and so does this run
		return nil, away
	}
	if refused, ok := errors.AsType[*loop.RefusedError](err); ok { // likewise
		return nil, refused
	}
	if errors.Is(err, ErrLeft) || errors.Is(err, ErrSuspended) && ctx.Err() != nil { // with the run that has started it
		return nil, err
	}
	return childResult(a, opened.id, res, err)
}

// childRun is the run of a call: one that a process has left goes on.
func (s *scope) childRun(ctx context.Context, a *Agent, prompt string, call *loop.Call) (*Run, error) {
	id, from := childID(call.Key), &starter{s, call}
	if s.run.below != nil {
		if left, ok := s.run.below.LoadAndDelete(id); ok {
			run, err := a.resumed(ctx, left.(*claims.Tree), ResumeOptions{Tenant: s.run.tenant}, from)
			if err != nil {
				err = &claims.Refusal{Run: id, Why: err.Error()}
			}
			return run, err
		}
	}
	return a.newRun(ctx, prompt, RunOptions{ID: id, Output: a.cfg.Output, Tenant: s.run.tenant}, from)
}

// promptOfCall is the text that a sub-agent begins with.
func promptOfCall(a *Agent, args json.RawMessage) (string, error) {
	if len(a.cfg.Input) > 0 {
		return string(args), nil
	}
	var in struct {
		Prompt string `json:"prompt"`
	}
	if err := jsonx.Unmarshal(args, &in); err != nil {
		return "", fmt.Errorf("reading the arguments: %w", err)
	}
	return in.Prompt, nil
}

// childResult is the result of a sub-agent's run as the model sees it.
func childResult(a *Agent, id string, res *Result, err error) (*mcp.CallToolResult, error) {
	out := new(mcp.CallToolResult)
	if err != nil {
		text := fmt.Sprintf("the agent %q has no answer: %v", a.name, errors.Unwrap(err))
		if res != nil && res.Text != "" {
			text += "\nSo far it has: " + res.Text
		}
		out = mcp.ErrorResult("%s", text)
	} else {
		out.Content = mcp.Contents{mcp.Text(res.Text)}
		if res.Incomplete != "" {
			out.Content = append(out.Content, mcp.Text("["+res.Incomplete.Why()+"]"))
		}
		if len(res.Structured) > 0 && res.Structured[0] == '{' {
			out.StructuredContent = res.Structured
		}
	}
	out.Meta = make(mcp.Meta)
	if err := out.Meta.Set(MetaRun, id); err != nil {
		return nil, err
	}
	return out, nil
}

// hold stops the clocks from this call upward, until the function is called.
func (f *starter) hold() func() {
	var all []func()
	for ; f != nil; f = f.by.from {
		all = append(all, f.call.Hold())
	}
	return func() {
		for _, release := range all {
			release()
		}
	}
}
