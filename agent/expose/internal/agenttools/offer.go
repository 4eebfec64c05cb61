package agenttools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/expose/internal/relay"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

const promptSchema = `{"type":"object","properties":{"prompt":{"type":"string","description":"What the agent is to do, with all that it has to know: it sees nothing else of the conversation."}},"required":["prompt"],"additionalProperties":false}`

// taskTTL is how long the task of a run is kept.
const taskTTL = 30 * time.Minute

// Server is the server of one client, on which agents are offered.
type Server struct {
	MCP    *mcpserver.Server
	Client *relay.Client
	// Tenant returns the client's connections, which it makes when they are first needed.
	Tenant  func(ctx context.Context) (*agent.Tenant, error)
	History *History // of all clients of the front
	Log     *slog.Logger
}

// Name returns the name of an agent's tool.
func Name(a *agent.Agent) string {
	name := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-', c == '.':
			return c
		}
		return '_'
	}, a.Name())
	return name[:min(len(name), 64)]
}

// TaskPolicies adds the agents' tools to the policies: a handler makes its call a task if the
// run takes long.
func TaskPolicies(policies map[string]mcpserver.TaskPolicy, agents []*agent.Agent) {
	for _, a := range agents {
		if _, set := policies[Name(a)]; !set {
			policies[Name(a)] = mcpserver.TaskPolicy{ByHandler: true, TTL: taskTTL}
		}
	}
}

// Offer adds agents: each as a tool, its instructions as a prompt, and the runs as a template.
func (s *Server) Offer(agents []*agent.Agent) error {
	for _, a := range agents {
		if err := s.offer(a); err != nil {
			return fmt.Errorf("agent %q: %w", a.Name(), err)
		}
	}
	if len(agents) == 0 {
		return nil
	}
	return s.offerRuns()
}

