package expose

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

const promptSchema = `{"type":"object","properties":{"prompt":{"type":"string","description":"What the agent is to do, with all that it has to know: it sees nothing else of the conversation."}},"required":["prompt"],"additionalProperties":false}`

// taskAfter is how long a run may take before its call becomes a task, where the client
// takes tasks: a short one is answered at once. taskTTL is how long a task is kept.
const (
	taskAfter = 3 * time.Second
	taskTTL   = 30 * time.Minute
)

// toolName makes a tool's name of an agent's.
func toolName(agent string) string {
	name := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-', c == '.':
			return c
		}
		return '_'
	}, agent)
	return name[:min(len(name), 64)]
}

// taskOptions lets runs become tasks when they take long, and calls of servers' tools that
// may be tasks: which there are is known only after a client was told what there can be.
func (f *Front) taskOptions() *mcpserver.TaskOptions {
	var o mcpserver.TaskOptions
	if f.opts.Server.Tasks != nil {
		o = *f.opts.Server.Tasks
	}
	if len(f.opts.Agents) == 0 && !f.opts.Gateway {
		return f.opts.Server.Tasks
	}
	policies := make(map[string]mcpserver.TaskPolicy, len(o.Tools)+len(f.opts.Agents))
	for name, p := range o.Tools {
		policies[name] = p
	}
	for _, a := range f.opts.Agents {
		if _, set := policies[toolName(a.Name())]; !set {
			policies[toolName(a.Name())] = mcpserver.TaskPolicy{ByHandler: true, TTL: taskTTL}
		}
	}
	o.Tools = policies
	return &o
}

// offer adds an agent to the upstream's server: as a tool, its instructions as a prompt,
// and the template of its runs.
func (u *upstream) offer(a *agent.Agent) error {
	cfg, name := a.Config(), toolName(a.Name())
	def := &mcp.Tool{
		Name: name, Description: cfg.Description, InputSchema: cfg.Input,
		Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskOptional},
	}
	if def.Description == "" {
		def.Description = fmt.Sprintf("Lets the agent %q do what the prompt says.", a.Name())
	}
	if len(def.InputSchema) == 0 {
		def.InputSchema = json.RawMessage(promptSchema)
	}
	if isObject(cfg.Output) {
		def.OutputSchema = cfg.Output
	}
	err := mcpserver.AddTool(u.server, def, func(ctx context.Context, req *mcpserver.ToolRequest, in json.RawMessage) (*mcp.CallToolResult, error) {
		return u.call(ctx, req, a, in)
	})
	if err != nil || cfg.Instructions == "" {
		return err
	}
	return mcpserver.AddPromptFunc(u.server, &mcp.Prompt{Name: name, Title: a.Name(), Description: def.Description,
		Arguments: []mcp.PromptArgument{{Name: "prompt", Description: "What is to be done."}}},
		func(_ context.Context, in map[string]string) (*mcp.GetPromptResult, error) {
			return instructions(cfg.Instructions, in["prompt"]), nil
		})
}

// instructions are an agent's, and what it is to do, as a prompt.
func instructions(text, prompt string) *mcp.GetPromptResult {
	r := &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: &mcp.TextContent{Text: text}}}}
	if prompt != "" {
		r.Messages = append(r.Messages, mcp.PromptMessage{Role: mcp.RoleUser, Content: &mcp.TextContent{Text: prompt}})
	}
	return r
}

// isObject reports whether a schema is one of objects, which alone can be a tool's output
// in all revisions.
func isObject(schema json.RawMessage) bool {
	var root struct {
		Type string                 `json:"type"`
		Rest map[string]jsonx.Value `json:",inline,embed"`
	}
	return len(schema) > 0 && jsonx.Unmarshal(schema, &root) == nil && root.Type == "object"
}

// call runs the agent for a call of its tool.
func (u *upstream) call(ctx context.Context, req *mcpserver.ToolRequest, a *agent.Agent, in json.RawMessage) (*mcp.CallToolResult, error) {
	res, err := runErrand(ctx, u, req, func(ctx context.Context, e *errand) (*mcp.CallToolResult, error) {
		return u.run(ctx, e, a, in)
	})
	if errors.Is(err, errUnknown) {
		return mcp.ErrorResult("%s", err.Error()), nil
	}
	return res, err
}

