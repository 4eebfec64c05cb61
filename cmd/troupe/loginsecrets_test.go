package main

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// planted is an MCP server with its authorization server, which repeat all secrets that they are
// shown, and remember them.
type planted struct {
	base string

	mu      sync.Mutex // guards the fields below
	secrets map[string]string
	refresh map[string]bool
	good    string // the access token that is good, as the header has it
	want    string // a scope that the server wants
	scope   string // that the token has
	broken  bool   // no token is renewed
	renewed int
}

// plant makes a secret.
func (p *planted) plant(what string) string {
	s := fmt.Sprintf("%s-planted-%d-%s", what, len(p.secrets), strings.Repeat("x", 20))
	p.secrets[s] = what
	return s
}

func (p *planted) handler() (http.Handler, error) {
	s, err := mcpserver.New(mcp.Implementation{Name: "planted", Version: "1"}, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: p.authenticate}})
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
		"issuer": p.base, "authorization_endpoint": p.base + "/authorize", "token_endpoint": p.base + "/token", "registration_endpoint": p.base + "/register",
		"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"client_secret_basic"},
	})
	mux.HandleFunc("POST /register", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		answer(w, http.StatusCreated, map[string]any{"client_id": "registered", "client_secret": p.plant("client"), "token_endpoint_auth_method": "client_secret_basic"})
	})
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		q := r.URL.Query()
		p.scope = q.Get("scope")
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {p.plant("code")}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("POST /token", p.token)
	return mux, err
}

func (p *planted) authenticate(r *http.Request) (*mcpserver.Principal, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	refuse := func(status int, challenge string) (*mcpserver.Principal, error) {
		return nil, &mcpserver.AuthError{
			Status: status, Challenge: fmt.Sprintf("Bearer resource_metadata=%q, error_description=%q%s", p.base+"/.well-known/oauth-protected-resource/mcp", "you sent "+r.Header.Get("Authorization"), challenge),
			Err: errors.New("no"),
		}
	}
	switch {
	case p.good == "" || r.Header.Get("Authorization") != p.good:
		return refuse(http.StatusUnauthorized, "")
	case !slices.Contains(strings.Fields(p.scope), p.want):
		return refuse(http.StatusForbidden, fmt.Sprintf(", error=%q, scope=%q", "insufficient_scope", p.want))
	}
	return &mcpserver.Principal{ID: "ada"}, nil
}

func (p *planted) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = r.ParseForm()
	if v := r.FormValue("code_verifier"); v != "" {
		p.secrets[v] = "verifier"
	}
	if old := r.FormValue("refresh_token"); old != "" {
		if !p.refresh[old] || p.broken {
			answer(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": "you sent " + r.Form.Encode() + " with " + r.Header.Get("Authorization")})
			return
		}
		delete(p.refresh, old)
		p.renewed++
	}
	access, refresh := p.plant("access"), p.plant("refresh")
	p.good, p.refresh[refresh] = "Bearer "+access, true
	answer(w, http.StatusOK, map[string]any{"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": 1, "scope": p.scope})
}

// TestLoginSecrets: a whole use of a server with a login, over a step-up, renewals, calls that fail,
// and a run of an agent, leaves no secret in what is printed, in a log, in an event, in a journal,
// or in a file of the store, in whatever encoding (SECA-24, SECA-27).
func TestLoginSecrets(t *testing.T) {
	t.Parallel()
	p := &planted{secrets: map[string]string{}, refresh: map[string]bool{}, want: "read"}
	srv := httptest.NewUnstartedServer(nil)
	p.base = "http://" + srv.Listener.Addr().String()
	var err error
	if srv.Config.Handler, err = p.handler(); err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	h := newHome(t)
	h.env = []string{"BROWSER=browse"}
	h.plays("openai", llmtest.NewServer(llmtest.Call("far__whoami", `{}`), llmtest.Say("Ada.")))
	file := h.config(map[string]any{"far": map[string]any{"url": p.base + "/mcp"}})
	texts := map[string]string{}
	does := func(code int, args ...string) {
		t.Helper()
		out := h.run(append(args, "--log-level", "debug")...)
		if out.code != code {
			t.Errorf("troupe %q: exited with %d, want %d\n%s%s", args, out.code, code, out.stdout, out.stderr)
		}
		texts[fmt.Sprintf("%d troupe %s", len(texts), strings.Join(args, " "))] = out.stdout + out.stderr
	}
	set := func(f func()) {
		p.mu.Lock()
		defer p.mu.Unlock()
		f()
	}
	does(env.ExitLogin, "mcp", "call", "--mcp-config", file, "far", "whoami")
	does(0, "mcp", "login", "far", "--mcp-config", file)
	set(func() { p.good = "" }) // the server does not take the token any more
	does(0, "run", "--yes", "--mcp-config", file, "--output-format", "stream-json", "--run-id", "planted", "Who am I?")
	set(func() { p.want = "more" })
	does(env.ExitLogin, "mcp", "call", "--mcp-config", file, "far", "whoami")
	does(0, "mcp", "login", "far", "--mcp-config", file)
	does(0, "mcp", "call", "--mcp-config", file, "far", "whoami")
	set(func() { p.good, p.broken = "", true })
	does(env.ExitLogin, "mcp", "call", "--mcp-config", file, "far", "whoami")
	for _, args := range [][]string{{"runs", "show", "planted"}, {"runs", "show", "planted", "--json"}, {"config", "show"}, {"inbox", "ls"}} {
		does(0, args...)
	}
	does(0, "mcp", "ls", "--json", "--mcp-config", file)
	does(0, "mcp", "auth", "ls", "--json", "--mcp-config", file)
	p.mu.Lock()
	defer p.mu.Unlock()
	kinds := map[string]int{}
	for _, kind := range p.secrets {
		kinds[kind]++
	}
	for _, kind := range []string{"client", "code", "verifier", "access", "refresh"} {
		if kinds[kind] == 0 || p.renewed == 0 {
			t.Errorf("too little has happened: %v, %d renewals", kinds, p.renewed)
		}
	}
	key, err := os.ReadFile(h.path("state/troupe/key"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(key)))
	if err != nil {
		t.Fatal(err)
	}
	p.secrets[string(raw)], p.secrets[strings.TrimSpace(string(key))] = "key", "key"
	files := 0
	err = filepath.WalkDir(h.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || path == h.path("state/troupe/key") {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), "oauth token") {
			files++
		}
		texts[path] = string(data)
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("the tokens are in no file: %v", err)
	}
	for where, text := range texts {
		for secret, kind := range p.secrets {
			for _, form := range encodings(secret) {
				if strings.Contains(text, form) {
					t.Errorf("%s has a secret (%s) as %q", where, kind, form)
				}
			}
		}
	}
}

// encodings are the texts by which a secret could be written down.
func encodings(secret string) []string {
	all := []string{secret, url.QueryEscape(secret), hex.EncodeToString([]byte(secret))}
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 { // bytes that stand before it, such as of "id:secret"
			text := e.EncodeToString(append(make([]byte, before), secret...))
			all = append(all, text[4*((before+2)/3):len(text)-len(text)%4-4])
		}
	}
	return all
}
