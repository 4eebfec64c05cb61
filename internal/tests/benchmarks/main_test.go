package benchmarks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// echoIn is the 100-byte payload of every benchmark, or 64 KiB by its message.
type echoIn struct {
	Message string   `json:"message"`
	Count   int      `json:"count"`
	Tags    []string `json:"tags"`
}

func (in echoIn) answer() string { return in.Message }

// role makes the test binary a floor server, which clients are measured with.
const role = "TROUPE_BENCH_SERVER"

func TestMain(m *testing.M) {
	var err error
	switch name := os.Getenv(role); name {
	case "":
		os.Exit(m.Run())
	case "floor":
		err = serveFloor(os.Stdin, os.Stdout)
	case "ten":
		err = serveTen(os.Stdin, os.Stdout)
	case "stream", "no stream":
		err = serveWeb(name == "stream")
	default:
		err = fmt.Errorf("there is no server %q", name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// askIn asks that often.
type askIn struct {
	N int `json:"n"`
}

// form is the question of the tool ask.
var form = json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`)

// ask asks for a form n times.
func ask(ctx context.Context, req *mcpserver.ToolRequest, in askIn) (string, error) {
	for range in.N {
		if _, err := req.ElicitForm(ctx, "go on", &mcp.ElicitParams{Message: "go on?", RequestedSchema: form}); err != nil {
			return "", err
		}
	}
	return "asked", nil
}

// newTroupe returns a server with the tools echo and ask.
func newTroupe() (*mcpserver.Server, error) {
	s, err := mcpserver.New(mcp.Implementation{Name: "bench", Version: "1"}, nil)
	if err != nil {
		return nil, err
	}
	return s, errors.Join(mcpserver.AddFunc(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, in echoIn) (string, error) {
		return in.answer(), nil
	}), mcpserver.AddTool(s, &mcp.Tool{Name: "ask"}, ask))
}
