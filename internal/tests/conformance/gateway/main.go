// Command gateway is what the conformance suite tests a gateway with: the servers of a
// configuration file behind one URL, under their own names where no two have the same.
//
//	go run ./conformance/gateway -http 127.0.0.1:3002 -servers .mcp.json
//
// The URL of the endpoint is the only thing written to stdout.
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

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/expose"
	"github.com/troupe-dev/troupe/internal/tests/conformance/serving"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

func main() {
	address := flag.String("http", "", "serve HTTP at this address, of the loopback interface")
	file := flag.String("servers", "", "a file with the servers, as programs have it")
	verbose := flag.Bool("v", false, "log everything to stderr")
	flag.Parse()
	if *address == "" || *file == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	level := slog.LevelWarn
	if *verbose {
		level = slog.LevelDebug
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	if err := run(ctx, *address, *file, log); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, address, file string, log *slog.Logger) (err error) {
	servers, err := mcpclient.LoadConfig(file)
	if err != nil {
		return err
	}
	rt, err := agent.Open(ctx, &agent.Options{
		Servers: servers, Logger: log,
		Consent: func(context.Context, mcpclient.Server) error { return nil }, // who names the file has written it
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	front, err := expose.New(rt, &expose.Options{
		Info:    mcp.Implementation{Name: "gateway", Version: "1"},
		Gateway: true, Names: expose.NamesPlain, Logger: log,
	})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", front.Handler())
	if err := serving.Serve(ctx, address, mux, front.Shutdown); err != nil {
		return errors.Join(err, front.Close())
	}
	return nil
}