func (s *Server) offer(a *agent.Agent) error {
	cfg := a.Config()
	def := &mcp.Tool{
		Name: Name(a), Description: cfg.Description, InputSchema: cfg.Input,
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
	err := mcpserver.AddTool(s.MCP, def, func(ctx context.Context, req *mcpserver.ToolRequest, in json.RawMessage) (*mcp.CallToolResult, error) {
		res, err := relay.Run(ctx, s.Client, req, func(ctx context.Context, op *relay.Operation) (*mcp.CallToolResult, error) {
			return s.run(ctx, op, a, in)
		})
		if errors.Is(err, relay.ErrUnknown) {
			return mcp.ErrorResult("%s", err.Error()), nil
		}
		return res, err
	})
	if err != nil || cfg.Instructions == "" {
		return err
	}
	return mcpserver.AddPromptFunc(s.MCP, &mcp.Prompt{Name: Name(a), Title: a.Name(), Description: def.Description,
		Arguments: []mcp.PromptArgument{{Name: "prompt", Description: "What is to be done."}}},
		func(_ context.Context, in map[string]string) (*mcp.GetPromptResult, error) {
			r := new(mcp.GetPromptResult)
			for _, text := range []string{cfg.Instructions, in["prompt"]} {
				if text != "" {
					r.Messages = append(r.Messages, mcp.PromptMessage{Role: mcp.RoleUser, Content: &mcp.TextContent{Text: text}})
				}
			}
			return r, nil
		})
}

// isObject reports whether a schema describes objects: all revisions accept it as a tool's
// output.
func isObject(schema json.RawMessage) bool {
	var root struct {
		Type string                 `json:"type"`
		Rest map[string]jsonx.Value `json:",inline,embed"`
	}
	return len(schema) > 0 && jsonx.Unmarshal(schema, &root) == nil && root.Type == "object"
}

// run starts the agent and reports its events to the client until it ends.
func (s *Server) run(ctx context.Context, op *relay.Operation, a *agent.Agent, in json.RawMessage) (*mcp.CallToolResult, error) {
	tenant, err := s.Tenant(ctx)
	if err != nil {
		return nil, err
	}
	s.Client.AskOwedRoots(op)
	questions := &questions{op, s.Client}
	o := &agent.RunOptions{ID: uuid.NewString(), Tenant: tenant, OnAsk: questions.onAsk}
	if s.Client.Samples() {
		o.Sampler = &runSampler{op, a.Name()}
	}
	if s.Client.HasRoots() {
		o.Roots = op.Roots
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
	s.keep(run, a.Name())
	defer context.AfterFunc(ctx, func() { run.Cancel(context.Cause(ctx)) })()
	s.follow(op, run)
	res, err := run.Wait(context.WithoutCancel(ctx)) // it ends a bounded time after its cancel
	return runResult(run.ID(), res, err)
}

// runSampler adds the agent to the path of what the run's backends ask the client's model.
type runSampler struct {
	op    *relay.Operation
	agent string
}

// Sample implements [mcpclient.Sampler].
func (r *runSampler) Sample(ctx context.Context, req *mcpclient.SampleRequest) (*mcp.CreateMessageResult, error) {
	one := *req
	one.Path = append([]string{r.agent}, req.Path...)
	return r.op.Sample(ctx, &one)
}

// runResult is a run's outcome as a tool result. A run without an answer is a result with
// isError.
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
	if res != nil && res.Incomplete != "" {
		if failed := out.Meta.Set(agent.MetaIncomplete, string(res.Incomplete)); failed != nil {
			return nil, failed
		}
		out.Content = append(out.Content, &mcp.TextContent{Text: "[" + res.Incomplete.Why() + "]"})
	}
	return out, nil
}

// follow reports the events of a run until it ends: as progress, as log messages, and as
// changes of the run's resource.
func (s *Server) follow(op *relay.Operation, run *agent.Run) {
	for ev, err := range run.Events(context.WithoutCancel(op.Context())) {
		if err != nil {
			s.Log.Debug("the events of a run cannot be read", "run", run.ID(), "error", err)
			return
		}
		if text := progressOf(ev); text != "" {
			op.Step(text)
		}
		if level := levelOf(ev); level != "" {
			op.Log(level, relay.Asker(ev.Head().Path, ""), logEntry{ev.EventType(), ev})
		}
		switch ev.(type) {
		case agent.ModelTurn, agent.ToolStarted, agent.ToolResult, agent.Ask, agent.AskSettled, agent.RunFinished:
			s.MCP.ResourceUpdated(runsPrefix + run.ID())
		}
	}
}

// logEntry is an event in a log message.
type logEntry struct {
	Type  string      `json:"type"`
	Event agent.Event `json:"event"`
}

// levelOf is the level at which an event is logged, "" for none: texts and results belong to
// the client's answer and the transcript.
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

// progressOf is the progress message of an event, "" for none.
func progressOf(ev agent.Event) string {
	agentPath := relay.Asker(ev.Head().Path, "")
	switch ev := agent.Unnest(ev).(type) {
	case agent.ModelTurn:
		return fmt.Sprintf("%s: turn %d", agentPath, ev.Turn)
	case agent.ToolStarted:
		if ev.Run != "" {
			return fmt.Sprintf("%s: asks the agent %s", agentPath, ev.Tool)
		}
		return fmt.Sprintf("%s: calls %s", agentPath, ev.Tool)
	case agent.ToolProgress:
		if ev.Message == "" {
			return fmt.Sprintf("%s: %s goes on", agentPath, ev.Tool)
		}
		return fmt.Sprintf("%s: %s: %s", agentPath, ev.Tool, ev.Message)
	case agent.ToolResult:
		return fmt.Sprintf("%s: %s is done", agentPath, ev.Tool)
	case agent.Ask:
		return fmt.Sprintf("%s: waits for an answer", agentPath)
	case agent.HandedOff:
		return fmt.Sprintf("%s: hands over to %s", agentPath, ev.To)
	}
	return ""
}
