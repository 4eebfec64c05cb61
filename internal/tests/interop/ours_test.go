package interop_test

import (
	"context"
	"errors"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// serveOurs runs our server, with the tools of serveSDK, on stdin and stdout.
func serveOurs() error {
	s, err := mcpserver.New(mcp.Implementation{Name: "our-server", Version: "1"}, nil)
	if err != nil {
		return err
	}
	err = errors.Join(
		mcpserver.AddFunc(s, &mcp.Tool{Name: "add"}, func(_ context.Context, in addIn) (addOut, error) {
			return addOut{in.A + in.B}, nil
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "steps"}, func(_ context.Context, req *mcpserver.ToolRequest, in stepsIn) (*mcp.CallToolResult, error) {
			for i := range in.N {
				req.Progress(float64(i+1), float64(in.N), "")
			}
			return &mcp.CallToolResult{Content: mcp.Contents{mcp.Text("done")}}, nil
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "block"}, func(ctx context.Context, _ *mcpserver.ToolRequest, in blockIn) (*mcp.CallToolResult, error) {
			return nil, markCancelled(ctx, in.File)
		}),
	)
	if err != nil {
		return err
	}
	return s.ServeStdio(context.Background())
}
