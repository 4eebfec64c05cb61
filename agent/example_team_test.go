package agent_test

import (
	"context"
	"fmt"
	"log"
	"regexp"
	"strings"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
)

// An agent is a tool of another. Both calls of the turn are runs of their own, side by
// side, and end with the run that has started them.
func ExampleAgent_AsTool() {
	ctx := context.Background()
	rt, err := agent.Open(ctx, &agent.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	searcher, err := rt.Agent("searcher", &agent.Config{
		Instructions: "Find out what you are asked, and answer in one sentence.",
		Limits:       agent.Limits{Steps: 5},
		Model:        llmtest.Loop(llmtest.Say("It was in 1972.")),
	})
	if err != nil {
		log.Fatal(err)
	}
	writer, err := rt.Agent("writer", &agent.Config{
		Tools: []agent.Tool{searcher.AsTool("search", "Finds out one thing.")},
		Model: llmtest.Script(
			llmtest.Calls(
				llmtest.Call("search", `{"prompt":"When was C made?"}`),
				llmtest.Call("search", `{"prompt":"When was Prolog made?"}`),
			),
			llmtest.Say("C and Prolog are of the same year."),
		),
	})
	if err != nil {
		log.Fatal(err)
	}
	run, err := writer.Start(ctx, "What do C and Prolog have in common?", nil)
	if err != nil {
		log.Fatal(err)
	}
	runs := make(map[string]bool)
	for ev, err := range run.Events(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		switch ev := ev.(type) {
		case agent.Nested: // what happens in the sub-agents
			runs[ev.Event.Head().RunID] = true
		case agent.ToolResult:
			fmt.Println("The searcher said:", ev.Result.Content.Text())
		case agent.Text:
			fmt.Println("The writer said:", ev.Delta)
		}
	}
	fmt.Println(len(runs), "runs of the searcher")
	// Output:
	// The searcher said: It was in 1972.
	// The searcher said: It was in 1972.
	// The writer said: C and Prolog are of the same year.
	// 2 runs of the searcher
}

// The other agent goes on with the same conversation.
func ExampleHandOff() {
	ctx := context.Background()
	rt, err := agent.Open(ctx, &agent.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	billing, err := rt.Agent("billing", &agent.Config{
		Description:  "Knows invoices and refunds.",
		Instructions: "Help with invoices.",
		Model:        llmtest.Script(llmtest.Say("Your refund is on its way.")),
	})
	if err != nil {
		log.Fatal(err)
	}
	desk, err := rt.Agent("desk", &agent.Config{
		Instructions: "Find out who can help, and hand over.",
		Tools:        agent.HandOff(billing),
		Model:        llmtest.Script(llmtest.Call("transfer_to_billing", `{"reason":"a refund"}`)),
	})
	if err != nil {
		log.Fatal(err)
	}
	res, err := desk.Run(ctx, "Where is my money?", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Text)
	// Output: Your refund is on its way.
}

// A guard keeps numbers of cards from model, watchers and journal, and another one ends
// the run when the model wants to leave its folder.
func ExampleGuard() {
	card := regexp.MustCompile(`\b\d{4} \d{4} \d{4} \d{4}\b`)
	mask := agent.Guard{Name: "cards", AfterTool: func(_ context.Context, r *agent.GuardReturn) agent.GuardResult {
		text := r.Result.Content.Text()
		if !card.MatchString(text) {
			return agent.GuardResult{} // nothing to say
		}
		r.Result.Content = mcp.Contents{mcp.Text(card.ReplaceAllString(text, "[card]"))}
		r.Result.StructuredContent = nil
		return agent.Change("a number of a card")
	}}
	inside := agent.Guard{Name: "folder", BeforeTool: func(_ context.Context, c *agent.GuardCall) agent.GuardResult {
		if strings.Contains(string(c.Arguments), "..") {
			return agent.StopRun("it wants to leave the folder")
		}
		return agent.GuardResult{}
	}}
	read := agent.Func("read", "Reads a file.", func(_ context.Context, in struct {
		Path string `json:"path"`
	}) (string, error) {
		return "Paid with 1234 5678 9012 3456.", nil
	})

	ctx := context.Background()
	rt, err := agent.Open(ctx, &agent.Options{Model: llmtest.Script(
		llmtest.Call("read", `{"path":"bill.txt"}`),
		llmtest.Call("read", `{"path":"../secret.txt"}`),
	)})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	reader, err := rt.Agent("reader", &agent.Config{Tools: []agent.Tool{read}, Guards: []agent.Guard{mask, inside}})
	if err != nil {
		log.Fatal(err)
	}
	run, err := reader.Start(ctx, "Who has paid?", &agent.RunOptions{ID: "bill"})
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range run.Events(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		switch ev := ev.(type) {
		case agent.ToolResult:
			fmt.Println("The model sees:", ev.Result.Content.Text())
		case agent.GuardActed:
			fmt.Printf("The guard %q has %s: %s\n", ev.Guard, ev.Action, ev.Text)
		}
	}
	_, err = run.Wait(ctx)
	fmt.Println(err)
	// Output:
	// The model sees: Paid with [card].
	// The guard "cards" has changed: a number of a card
	// The guard "folder" has stopped: it wants to leave the folder
	// run "bill": the guard "folder" stopped the run (before tool): it wants to leave the folder
}

// The run ends when the model hands its work in, or after ten turns if it has said that
// it is done.
func ExampleStopCondition() {
	submit := agent.Func("submit", "Hands the work in.", func(_ context.Context, in struct {
		Work string `json:"work"`
	}) (string, error) {
		fmt.Println("Handed in:", in.Work)
		return "thank you", nil
	})
	ctx := context.Background()
	rt, err := agent.Open(ctx, &agent.Options{Model: llmtest.Script(
		llmtest.Join(llmtest.Say("That is it."), llmtest.Call("submit", `{"work":"a poem"}`)),
	)})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	poet, err := rt.Agent("poet", &agent.Config{
		Tools: []agent.Tool{submit},
		StopWhen: agent.Or(
			agent.ToolCalled("submit"),
			agent.And(agent.TurnsDone(10), agent.TextMatches(regexp.MustCompile("(?i)done"))),
		),
	})
	if err != nil {
		log.Fatal(err)
	}
	res, err := poet.Run(ctx, "Write a poem.", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Text, res.StopReason)
	// Output:
	// Handed in: a poem
	// That is it. condition
}
