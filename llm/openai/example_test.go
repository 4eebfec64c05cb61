package openai_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/openai"
)

// A model behind any server that speaks chat completions; here it is a scripted one.
func ExampleNew() {
	srv := httptest.NewServer(llmtest.NewServer(llmtest.Say("Hello, ", "Ada.")))
	defer srv.Close()

	model := openai.New("gpt-5-mini", &openai.Options{BaseURL: srv.URL})
	for ev, err := range model.Stream(context.Background(), &llm.Request{Messages: []llm.Message{llm.User("Greet Ada.")}}) {
		if err != nil {
			log.Fatal(err)
		}
		if text, ok := ev.(llm.TextDelta); ok {
			fmt.Printf("%q\n", text.Text)
		}
	}
	// Output:
	// "Hello, "
	// "Ada."
}

// A connection that breaks is an error, however well the answer looked so far.
func ExampleClient_Stream_cut() {
	turn := llmtest.Say("The answer ", "is 42.").Over(llmtest.Wire{Fault: llmtest.Stop, After: 3})
	srv := httptest.NewServer(llmtest.NewServer(turn))
	defer srv.Close()

	model := openai.New("m", &openai.Options{BaseURL: srv.URL})
	_, err := llm.Generate(context.Background(), model, &llm.Request{Messages: []llm.Message{llm.User("Well?")}})
	fmt.Println(errors.Is(err, llm.ErrStreamCut))
	// Output: true
}
