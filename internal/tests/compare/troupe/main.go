// Command troupe is the server of ours that the comparison measures: the tools echo, wait
// and ask on mcpserver's public API, over a pipe or over HTTP.
//
//	troupe -mode stdio
//	troupe -mode http -addr 127.0.0.1:0      # both eras at /mcp, as with -mode modern
//
// It prints the address it listens on, alone on one line of standard error.
//
// The tools are those that every server of the comparison has: echo answers
// its message; wait blocks until it is cancelled; ask elicits n times. Wait tells
// the load generator when it starts and when its context has ended by datagrams
// "S<key>" and "D<key>" to the UDP address in BENCH_NOTIFY. With -debug
// there is GET /debug/stats[?gc=1] and net/http/pprof beside /mcp, in stdio mode
// at -addr alone.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/troupe-dev/troupe/internal/tests/compare/kit"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

func main() {
	s, err := newServer()
	if err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
	defer s.Close()
	kit.Main(kit.Server{Stdio: s.ServeStdio, HTTP: s.Handler, Modern: s.Handler})
}

// newServer returns a server with the three tools.
func newServer() (*mcpserver.Server, error) {
	s, err := mcpserver.New(mcp.Implementation{Name: "bench", Version: "1"}, &mcpserver.Options{
		HTTP: mcpserver.HTTPOptions{MaxSessions: 20_000}, // ten thousand of them are left idle
	})
	if err != nil {
		return nil, err
	}
	return s, errors.Join(
		mcpserver.AddFunc(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, in kit.Echo) (string, error) { return in.Message, nil }),
		mcpserver.AddFunc(s, &mcp.Tool{Name: "wait"}, func(ctx context.Context, in kit.Wait) (string, error) {
			kit.Notify("S", in.Key)
			<-ctx.Done()
			kit.Notify("D", in.Key)
			return "", context.Cause(ctx)
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "ask"}, ask),
	)
}

// ask elicits n times.
func ask(ctx context.Context, req *mcpserver.ToolRequest, in kit.Ask) (string, error) {
	for i := range in.N {
		answer, err := req.ElicitForm(ctx, strconv.Itoa(i), &mcp.ElicitParams{Message: kit.Question, RequestedSchema: kit.Form})
		if err != nil {
			return "", err
		}
		if answer.Action != mcp.ActionAccept {
			return "", fmt.Errorf("question %d: %s", i, answer.Action)
		}
	}
	return "asked " + strconv.Itoa(in.N) + " times", nil
}
