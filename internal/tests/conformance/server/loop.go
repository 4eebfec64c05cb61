package main

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/sampling"
)

type place struct {
	Place string `json:"place"`
}

// loopTools are what the model may call in test_sample_loop.
var loopTools = []*sampling.Tool{
	sampling.Func(&mcp.Tool{Name: "weather", Description: "the weather of a place"}, func(_ context.Context, in place) (string, error) {
		return "clear over " + in.Place, nil
	}),
	sampling.Func(&mcp.Tool{Name: "trains", Description: "the trains to a place"}, func(_ context.Context, in place) (string, error) {
		return "the 9:05 to " + in.Place, nil
	}),
}

// sampleLoop lets the client's model plan a trip.
func sampleLoop(ctx context.Context, req *mcpserver.ToolRequest, _ nothing) (string, error) {
	r, err := sampling.Loop(ctx, req, "trip", askModel("Where to?", 100), loopTools, nil)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %d turns, %d calls", r.Text(), r.Turns, r.Calls), nil
}
