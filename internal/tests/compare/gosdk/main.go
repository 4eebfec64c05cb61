// Command gosdk is the benchmark server on the official Go SDK.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/troupe-dev/troupe/internal/tests/compare/kit"
)

func main() {
	s := newServer()
	kit.Main(kit.Server{
		Stdio: func(ctx context.Context) error { return s.Run(ctx, &mcp.StdioTransport{}) },
		HTTP:  func() http.Handler { return handler(s, false) },
		// A server with sessions refuses 2026-07-28.
		Modern: func() http.Handler { return handler(s, true) },
	})
}

// handler answers with event streams, the SDK's default; GOSDK_JSON=1 makes it
// plain JSON.
func handler(s *mcp.Server, stateless bool) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{
		Stateless: stateless, JSONResponse: os.Getenv("GOSDK_JSON") == "1",
		PropagateRequestCancellation: stateless, // or a client that goes away cancels nothing
	})
}

func newServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "gosdk", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in kit.Echo) (*mcp.CallToolResult, any, error) {
		return text(in.Message), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcp.CallToolRequest, in kit.Wait) (*mcp.CallToolResult, any, error) {
		kit.Notify("S", in.Key)
		<-ctx.Done()
		kit.Notify("D", in.Key)
		return nil, nil, context.Cause(ctx)
	})
	mcp.AddTool(s, &mcp.Tool{Name: "ask"}, func(ctx context.Context, req *mcp.CallToolRequest, in kit.Ask) (*mcp.CallToolResult, any, error) {
		for i := range in.N {
			answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: kit.Question, RequestedSchema: kit.Form})
			if err != nil {
				return nil, nil, err
			}
			if answer.Action != "accept" {
				return nil, nil, fmt.Errorf("question %d: %s", i, answer.Action)
			}
		}
		return text(fmt.Sprintf("asked %d times", in.N)), nil, nil
	})
	return s
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}
