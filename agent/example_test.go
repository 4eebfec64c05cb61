package agent_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

func ExampleRuntime_Run() {
	ctx := context.Background()
	rt, err := agent.Open(ctx, &agent.Options{Model: llmtest.Script(llmtest.Say("Hello, Ada."))})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	res, err := rt.Run(ctx, "Greet Ada.")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Text)
	// Output: Hello, Ada.
}

func ExampleFunc() {
	type city struct {
		Name string `json:"name" jsonschema:"the city's English name"`
	}
	weather := agent.Func("weather", "Tells the weather of a city.", func(_ context.Context, in city) (string, error) {
		return "It is sunny in " + in.Name + ".", nil
	})

	ctx := context.Background()
	rt, err := agent.Open(ctx, &agent.Options{
		Tools: []agent.Tool{weather},
		Model: llmtest.Script(
			llmtest.Call("weather", `{"name":"Turin"}`),
			llmtest.Say("Take your sunglasses."),
		),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	res, err := rt.Run(ctx, "What do I need in Turin?")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Text, "Tool calls:", res.ToolCalls)
	// Output: Take your sunglasses. Tool calls: 1
}

func ExampleRun_Events() {
	remove := agent.NeedsApproval(agent.Func("remove", "Removes a file.",
		func(_ context.Context, in struct {
			Path string `json:"path"`
		}) (string, error) {
			return "removed " + in.Path, nil
		}))

	ctx := context.Background()
	rt, err := agent.Open(ctx, &agent.Options{Model: llmtest.Script(
		llmtest.Call("remove", `{"path":"notes.txt"}`),
		llmtest.Say("It is gone."),
	)})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	cleaner, err := rt.Agent("cleaner", &agent.Config{
		Instructions: "Keep the folder tidy.",
		Tools:        []agent.Tool{remove},
		Limits:       agent.Limits{ToolCalls: 20, Wall: time.Minute},
	})
	if err != nil {
		log.Fatal(err)
	}
	run, err := cleaner.Start(ctx, "Remove the notes.", nil)
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range run.Events(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		switch ev := ev.(type) {
		case agent.Ask:
			fmt.Printf("May it call %s with %s? Yes.\n", ev.Tool, ev.Arguments)
			if err := ev.Answer(ctx, agent.Accept()); err != nil {
				log.Fatal(err)
			}
		case agent.ToolResult:
			fmt.Println(ev.Tool, "said:", ev.Result.Content.Text())
		case agent.Text:
			fmt.Println("The model said:", ev.Delta)
		}
	}
	// Output:
	// May it call remove with {"path":"notes.txt"}? Yes.
	// remove said: removed notes.txt
	// The model said: It is gone.
}

func ExampleInto() {
	type sum struct {
		Sum int `json:"sum"`
	}
	got, err := agent.Into[sum](&agent.Result{Text: `{"sum":42}`})
	fmt.Println(got.Sum, err)
	// Output: 42 <nil>
}
