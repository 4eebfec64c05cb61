package router_test

import (
	"context"
	"fmt"
	"log"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/router"
)

// In a program the models would be ollama.New("qwen3:8b", nil) and
// openai.New("gpt-5-mini", opts), or what package discover finds.
var (
	local  = llmtest.Loop(llmtest.Say("Said at home.")).Named("ollama/qwen3:8b")
	hosted = llmtest.Loop(llmtest.Say("Said elsewhere.")).Named("openai/gpt-5-mini")
)

func Example() {
	models, err := router.New([]router.Card{
		{Model: local, Tools: true, JSON: true, Context: 40_960, Local: true},
		{Model: hosted, Tools: true, JSON: true, Vision: true, Price: &llm.Price{Input: llm.Unit / 4, Output: 2 * llm.Unit}},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := llm.Observe(context.Background(), &llm.Observer{
		Chose: func(c llm.Choice) { fmt.Printf("asking %s: %s\n", c.Model, c.Reason) },
	})
	for _, prefer := range []*llm.Preferences{nil, {Hints: []string{"gpt"}}, {Cost: 1}} {
		resp, err := llm.Generate(ctx, models, &llm.Request{
			Messages: []llm.Message{llm.User("Say something.")},
			Prefer:   prefer,
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(resp.Text())
	}
	// Output:
	// asking ollama/qwen3:8b: the default
	// Said at home.
	// asking openai/gpt-5-mini: the hint "gpt" fits its name
	// Said elsewhere.
	// asking ollama/qwen3:8b: 1.00 by cost 1
	// Said at home.
}

func ExampleRouter_Choose() {
	models, err := router.New([]router.Card{{Model: local, Tools: true}, {Model: hosted, Tools: true}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	_, err = models.Choose(router.Need{Vision: true})
	fmt.Println(err)
	// Output: no model can run this turn: ollama/qwen3:8b takes no images; openai/gpt-5-mini takes no images
}
