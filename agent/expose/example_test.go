package expose_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/expose"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcpclient"
)

// An agent as an MCP server, and a client of it.
func Example() {
	ctx := context.Background()
	rt, err := agent.Open(ctx, &agent.Options{Model: llmtest.Script(llmtest.Say("Red, green, blue."))})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	painter, err := rt.Agent("painter", &agent.Config{Description: "Knows colours."})
	if err != nil {
		log.Fatal(err)
	}

	front, err := expose.New(rt, &expose.Options{Agents: []*agent.Agent{painter}})
	if err != nil {
		log.Fatal(err)
	}
	defer front.Close()

	client, err := mcpclient.Dial(ctx, mcpclient.Stream("front", func(context.Context) (io.ReadWriteCloser, error) {
		ours, theirs := net.Pipe()
		go front.Serve(ctx, ours, ours)
		return theirs, nil
	}), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	res, err := client.CallTool(ctx, "painter", json.RawMessage(`{"prompt":"Name three colours."}`), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Content.Text())
	// Output: Red, green, blue.
}

// Over HTTP an agent stands beside whatever else a program serves.
func ExampleFront_Handler() {
	var rt *agent.Runtime // of agent.Open
	var reader *agent.Agent

	serve := func() error {
		front, err := expose.New(rt, &expose.Options{Agents: []*agent.Agent{reader}, Gateway: true})
		if err != nil {
			return err
		}
		defer front.Close()
		mux := http.NewServeMux()
		mux.Handle("/mcp", front.Handler())
		mux.Handle("/sse", front.SSEHandler()) // for clients of 2024-11-05
		return http.ListenAndServe("127.0.0.1:8080", mux)
	}
	_ = serve
}
