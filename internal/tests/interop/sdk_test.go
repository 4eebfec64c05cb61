package interop_test

import (
	"context"
	"errors"
	"os"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Both sides offer the same tools: add answers at once, steps reports progress,
// block waits for its cancel and says so in a file.
type (
	addIn  struct{ A, B int }
	addOut struct {
		Sum int `json:"sum"`
	}
	stepsIn struct{ N int }
	blockIn struct {
		File string `json:"file"`
	}
)

// markCancelled is how a server that was killed could never look like one that
// saw the cancel.
func markCancelled(ctx context.Context, file string) error {
	if err := os.WriteFile(file+".begun", nil, 0o600); err != nil {
		return err
	}
	<-ctx.Done()
	if err := os.WriteFile(file+".writing", []byte("cancelled"), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".writing", file) // it is there with its text, or not at all
}

// serveSDK runs a go-sdk server on this process's stdin and stdout.
func serveSDK() error {
	s := sdk.NewServer(&sdk.Implementation{Name: "sdk-server", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "add"}, func(_ context.Context, _ *sdk.CallToolRequest, in addIn) (*sdk.CallToolResult, addOut, error) {
		return nil, addOut{in.A + in.B}, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "steps"}, func(ctx context.Context, req *sdk.CallToolRequest, in stepsIn) (*sdk.CallToolResult, any, error) {
		token := req.Params.GetProgressToken()
		if token == nil {
			return nil, nil, errors.New("no progress token")
		}
		for i := range in.N {
			err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: float64(i + 1), Total: float64(in.N)})
			if err != nil {
				return nil, nil, err
			}
		}
		return nil, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "block"}, func(ctx context.Context, _ *sdk.CallToolRequest, in blockIn) (*sdk.CallToolResult, any, error) {
		return nil, nil, markCancelled(ctx, in.File)
	})
	return s.Run(context.Background(), &sdk.StdioTransport{})
}
