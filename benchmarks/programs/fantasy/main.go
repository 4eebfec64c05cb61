// Command fantasy does the work with Charm's fantasy.
package main

import (
	"context"
	"errors"

	"charm.land/fantasy"
	"charm.land/fantasy/providers/openaicompat"

	"github.com/troupe-dev/troupe/benchmarks/turn"
)

func main() { turn.Main(open) }

func open(o *turn.Options) (*turn.Program, error) {
	var tools []fantasy.AgentTool
	for _, name := range turn.Tools {
		tools = append(tools, fantasy.NewParallelAgentTool(name, turn.Description, func(_ context.Context, a turn.Args, _ fantasy.ToolCall) (fantasy.ToolResponse, error) {
			text, err := turn.Do(a)
			return fantasy.NewTextResponse(text), err
		}))
	}
	if o.HTTP != "" {
		return openHTTP(o, tools)
	}
	a := fantasy.NewAgent(scripted{}, fantasy.WithSystemPrompt(turn.Instructions), fantasy.WithTools(tools...))
	return &turn.Program{Run: func(ctx context.Context, prompt string) (string, error) {
		res, err := a.Generate(ctx, fantasy.AgentCall{Prompt: prompt})
		if err != nil {
			return "", err
		}
		return res.Response.Content.Text(), nil
	}}, nil
}

// openHTTP uses a server of OpenAI's API.
func openHTTP(o *turn.Options, tools []fantasy.AgentTool) (*turn.Program, error) {
	p, err := openaicompat.New(openaicompat.WithBaseURL(o.HTTP), openaicompat.WithAPIKey("none"), openaicompat.WithHTTPClient(o.Client()))
	if err != nil {
		return nil, err
	}
	m, err := p.LanguageModel(context.Background(), turn.Model)
	if err != nil {
		return nil, err
	}
	a := fantasy.NewAgent(m, fantasy.WithSystemPrompt(turn.Instructions), fantasy.WithTools(tools...))
	return &turn.Program{Run: func(ctx context.Context, prompt string) (string, error) {
		res, err := a.Stream(ctx, fantasy.AgentStreamCall{Prompt: prompt})
		if err != nil {
			return "", err
		}
		return res.Response.Content.Text(), nil
	}}, nil
}

// scripted is the scripted model.
type scripted struct{}

func (scripted) Provider() string { return "scripted" }
func (scripted) Model() string    { return "scripted" }

func (scripted) Generate(ctx context.Context, call fantasy.Call) (*fantasy.Response, error) {
	results, prompt := 0, ""
	for _, m := range call.Prompt {
		for _, p := range m.Content {
			switch p := p.(type) {
			case fantasy.ToolResultPart:
				results++
			case fantasy.TextPart:
				if m.Role == fantasy.MessageRoleUser {
					prompt = p.Text
				}
			}
		}
	}
	calls, text, err := turn.Ask(ctx, prompt, results)
	if err != nil {
		return nil, err
	}
	r := &fantasy.Response{FinishReason: fantasy.FinishReasonStop, Usage: fantasy.Usage{InputTokens: 1000, OutputTokens: 100, TotalTokens: 1100}}
	if text != "" {
		r.Content = append(r.Content, fantasy.TextContent{Text: text})
	}
	for _, c := range calls {
		r.FinishReason = fantasy.FinishReasonToolCalls
		r.Content = append(r.Content, fantasy.ToolCallContent{ToolCallID: c.ID, ToolName: c.Tool, Input: c.Arguments})
	}
	return r, nil
}

var errNotAsked = errors.New("the comparison does not ask for this")

func (scripted) Stream(context.Context, fantasy.Call) (fantasy.StreamResponse, error) {
	return nil, errNotAsked
}

func (scripted) GenerateObject(context.Context, fantasy.ObjectCall) (*fantasy.ObjectResponse, error) {
	return nil, errNotAsked
}

func (scripted) StreamObject(context.Context, fantasy.ObjectCall) (fantasy.ObjectStreamResponse, error) {
	return nil, errNotAsked
}
