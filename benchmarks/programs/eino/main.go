// Command eino does the work with CloudWeGo's eino: its ADK's ChatModelAgent, or (-variant react)
// its ReAct agent.
package main

import (
	"context"

	"github.com/cloudwego/eino-ext/components/model/openai"
	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"

	"github.com/troupe-dev/troupe/benchmarks/turn"
)

func main() { turn.Main(open) }

func open(o *turn.Options) (*turn.Program, error) {
	ctx := context.Background()
	var tools []tool.BaseTool
	for _, name := range turn.Tools {
		t, err := utils.InferTool(name, turn.Description, func(_ context.Context, a turn.Args) (string, error) { return turn.Do(a) })
		if err != nil {
			return nil, err
		}
		tools = append(tools, t)
	}
	var m model.ToolCallingChatModel = scripted{}
	if o.HTTP != "" {
		var err error
		if m, err = openai.NewChatModel(ctx, &openai.ChatModelConfig{BaseURL: o.HTTP, APIKey: "none", Model: turn.Model, HTTPClient: o.Client()}); err != nil {
			return nil, err
		}
	}
	if o.Variant == "react" {
		return openReAct(ctx, o, m, tools)
	}
	a, err := adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{
		Name: "traveller", Description: "Plans journeys.", Instruction: turn.Instructions, Model: m,
		ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: compose.ToolsNodeConfig{Tools: tools}},
	})
	if err != nil {
		return nil, err
	}
	runner := adk.NewRunner(ctx, adk.RunnerConfig{Agent: a, EnableStreaming: o.HTTP != ""})
	return &turn.Program{Run: func(ctx context.Context, prompt string) (answer string, err error) {
		events := runner.Query(ctx, prompt)
		for e, ok := events.Next(); ok; e, ok = events.Next() {
			if e.Err != nil {
				return "", e.Err
			}
			if e.Output != nil && e.Output.MessageOutput != nil && e.Output.MessageOutput.Role == schema.Assistant {
				m, err := e.Output.MessageOutput.GetMessage()
				if err != nil {
					return "", err
				}
				answer = m.Content
			}
		}
		return answer, nil
	}}, nil
}

func openReAct(ctx context.Context, o *turn.Options, m model.ToolCallingChatModel, tools []tool.BaseTool) (*turn.Program, error) {
	a, err := react.NewAgent(ctx, &react.AgentConfig{ToolCallingModel: m, ToolsConfig: compose.ToolsNodeConfig{Tools: tools}, MaxStep: 20})
	if err != nil {
		return nil, err
	}
	generate := func(ctx context.Context, in []*schema.Message) (*schema.Message, error) { return a.Generate(ctx, in) }
	if o.HTTP != "" {
		generate = func(ctx context.Context, in []*schema.Message) (*schema.Message, error) {
			s, err := a.Stream(ctx, in)
			if err != nil {
				return nil, err
			}
			return schema.ConcatMessageStream(s)
		}
	}
	return &turn.Program{Run: func(ctx context.Context, prompt string) (string, error) {
		in := []*schema.Message{schema.SystemMessage(turn.Instructions), schema.UserMessage(prompt)}
		m, err := generate(ctx, in)
		if err != nil {
			return "", err
		}
		return m.Content, nil
	}}, nil
}

// scripted is the scripted model.
type scripted struct{}

func (s scripted) WithTools([]*schema.ToolInfo) (model.ToolCallingChatModel, error) { return s, nil }

func (scripted) Generate(ctx context.Context, in []*schema.Message, _ ...model.Option) (*schema.Message, error) {
	results, prompt := 0, ""
	for _, m := range in {
		switch m.Role {
		case schema.Tool:
			results++
		case schema.User:
			prompt = m.Content
		}
	}
	calls, text, err := turn.Ask(ctx, prompt, results)
	if err != nil {
		return nil, err
	}
	var uses []schema.ToolCall
	for _, c := range calls {
		uses = append(uses, schema.ToolCall{ID: c.ID, Type: "function", Function: schema.FunctionCall{Name: c.Tool, Arguments: c.Arguments}})
	}
	return schema.AssistantMessage(text, uses), nil
}

func (s scripted) Stream(ctx context.Context, in []*schema.Message, opts ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	m, err := s.Generate(ctx, in, opts...)
	if err != nil {
		return nil, err
	}
	return schema.StreamReaderFromArray([]*schema.Message{m}), nil
}
