package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// startProtected starts an MCP server that wants a token, and its authorization server, which
// agrees to everything at once. Its address is $PROTECTED.
func startProtected(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: protected")
	}
	p := &protected{challenges: map[string]string{}, tokens: map[string]bool{}}
	srv := httptest.NewUnstartedServer(nil)
	p.base = "http://" + srv.Listener.Addr().String()
	handler, err := p.handler()
	ts.Check(err)
	srv.Config.Handler = handler
	srv.Start()
	ts.Defer(func() { srv.CloseClientConnections(); srv.Close() })
	ts.Setenv("PROTECTED", p.base+"/mcp")
	ts.Setenv("BROWSER", "browse")
}

// protected is both servers.
type protected struct {
	base string

	mu         sync.Mutex // guards the fields below
	challenges map[string]string
	tokens     map[string]bool
}

func (p *protected) handler() (http.Handler, error) {
	s, err := mcpserver.New(mcp.Implementation{Name: "protected", Version: "1"}, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: p.authenticate}})
	if err != nil {
		return nil, err
	}
	err = mcpserver.AddTool(s, &mcp.Tool{Name: "whoami"}, func(_ context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
		return "you are ada", nil
	})
	mux := http.NewServeMux()
	mux.Handle("/mcp", s.Handler())
	document := func(path string, doc map[string]any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, doc) })
	}
	document("/.well-known/oauth-protected-resource/mcp", map[string]any{"resource": p.base + "/mcp", "authorization_servers": []string{p.base}, "scopes_supported": []string{"read"}})
	document("/.well-known/oauth-authorization-server", map[string]any{
		"issuer": p.base, "authorization_endpoint": p.base + "/authorize", "token_endpoint": p.base + "/token",
		"registration_endpoint": p.base + "/register", "revocation_endpoint": p.base + "/revoke",
		"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"},
	})
	mux.HandleFunc("POST /register", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusCreated, map[string]any{"client_id": "registered", "token_endpoint_auth_method": "none"})
	})
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("POST /revoke", func(_ http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.tokens, r.FormValue("token"))
	})
	return mux, err
}

func answer(w http.ResponseWriter, status int, doc any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc)
}

func (p *protected) authenticate(r *http.Request) (*mcpserver.Principal, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tokens[r.Header.Get("Authorization")] {
		return &mcpserver.Principal{ID: "ada"}, nil
	}
	return nil, &mcpserver.AuthError{
		Status: http.StatusUnauthorized, Challenge: fmt.Sprintf("Bearer resource_metadata=%q", p.base+"/.well-known/oauth-protected-resource/mcp"),
		Err: errors.New("no token"),
	}
}

func (p *protected) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p.mu.Lock()
	defer p.mu.Unlock()
	code := fmt.Sprint("code-", len(p.challenges))
	p.challenges[code] = q.Get("code_challenge")
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
}

func (p *protected) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if p.challenges[r.FormValue("code")] != base64.RawURLEncoding.EncodeToString(sum[:]) {
		answer(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	token := fmt.Sprint("token-", len(p.tokens))
	p.tokens["Bearer "+token] = true
	answer(w, http.StatusOK, map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": 3600, "scope": "read"})
}

// browse is a browser that shows one page.
func browse() {
	resp, err := http.Get(os.Args[1])
	if err == nil {
		_, err = io.Copy(os.Stdout, resp.Body)
		resp.Body.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
