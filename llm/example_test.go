package llm_test

import (
	"context"
	"fmt"
	"log"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
)

func ExampleGenerate() {
	model := llmtest.Script(llmtest.Say("Hello, Ada."))
	resp, err := llm.Generate(context.Background(), model, &llm.Request{
		System:   "You greet people.",
		Messages: []llm.Message{llm.User("Greet Ada.")},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(resp.Text())
	// Output: Hello, Ada.
}

func ExampleModel() {
	model := llmtest.Script(llmtest.Join(
		llmtest.Say("Let me ", "see."),
		llmtest.Call("weather", `{"city":"Oslo"}`),
	))
	req := &llm.Request{Messages: []llm.Message{llm.User("Weather?")}}
	for ev, err := range model.Stream(context.Background(), req) {
		if err != nil {
			log.Fatal(err)
		}
		switch ev := ev.(type) {
		case llm.TextDelta:
			fmt.Printf("text %q\n", ev.Text)
		case llm.ToolCall:
			fmt.Printf("call %s(%s)\n", ev.Name, ev.Arguments)
		case llm.Finish:
			fmt.Println("finish", ev.Reason)
		}
	}
	// Output:
	// text "Let me "
	// text "see."
	// call weather({"city":"Oslo"})
	// finish tool_calls
}

// A loop over calls: each result goes back in a message of the user.
func ExampleResponse_Calls() {
	model := llmtest.Script(
		llmtest.Call("weather", `{"city":"Oslo"}`),
		llmtest.Say("Take an umbrella."),
	)
	req := &llm.Request{
		Messages: []llm.Message{llm.User("Weather?")},
		Tools:    []llm.Tool{{Name: "weather"}},
	}
	for {
		resp, err := llm.Generate(context.Background(), model, req)
		if err != nil {
			log.Fatal(err)
		}
		calls := resp.Calls()
		if len(calls) == 0 {
			fmt.Println(resp.Text())
			return
		}
		var results mcp.Contents
		for _, call := range calls {
			results = append(results, &mcp.ToolResultContent{
				ToolUseID: call.ID, Content: mcp.Contents{mcp.Text("rain")},
			})
		}
		req.Messages = append(req.Messages, resp.Message(), llm.Message{Role: llm.RoleUser, Content: results})
	}
	// Output: Take an umbrella.
}
