package agent_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// A run is a handle: the program goes on meanwhile.
func ExampleAgent_Start() {
	ctx := context.Background()
	rt, err := agent.Open(ctx, &agent.Options{Model: llmtest.Script(llmtest.Say("42"))})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	a, err := rt.Agent("answerer", &agent.Config{Instructions: "Answer with a number."})
	if err != nil {
		log.Fatal(err)
	}
	run, err := a.Start(ctx, "What is six times seven?", nil)
	if err != nil {
		log.Fatal(err)
	}
	// ... other work; run.Cancel ends the run early ...
	<-run.Done()
	res, err := run.Result()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Text)
	// Output: 42
}

// The answer of a run as a value of a Go type: the model is held to its schema.
func ExampleRunInto() {
	ctx := context.Background()
	rt, err := agent.Open(ctx, &agent.Options{Model: llmtest.Script(llmtest.Say(`{"name":"Mont Blanc","metres":4806}`))})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	a, err := rt.Agent("geographer", nil)
	if err != nil {
		log.Fatal(err)
	}
	type mountain struct {
		Name   string `json:"name"`
		Metres int    `json:"metres"`
	}
	m, _, err := agent.RunInto[mountain](ctx, a, "Which mountain of the Alps is the highest?", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %d m\n", m.Name, m.Metres)
	// Output: Mont Blanc: 4806 m
}

// A limit is held before a call is made, and its error says which it was.
func ExampleLimits() {
	ctx := context.Background()
	rt, err := agent.Open(ctx, &agent.Options{
		Model: llmtest.Loop(llmtest.Call("look", `{}`)),
		Tools: []agent.Tool{agent.Func("look", "Looks around.", func(context.Context, struct{}) (string, error) { return "nothing", nil })},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	a, err := rt.Agent("seeker", &agent.Config{Limits: agent.Limits{Steps: 2}})
	if err != nil {
		log.Fatal(err)
	}
	res, err := a.Run(ctx, "Find it.", nil)
	if limit, ok := errors.AsType[*agent.LimitError](err); ok {
		fmt.Printf("%s %s, %d calls made\n", limit.Max, limit.Limit, res.ToolCalls)
	}
	// Output: 2 steps, 2 calls made
}