// run starts the agent and tells the client how it gets on.
func (u *upstream) run(ctx context.Context, e *errand, a *agent.Agent, in json.RawMessage) (*mcp.CallToolResult, error) {
	tenant, err := u.ready(ctx)
	if err != nil {
		return nil, err
	}
	u.payRoots(e)
	o := &agent.RunOptions{ID: uuid.NewString(), Tenant: tenant, OnAsk: e.onAsk}
	if e.up.samples() {
		o.Sampler = &runSampler{e, a.Name()}
	}
	if e.up.hasRoots() {
		o.Roots = e.Roots
	}
	prompt := ""
	if len(a.Config().Input) > 0 {
		o.Input = in
	} else {
		var args struct {
			Prompt string `json:"prompt"`
		}
		if err := jsonx.Unmarshal(in, &args); err != nil {
			return nil, err
		}
		prompt = args.Prompt
	}
	run, err := a.Start(ctx, prompt, o)
	if err != nil {
		return nil, err
	}
	u.keepRun(run, a.Name())
	defer context.AfterFunc(ctx, func() { run.Cancel(context.Cause(ctx)) })()
	u.follow(e, run)
	res, err := run.Wait(context.WithoutCancel(ctx)) // it ends a bounded time after its cancel
	return runResult(run.ID(), res, err)
}

// runResult is a run's outcome as a tool's: one without an answer is a result with
// isError that says why.
func runResult(id string, res *agent.Result, err error) (*mcp.CallToolResult, error) {
	out := &mcp.CallToolResult{Meta: make(mcp.Meta)}
	if failed := out.Meta.Set(agent.MetaRun, id); failed != nil {
		return nil, failed
	}
	text := ""
	if res != nil {
		text = res.Text
		out.StructuredContent = res.Structured
		if text == "" {
			text = string(res.Structured)
		}
	}
	if err != nil {
		out.IsError, out.StructuredContent = true, nil
		out.Content = append(out.Content, &mcp.TextContent{Text: err.Error()})
	}
	if text != "" || err == nil {
		out.Content = append(out.Content, &mcp.TextContent{Text: text})
	}
	return out, nil
}

// follow tells the client what happens in a run, until it ends.
func (u *upstream) follow(e *errand, run *agent.Run) {
	for ev, err := range run.Events(context.WithoutCancel(e.ctx)) {
		if err != nil {
			u.log.Debug("a run can not be followed", "run", run.ID(), "error", err)
			return
		}
		if text := told(ev); text != "" {
			e.step(text)
		}
		if level := levelOf(ev); level != "" {
			e.log(level, asker(ev.Head().Path, ""), logEntry{ev.EventType(), ev})
		}
		u.runChanged(run.ID(), ev)
	}
}

// logEntry is an event as a log message has it.
type logEntry struct {
	Type  string      `json:"type"`
	Event agent.Event `json:"event"`
}

// levelOf is the level at which an event is logged, "" for those that are not: what is
// said, and results, belong to the client's answer and the transcript.
func levelOf(ev agent.Event) mcp.LogLevel {
	switch ev := agent.Unnest(ev).(type) {
	case agent.ToolStarted, agent.ModelTurn, agent.RunStarted, agent.RunFinished:
		return mcp.LogDebug
	case agent.Ask, agent.AskSettled, agent.HandedOff:
		return mcp.LogInfo
	case agent.QuestionDeclined:
		return mcp.LogWarning
	case agent.ToolsListed:
		if len(ev.Absent) > 0 {
			return mcp.LogWarning
		}
	}
	return ""
}

// told is what the progress says of an event, "" for nothing.
func told(ev agent.Event) string {
	who := asker(ev.Head().Path, "")
	switch ev := agent.Unnest(ev).(type) {
	case agent.ModelTurn:
		return fmt.Sprintf("%s: turn %d", who, ev.Turn)
	case agent.ToolStarted:
		name := ev.Tool
		if ev.Run != "" {
			return fmt.Sprintf("%s: asks the agent %s", who, name)
		}
		return fmt.Sprintf("%s: calls %s", who, name)
	case agent.ToolProgress:
		if ev.Message == "" {
			return fmt.Sprintf("%s: %s goes on", who, ev.Tool)
		}
		return fmt.Sprintf("%s: %s: %s", who, ev.Tool, ev.Message)
	case agent.ToolResult:
		return fmt.Sprintf("%s: %s is done", who, ev.Tool)
	case agent.Ask:
		return fmt.Sprintf("%s: waits for an answer", who)
	case agent.HandedOff:
		return fmt.Sprintf("%s: hands over to %s", who, ev.To)
	}
	return ""
}

