// Connect is an MCP server whose tool needs an account that its user has elsewhere: a page
// connects it, and the token stays in the server. The service is a small one of its own.
//
//	troupe mcp call --mcp "go run ./examples/connect" my_repos
//	go run ./examples/connect -http 127.0.0.1:8080    # for several people: see tokens below
//
// The guide docs/guides/connect.md goes through it.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/examples/connect/hub"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/connect"
	"github.com/troupe-dev/troupe/store/memstore"
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
	service, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer service.Close()
	go func() { _ = http.Serve(service, new(hub.Hub)) }()
	base := ""
	if addr != "" {
		base = "http://" + addr + "/connect" // https behind a proxy, in production
	}
	s, cn, err := newServer(base, "http://"+service.Addr().String())
	if err != nil {
		return err
	}
	defer s.Close()
	defer cn.Close()
	if addr == "" {
		return s.ServeStdio(ctx)
	}
	web := &http.Server{Addr: addr, Handler: newMux(s, cn), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- web.ListenAndServe() }()
	log.Printf("MCP is at http://%s/mcp, for the tokens ada-token and bob-token; the accounts are at %s", addr, base)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	wait, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(s.Shutdown(wait), web.Shutdown(wait))
}

// newServer returns a server with one tool, and the accounts of its users.
func newServer(base, service string) (*mcpserver.Server, *connect.Connector, error) {
	opts := &mcpserver.Options{}
	if base != "" {
		opts.HTTP.Authenticate = authenticate
	}
	s, err := mcpserver.New(mcp.Implementation{Name: "repos", Version: "1.0.0"}, opts)
	if err != nil {
		return nil, nil, err
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails; connect.Keys keeps one in a file
	cn, err := connect.New(s, connect.Options{
		Base: base, Name: "Repos",
		Store: memstore.New(nil), Keys: [][]byte{key}, // sqlite keeps accounts over a restart
		Login:     connect.LoginAt("/login", visitor),
		Providers: []connect.Provider{hub.Provider(service)},
		Logger:    slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return nil, nil, err
	}
	type none struct{}
	err = mcpserver.AddTool(s, &mcp.Tool{Name: "my_repos", Description: "Lists the repositories of the user at Hub."},
		func(ctx context.Context, req *mcpserver.ToolRequest, _ none) (string, error) {
			client, err := cn.Client(ctx, req, "hub", "repo")
			if err != nil {
				return "", err
			}
			return repos(ctx, client, service)
		})
	return s, cn, err
}

// repos asks the service, with a client that has the user's token.
func repos(ctx context.Context, client *http.Client, service string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, service+"/user/repos", nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var names []string
	if err := json.NewDecoder(resp.Body).Decode(&names); err != nil {
		return "", fmt.Errorf("reading the repositories: %w", err)
	}
	return strings.Join(names, "\n"), nil
}

// newMux serves MCP, the pages, and a login.
func newMux(s *mcpserver.Server, cn *connect.Connector) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/mcp", s.Handler())
	mux.Handle("/connect", cn)
	mux.Handle("/connect/", cn)
	mux.Handle("/login", http.NewCrossOriginProtection().Handler(http.HandlerFunc(login)))
	return mux
}

// tokens stand for the people who may use the server: in production they come from an
// authorization server, see package mcpserver/auth.
var tokens = map[string]string{"ada-token": "ada", "bob-token": "bob"}

// authenticate says who sends an MCP request.
func authenticate(r *http.Request) (*mcpserver.Principal, error) {
	name := tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	if name == "" {
		return nil, &mcpserver.AuthError{Status: http.StatusUnauthorized, Challenge: `Bearer realm="repos"`}
	}
	return &mcpserver.Principal{ID: name}, nil
}

// visitor says who visits a page: the same people, by the cookie of the login.
func visitor(r *http.Request) (issuer, subject string, ok bool) {
	cookie, err := r.Cookie("session")
	if err != nil {
		return "", "", false
	}
	name := tokens[cookie.Value]
	return "", name, name != ""
}

var loginPage = template.Must(template.New("").Parse(`<!doctype html><title>Repos</title><h1>Repos</h1>
<form method="post"><input type="hidden" name="return_to" value="{{.}}">
<label>Your token <input name="token" type="password"></label> <button>Log in</button></form>`))

// login is what your program has already: connect.OIDC is another.
func login(w http.ResponseWriter, r *http.Request) {
	back := r.FormValue("return_to")
	if !strings.HasPrefix(back, "/connect") {
		back = "/connect"
	}
	if r.Method != http.MethodPost {
		_ = loginPage.Execute(w, back)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: "session", Value: r.FormValue("token"), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, back, http.StatusSeeOther)
}
