package main

import (
	"context"
	"fmt"
	"os"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// sampleServer is a server whose one tool asks the client's model.
func sampleServer() {
	s, err := mcpserver.New(mcp.Implementation{Name: "Your Bank", Version: "1"}, nil)
	if err == nil {
		err = mcpserver.AddTool(s, &mcp.Tool{Name: "ask"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			res, err := req.Sample(ctx, "capital", &mcp.CreateMessageParams{MaxTokens: 50, SystemPrompt: "Be brief.",
				Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Contents{mcp.Text("Capital of France?")}}}})
			if err != nil {
				return "", err
			}
			return "The model says " + res.Content.Text(), nil
		})
	}
	if err == nil {
		err = s.ServeStdio(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