// onAsk has the client answer a question of a run. What it can not be asked stays open for
// the inbox, or is declined: see [Options].Unanswered.
func (e *errand) onAsk(ctx context.Context, a agent.Ask) (agent.Decision, error) {
	if a.Kind == agent.KindPage { // the client has its own way to wait; the inbox has it, too
		return agent.Decision{}, nil
	}
	d, err := e.decideAsk(ctx, &a)
	switch {
	case err == nil:
		return d.By(e.up.name()), nil
	case errors.Is(err, mcpserver.ErrDeclined), errors.Is(err, mcpserver.ErrDismissed):
		return e.refusal(&a, err)
	case ctx.Err() != nil: // nobody wants to know any more
		return agent.Decision{}, err
	case e.up.front.opts.Unanswered == FallbackDecline: // also what the client has answered with nonsense
		return e.refusal(&a, mcpserver.ErrDeclined)
	case errors.Is(err, errCannotAsk):
		e.step(fmt.Sprintf("%s: this client can not be asked; answer with: troupe inbox answer %s", asker(a.Path, ""), a.ID))
		return agent.Decision{}, nil
	}
	return agent.Decision{}, err
}

// refusal is a no: the model, or the server that has asked, is told so.
func (e *errand) refusal(a *agent.Ask, err error) (agent.Decision, error) {
	if a.Question == nil {
		return agent.Decline(err.Error()).By(e.up.name()), nil
	}
	action := mcp.ActionDecline
	if errors.Is(err, mcpserver.ErrDismissed) {
		action = mcp.ActionCancel
	}
	d, err := agent.DecideAs(&mcpclient.Decision{Action: action})
	return d.By(e.up.name()), err
}

func (e *errand) decideAsk(ctx context.Context, a *agent.Ask) (agent.Decision, error) {
	switch {
	case a.Question != nil:
		q := *a.Question
		if len(q.Path) == 0 {
			q.Path = a.Path
		}
		d, err := e.decide(ctx, &q)
		if err != nil {
			return agent.Decision{}, err
		}
		return agent.DecideAs(d)
	case a.Limit != nil:
		l := a.Limit
		chosen, err := e.choice(ctx, fmt.Sprintf("%s has reached its limit of %s: %s of %s are used. Allow %s more?",
			asker(a.Path, ""), l.Limit, l.Spent, l.Max, l.More), []string{choiceAllow, choiceDeny})
		if err != nil {
			return agent.Decision{}, err
		}
		if chosen == choiceAllow {
			return agent.Accept(), nil
		}
		return agent.Decline("no more is allowed"), nil
	}
	return e.approve(ctx, a)
}

// called names a tool for a person: the server of its own, and what it is there where
// the name that the model has says no more than both.
func called(server, tool string) string {
	if server == "" {
		return tool
	}
	return asker([]string{server}, strings.TrimPrefix(tool, server+"__"))
}

// approve asks whether a call may be made.
func (e *errand) approve(ctx context.Context, a *agent.Ask) (agent.Decision, error) {
	message := fmt.Sprintf("%s wants to call %s with %s", asker(a.Path, ""), called(a.Server, a.Tool), clip(string(a.Arguments)))
	if a.Tainted {
		message += "\nIt may carry out private data: the run has read what strangers wrote."
	}
	chosen, err := e.choice(ctx, message, []string{choiceAllow, choiceAllowRun, choiceDeny})
	switch {
	case err != nil:
		return agent.Decision{}, err
	case chosen == choiceAllow:
		return agent.Accept(), nil
	case chosen == choiceAllowRun:
		return agent.AcceptForRun(), nil
	}
	return agent.Decline("the user does not allow it"), nil
}
