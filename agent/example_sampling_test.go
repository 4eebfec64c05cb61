package agent_test

import (
	"context"
	"fmt"
	"log"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// A server that needs a model borrows ours, within what it was given: here at most ten
// answers of at most 200 tokens, without a review.
func ExampleSampling() {
	ctx := context.Background()
	server, err := mcpserver.New(mcp.Implementation{Name: "poet", Version: "1"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Shutdown(ctx)
	err = mcpserver.AddTool(server, &mcp.Tool{Name: "rhyme"}, func(ctx context.Context, req *mcpserver.ToolRequest, in struct{ Word string }) (string, error) {
		res, err := req.Sample(ctx, "rhyme", &mcp.CreateMessageParams{
			SystemPrompt: "Answer with one word.", MaxTokens: 500,
			Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Contents{mcp.Text("What rhymes with " + in.Word + "?")}}},
		})
		if err != nil {
			return "", err
		}
		return res.Content.Text(), nil
	})
	if err != nil {
		log.Fatal(err)
	}

	rt, err := agent.Open(ctx, &agent.Options{
		Model:   llmtest.Script(llmtest.Call("poet__rhyme", map[string]string{"Word": "tree"}), llmtest.Say("It rhymes with bee.")),
		Servers: []mcpclient.Server{mcpclient.InProcess("poet", server)},
		Approve: agent.NeverAsk,
		Sampling: &agent.Sampling{
			Model: llmtest.Script(llmtest.Say("bee")), // the runtime's own, if it is left out
			Servers: map[string]agent.SamplingPolicy{
				"poet": {Mode: mcpclient.SamplingAllow, Requests: 10, MaxTokens: 200},
			},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	res, err := rt.Run(ctx, "What rhymes with tree?")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Text)
	fmt.Printf("models were asked %d times: %d by the run, the rest by its server\n", res.Spent.ModelCalls, res.Steps)
	// Output:
	// It rhymes with bee.
	// models were asked 3 times: 2 by the run, the rest by its server
}

// Whoever answers for a run reviews what servers ask the model: before it is asked, and
// before the server gets the answer.
func ExampleSampling_review() {
	review := func(ask agent.Ask) agent.Decision {
		d := &mcpclient.Decision{Action: mcp.ActionAccept, Hash: ask.Question.Hash} // about exactly this
		switch ask.Question.Kind {
		case mcpclient.AskSampling: // Sampling is what would be asked; d.Sampling replaces it
		case mcpclient.AskSample: // Sample is the answer; d.Sample replaces it
		default:
			d.Action = mcp.ActionDecline
		}
		decision, err := agent.DecideAs(d)
		if err != nil {
			return agent.Decline(err.Error())
		}
		return decision
	}
	// In the loop over Run.Events:
	handle := func(ctx context.Context, ev agent.Event) error {
		if ask, ok := ev.(agent.Ask); ok && ask.Question != nil {
			return ask.Answer(ctx, review(ask).By("the reviewer"))
		}
		return nil
	}
	_ = handle
}
