// Command server is what the conformance suite tests our server with: one of each
// thing a server can have, on one URL for every revision of the protocol.
//
//	go run ./conformance/server -http 127.0.0.1:3001   /mcp for all revisions, /sse for 2024-11-05
//	go run ./conformance/server -stdio                 one client, on stdin and stdout
//
// Over HTTP the URL of the endpoint is the only thing written to stdout. With
// -park=false handlers that ask clients of 2026-07-28 are not kept between rounds but
// run again from the top: no client may see the difference.
//
// It uses nothing but the public API, and so is the largest example of it. The names
// and texts are the suite's; read contents.go first, then asking.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/troupe-dev/troupe/internal/tests/conformance/serving"
	"github.com/troupe-dev/troupe/mcpserver"
)

func main() {
	address := flag.String("http", "", "serve HTTP at this address, of the loopback interface")
	stdio := flag.Bool("stdio", false, "serve one client on stdin and stdout")
	park := flag.Bool("park", true, "keep handlers that ask clients of 2026-07-28 between the rounds")
	verbose := flag.Bool("v", false, "log everything to stderr")
	flag.Parse()
	if (*address != "") == *stdio || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	level := slog.LevelWarn
	if *verbose {
		level = slog.LevelDebug
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, *address, &mcpserver.Options{
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
		Rounds: mcpserver.RoundOptions{NoParking: !*park},
		Tasks:  &mcpserver.TaskOptions{Poll: step, Tools: taskPolicies},
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends: HTTP if there is an address, else stdin and stdout.
func run(ctx context.Context, address string, opts *mcpserver.Options) error {
	s, err := newServer(opts)
	if err != nil {
		return err
	}
	defer s.Close()
	if address == "" {
		return s.ServeStdio(ctx)
	}
	mux := http.NewServeMux() // every revision at /mcp, HTTP+SSE of 2024-11-05 at /sse
	mux.Handle("/mcp", s.Handler())
	mux.Handle("/sse", s.SSEHandler())
	return serving.Serve(ctx, address, mux, s.Shutdown)
}
