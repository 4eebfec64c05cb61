// Command client is what the conformance suite starts to test our client: it plays
// the scenario that the environment names against the server whose URL is its
// argument, and exits with 0 if it could do so.
//
//	MCP_CONFORMANCE_SCENARIO          what to do
//	MCP_CONFORMANCE_PROTOCOL_VERSION  the revision to speak; none finds out
//	MCP_CONFORMANCE_CONTEXT           JSON with what some scenarios need to know
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcpclient"
)

// patience ends a scenario before the suite does, so that it is known why.
const patience = 25 * time.Second

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: client URL")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := ending(os.Getenv("MCP_CONFORMANCE_SCENARIO"), run(ctx, os.Args[1])); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

// run connects, plays the scenario and closes.
func run(ctx context.Context, url string) (err error) {
	name := os.Getenv("MCP_CONFORMANCE_SCENARIO")
	play, ok := scenarios[name]
	if strings.HasPrefix(name, "auth/") && !ok {
		play, ok = calling(call{"test-tool", `{}`}), true
	}
	if !ok {
		return fmt.Errorf("unknown scenario %q", name)
	}
	sys, err := actors.NewSystem(&actors.Options{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sys.Shutdown(context.WithoutCancel(ctx))) }()
	authorizer, err := authorizing(sys)
	if err != nil {
		return err
	}
	detail := json.RawMessage(os.Getenv("MCP_CONFORMANCE_CONTEXT"))
	server := mcpclient.Server{Name: "suite", URL: url, Protocol: os.Getenv("MCP_CONFORMANCE_PROTOCOL_VERSION")}
	if server.OAuth, err = oauthOf(name, detail); err != nil {
		return err
	}
	client, err := mcpclient.Dial(ctx, server, &mcpclient.Options{
		System: sys, Authorizer: authorizer, AskOptions: mcpclient.AskOptions{Human: answering(name)},
	})
	if err != nil {
		return err
	}
	defer func() {
		if closed := client.Close(); err == nil {
			err = closed
		}
	}()
	return play(ctx, client, detail)
}
