// Command adkgo does the work with Google's Agent Development Kit, sessions in memory.
package main

import (
	"context"
	"encoding/json"
	"iter"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/genai"

	"github.com/troupe-dev/troupe/benchmarks/turn"
)

func main() { turn.Main(open) }

// answer is what a tool returns here: an object.
type answer struct {
	Result string `json:"result"`
}

func open(*turn.Options) (*turn.Program, error) {
	var tools []tool.Tool
	for _, name := range turn.Tools {
		t, err := functiontool.New(functiontool.Config{Name: name, Description: turn.Description}, func(_ agent.Context, a turn.Args) (answer, error) {
			text, err := turn.Do(a)
			return answer{text}, err
		})
		if err != nil {
			return nil, err
		}
		tools = append(tools, t)
	}
	a, err := llmagent.New(llmagent.Config{Name: "traveller", Description: "Plans journeys.", Instruction: turn.Instructions, Model: scripted{}, Tools: tools})
	if err != nil {
		return nil, err
	}
	sessions := session.InMemoryService()
	r, err := runner.New(runner.Config{AppName: "bench", Agent: a, SessionService: sessions, AutoCreateSession: true})
	if err != nil {
		return nil, err
	}
	return &turn.Program{Run: func(ctx context.Context, prompt string) (text string, err error) {
		id := prompt[:24]
		for e, err := range r.Run(ctx, "user", id, genai.NewContentFromText(prompt, genai.RoleUser), agent.RunConfig{}) {
			if err != nil {
				return "", err
			}
			if e.Content != nil && e.Content.Role == genai.RoleModel {
				for _, p := range e.Content.Parts {
					text = p.Text
				}
			}
		}
		return text, sessions.Delete(ctx, &session.DeleteRequest{AppName: "bench", UserID: "user", SessionID: id})
	}}, nil
}

// scripted is the scripted model.
type scripted struct{}

func (scripted) Name() string { return "scripted" }

func (scripted) GenerateContent(ctx context.Context, req *model.LLMRequest, _ bool) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) {
		results, prompt := 0, ""
		for _, c := range req.Contents {
			for _, p := range c.Parts {
				switch {
				case p.FunctionResponse != nil:
					results++
				case c.Role == genai.RoleUser && p.Text != "":
					prompt = p.Text
				}
			}
		}
		calls, text, err := turn.Ask(ctx, prompt, results)
		if err != nil {
			yield(nil, err)
			return
		}
		out := &genai.Content{Role: genai.RoleModel}
		if text != "" {
			out.Parts = append(out.Parts, genai.NewPartFromText(text))
		}
		for _, c := range calls {
			var args map[string]any
			if err := json.Unmarshal([]byte(c.Arguments), &args); err != nil {
				yield(nil, err)
				return
			}
			out.Parts = append(out.Parts, &genai.Part{FunctionCall: &genai.FunctionCall{ID: c.ID, Name: c.Tool, Args: args}})
		}
		yield(&model.LLMResponse{Content: out, TurnComplete: true}, nil)
	}
}
