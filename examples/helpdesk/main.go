// Helpdesk is an MCP server with one tool of each kind: quick, slow, asking by a form,
// sending the user to a page, and using the client's model.
//
//	troupe mcp call --mcp "go run ./examples/helpdesk" find_ticket '{"text":"printer"}'
//	go run ./examples/helpdesk -http 127.0.0.1:8080    # with a token: see tokens below
//
// The guide docs/guides/server.md goes through it.
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

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

func main() {
	log.SetFlags(0) // logs go to stderr: stdout belongs to the protocol
	addr := flag.String("http", "", "serve over HTTP at this `address` instead of stdio")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, *addr); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, addr string) error {
	if addr == "" { // a client has started this program: there is one user, and no token
		s, err := newServer(newDesk(""), nil)
		if err != nil {
			return err
		}
		return s.ServeStdio(ctx)
	}
	desk := newDesk("http://" + addr)
	s, err := newServer(desk, authenticate)
	if err != nil {
		return err
	}
	return serveHTTP(ctx, addr, s, desk)
}

// serveHTTP serves until ctx ends, and then lets the calls in flight end.
func serveHTTP(ctx context.Context, addr string, s *mcpserver.Server, desk *desk) error {
	mux := http.NewServeMux()
	mux.Handle("/mcp", s.Handler())
	mux.Handle("/rate/", desk.ratePage(s))
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

// newServer registers the tools of a desk.
func newServer(d *desk, authenticate func(*http.Request) (*mcpserver.Principal, error)) (*mcpserver.Server, error) {
	s, err := mcpserver.New(mcp.Implementation{Name: "helpdesk", Version: "1.0.0"}, &mcpserver.Options{
		Instructions: "Search for a ticket before you close or rate it.",
		HTTP:         mcpserver.HTTPOptions{Authenticate: authenticate},
	})
	if err != nil {
		return nil, err
	}
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true}
	return s, errors.Join(
		mcpserver.AddFunc(s, &mcp.Tool{Name: "find_ticket", Description: "Finds tickets that contain a text.", Annotations: readOnly}, d.find),
		mcpserver.AddTool(s, &mcp.Tool{Name: "check_all", Description: "Checks every ticket.", Annotations: readOnly}, d.checkAll),
		mcpserver.AddTool(s, &mcp.Tool{Name: "close_ticket", Description: "Closes a ticket. The user confirms it."}, d.close),
		mcpserver.AddTool(s, &mcp.Tool{Name: "rate_ticket", Description: "Sends the user to a page that rates the work on a ticket."}, d.rate),
		mcpserver.AddTool(s, &mcp.Tool{Name: "draft_reply", Description: "Drafts a reply to a ticket.", Annotations: readOnly}, d.draftReply),
	)
}

// tokens are the users of this example. A real server verifies a signed token here, or
// asks the authorization server that has issued it.
var tokens = map[string]string{"ada-secret": "ada", "bob-secret": "bob"}

// authenticate finds out who sends an HTTP request.
func authenticate(r *http.Request) (*mcpserver.Principal, error) {
	user, ok := userOf(r)
	if !ok {
		return nil, &mcpserver.AuthError{Status: http.StatusUnauthorized, Challenge: `Bearer realm="helpdesk"`}
	}
	return &mcpserver.Principal{ID: user}, nil
}

func userOf(r *http.Request) (user string, ok bool) {
	const scheme = "Bearer "
	header := r.Header.Get("Authorization")
	if len(header) <= len(scheme) {
		return "", false
	}
	user, ok = tokens[header[len(scheme):]]
	return user, ok && header[:len(scheme)] == scheme
}
