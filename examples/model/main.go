// Model is an agent with a model of one's own: anything that has a name and streams the
// events of a turn. This one is a table of rules; it needs no server and costs nothing.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log"
	"os"
	"strings"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

func main() {
	prompt := "What is the weather in Turin?"
	if len(os.Args) > 1 {
		prompt = strings.Join(os.Args[1:], " ")
	}
	if err := run(context.Background(), rules{}, prompt, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// rules is a model that knows one question.
type rules struct{}

// Name says provider and model.
func (rules) Name() string { return "rules/weather" }

// Stream runs one turn: events, the last of which is a Finish.
func (rules) Stream(_ context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		last := req.Messages[len(req.Messages)-1]
		for _, c := range last.Content {
			if result, ok := c.(*mcp.ToolResultContent); ok { // our call has returned
				_ = yield(llm.TextDelta{Text: "It is " + result.Content.Text() + "."}, nil) && yield(llm.Finish{Reason: llm.FinishStop}, nil)
				return
			}
		}
		_, city, asked := strings.Cut(last.Content.Text(), "weather in ")
		if !asked {
			_ = yield(llm.TextDelta{Text: "I only know about the weather."}, nil) && yield(llm.Finish{Reason: llm.FinishStop}, nil)
			return
		}
		args, err := json.Marshal(cityIn{strings.TrimRight(city, "?")})
		if err != nil {
			yield(nil, err)
			return
		}
		_ = yield(llm.ToolCall{ID: "1", Name: "weather", Arguments: args}, nil) && yield(llm.Finish{Reason: llm.FinishToolCalls}, nil)
	}
}

type cityIn struct {
	City string `json:"city"`
}

func weather(_ context.Context, in cityIn) (string, error) { return "sunny in " + in.City, nil }

func run(ctx context.Context, model llm.Model, prompt string, out io.Writer) error {
	rt, err := agent.Open(ctx, &agent.Options{Model: model, Tools: []agent.Tool{agent.Func("weather", "Tells the weather of a city.", weather)}})
	if err != nil {
		return err
	}
	defer rt.Close()
	res, err := rt.Run(ctx, prompt)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, res.Text)
	return nil
}
