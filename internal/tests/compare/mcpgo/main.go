// Command mcpgo is the benchmark server on mark3labs/mcp-go.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/troupe-dev/troupe/internal/tests/compare/kit"
)

func main() {
	s := newServer()
	web := func() http.Handler { return server.NewStreamableHTTPServer(s, server.WithStateful(true)) }
	kit.Main(kit.Server{
		Stdio:  func(ctx context.Context) error { return server.NewStdioServer(s).Listen(ctx, os.Stdin, os.Stdout) },
		HTTP:   web,
		Modern: web, // the era is decided for each request
	})
}

// newServer does not check arguments, the library's default; MCPGO_VALIDATE=1
// makes it do so.
func newServer() *server.MCPServer {
	opts := []server.ServerOption{server.WithToolCapabilities(true), server.WithElicitation()}
	if os.Getenv("MCPGO_VALIDATE") == "1" {
		opts = append(opts, server.WithInputSchemaValidation())
	}
	s := server.NewMCPServer("mcpgo", "1", opts...)
	s.AddTool(mcp.NewTool("echo",
		mcp.WithString("message", mcp.Required()), mcp.WithInteger("count", mcp.Required()), mcp.WithArray("tags", mcp.Required(), mcp.WithStringItems()),
	), mcp.NewTypedToolHandler(func(_ context.Context, _ mcp.CallToolRequest, in kit.Echo) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(in.Message), nil
	}))
	s.AddTool(mcp.NewTool("wait", mcp.WithString("key", mcp.Required())),
		mcp.NewTypedToolHandler(func(ctx context.Context, _ mcp.CallToolRequest, in kit.Wait) (*mcp.CallToolResult, error) {
			kit.Notify("S", in.Key)
			<-ctx.Done()
			kit.Notify("D", in.Key)
			return nil, context.Cause(ctx)
		}))
	s.AddTool(mcp.NewTool("ask", mcp.WithInteger("n", mcp.Required())),
		mcp.NewTypedToolHandler(func(ctx context.Context, _ mcp.CallToolRequest, in kit.Ask) (*mcp.CallToolResult, error) {
			for i := range in.N {
				answer, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{Message: kit.Question, RequestedSchema: kit.Form}})
				if err != nil {
					return nil, err
				}
				if answer.Action != mcp.ElicitationResponseActionAccept {
					return nil, fmt.Errorf("question %d: %s", i, answer.Action)
				}
			}
			return mcp.NewToolResultText(fmt.Sprintf("asked %d times", in.N)), nil
		}))
	return s
}
