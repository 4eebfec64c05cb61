// Hello is the first program of the README: an agent with the tools of one MCP
// server. It needs a running Ollama with the model named below.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/ollama"
	"github.com/troupe-dev/troupe/mcpclient"
)

func main() {
	ctx := context.Background()
	files := mcpclient.Command("npx", "-y", "@modelcontextprotocol/server-filesystem", ".")
	files.Trusted = true // its tools that only read are called unasked
	rt, err := agent.Open(ctx, &agent.Options{
		Model:   ollama.New("qwen3:8b", nil),
		Servers: []mcpclient.Server{files},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	res, err := rt.Run(ctx, "Which Go files here are largest?")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Text)
}
