package main

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// step is how long a step of work takes here.
const step = 50 * time.Millisecond

// work stands for something that takes its time. It ends early with the call's context.
func work(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// addRunning adds tools that take a while and say how far they are.
func addRunning(s *mcpserver.Server) error {
	return errors.Join(
		mcpserver.AddTool(s, tool("test_tool_with_progress", "Reports progress while it runs."), progressing),
		mcpserver.AddTool(s, tool("test_tool_with_logging", "Logs while it runs."), logging),
		mcpserver.AddTool(s, tool("test_logging_tool", "Logs while it runs, to a client that wants it."), logging),
		mcpserver.AddTool(s, tool("test_reconnection", "Closes the stream of its request before it has finished."), reconnecting),
	)
}

// progressing tells of progress to a client that has asked for it.
func progressing(ctx context.Context, req *mcpserver.ToolRequest, _ nothing) (string, error) {
	for i, done := range []float64{0, 50, 100} {
		if i > 0 {
			if err := work(ctx, step); err != nil {
				return "", err
			}
		}
		req.Progress(done, 100, "")
	}
	return "Progress test completed", nil
}

// logging logs to a client that wants logs of this level.
func logging(ctx context.Context, req *mcpserver.ToolRequest, _ nothing) (string, error) {
	for i, line := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
		if i > 0 {
			if err := work(ctx, step); err != nil {
				return "", err
			}
		}
		req.Log(mcp.LogInfo, "fixture", line)
	}
	return "Logging test completed", nil
}

// reconnecting lets go of the client, which comes back for the result (SHL-43). It
// changes nothing where there is no stream, or none that can be resumed.
func reconnecting(ctx context.Context, req *mcpserver.ToolRequest, _ nothing) (string, error) {
	if err := work(ctx, 2*step); err != nil {
		return "", err
	}
	req.CloseStream(0)
	if err := work(ctx, 2*step); err != nil {
		return "", err
	}
	return "Reconnection test completed successfully", nil
}
