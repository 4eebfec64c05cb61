// Booking is an MCP server that asks before it acts: over stdio, or over HTTP for many
// clients at once.
//
//	troupe mcp call --mcp "go run ./examples/booking" book_table '{"people":4}'
//	go run ./examples/booking -http 127.0.0.1:8080    # then http://127.0.0.1:8080/mcp
//
// The handler is the same for every client there is: one of 2025 is asked by a request,
// one of 2026-07-28 by an answer that it comes back with.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

func main() {
	log.SetFlags(0) // stderr: stdout belongs to the protocol
	addr := flag.String("http", "", "serve over HTTP at this `address` instead of stdio")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s, err := newServer(new(diary))
	if err != nil {
		log.Fatal(err)
	}
	if *addr == "" {
		err = s.ServeStdio(ctx)
	} else {
		err = serveHTTP(ctx, s, *addr)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

// serveHTTP serves until ctx ends, and then lets the calls in flight end.
func serveHTTP(ctx context.Context, s *mcpserver.Server, addr string) error {
	mux := http.NewServeMux()
	mux.Handle("/mcp", s.Handler())
	web := &http.Server{Addr: addr, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- web.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	wait, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(s.Shutdown(wait), web.Shutdown(wait))
}

func newServer(d *diary) (*mcpserver.Server, error) {
	s, err := mcpserver.New(mcp.Implementation{Name: "booking", Version: "1.0.0"}, &mcpserver.Options{
		Instructions: "Books tables. It asks the guest for what is missing.",
	})
	if err != nil {
		return nil, err
	}
	book := func(ctx context.Context, req *mcpserver.ToolRequest, in bookIn) (string, error) {
		line, err := d.book(ctx, req, in)
		if err == nil {
			s.ResourceUpdated(diaryURI)
		}
		return line, err
	}
	return s, errors.Join(
		mcpserver.AddTool(s, &mcp.Tool{Name: "book_table", Description: "Books a table and asks the guest for the name and the time."}, book),
		mcpserver.AddResourceFunc(s, &mcp.Resource{URI: diaryURI, Name: "bookings", Description: "All bookings, one a line.", MIMEType: "text/plain"}, d.read),
		mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: "evening", Description: "Plans an evening."}, evening),
	)
}

const diaryURI = "booking://diary"

type bookIn struct {
	People int `json:"people" jsonschema:"how many will come"`
}

// guest is the form that a person fills in.
type guest struct {
	Name string `json:"name" jsonschema:"in whose name"`
	Time string `json:"time" jsonschema:"such as 19:30"`
}

// diary keeps the bookings.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) book(ctx context.Context, req *mcpserver.ToolRequest, in bookIn) (string, error) {
	who, err := mcpserver.Elicit[guest](ctx, req, "guest", fmt.Sprintf("A table for %d: for whom, and when?", in.People))
	if err != nil {
		return "", err // a guest who declines is no failure of ours: the model reads that they did
	}
	// What has an effect happens once, even if a question that comes later makes the
	// handler run again.
	return mcpserver.Once(ctx, req, "booked", func(context.Context) (string, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		line := fmt.Sprintf("%s: %s, %d people", who.Time, who.Name, in.People)
		d.lines = append(d.lines, line)
		return "Booked, " + line + ".", nil
	})
}

func (d *diary) read(context.Context) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.lines, "\n"), nil
}

type eveningIn struct {
	City string `json:"city"`
}

func evening(_ context.Context, in eveningIn) (string, error) {
	return "Plan an evening in " + in.City + " and book a table for it.", nil
}
