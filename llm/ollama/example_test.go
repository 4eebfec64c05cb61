package ollama_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/ollama"
)

// Whatever model is there; here the server is a scripted one.
func ExampleServer_DefaultModel() {
	srv := httptest.NewServer(llmtest.NewServer(llmtest.Say("Hello, Ada.")))
	defer srv.Close()

	ctx := context.Background()
	server := ollama.NewServer(&ollama.Options{Host: srv.URL})
	name, err := server.DefaultModel(ctx)
	if err != nil {
		log.Fatal(err)
	}
	resp, err := llm.Generate(ctx, server.Model(name), &llm.Request{Messages: []llm.Message{llm.User("Greet Ada.")}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s says: %s\n", name, resp.Text())
	// Output: scripted says: Hello, Ada.
}
