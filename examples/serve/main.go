// Serve offers an agent as an MCP server: a tool that runs it, for any client of any revision.
//
//	claude mcp add translator -- go run ./examples/serve
//	go run ./examples/serve -http 127.0.0.1:8080     and the URL is http://127.0.0.1:8080/mcp
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/expose"
	"github.com/troupe-dev/troupe/llm/discover"
	"github.com/troupe-dev/troupe/mcp"
)

func main() {
	log.SetFlags(0) // stderr: stdout belongs to the protocol
	addr := flag.String("http", "", "listen at this `address`, in place of stdin and stdout")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	model, err := discover.Default(ctx)
	if err != nil {
		log.Fatal(err)
	}
	rt, err := agent.Open(ctx, &agent.Options{Model: model})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	front, err := newFront(rt)
	if err != nil {
		log.Fatal(err)
	}
	defer front.Close()
	if *addr == "" {
		err = front.ServeStdio(ctx)
	} else {
		err = listen(ctx, *addr, front.Handler())
	}
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, http.ErrServerClosed) {
		log.Print(err)
	}
}

func newFront(rt *agent.Runtime) (*expose.Front, error) {
	translator, err := rt.Agent("translator", &agent.Config{
		Description:  "Translates a text, and says what is lost by it.",
		Instructions: "Translate into the language that is asked for. Add one sentence on what was lost.",
		Limits:       agent.Limits{Tokens: 20_000}, // of each call
	})
	if err != nil {
		return nil, err
	}
	return expose.New(rt, &expose.Options{
		Info:   mcp.Implementation{Name: "translator", Version: "1.0.0"},
		Agents: []*agent.Agent{translator},
	})
}

func listen(ctx context.Context, addr string, mcp http.Handler) error {
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp)
	srv := &http.Server{Addr: addr, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	return srv.ListenAndServe()
}
