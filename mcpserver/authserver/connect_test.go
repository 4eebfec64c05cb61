package authserver_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/authserver"
	"github.com/troupe-dev/troupe/mcpserver/connect"
)

// SECA-28, URL-21: a server that is an authorization server, too, and connects accounts: who visits
// a page of connect is who logged in here, and so who has the token of the MCP request.
func TestLoginOfConnect(t *testing.T) {
	file := usersFile(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *authserver.Options) { o.Login = authserver.Users(file) })
		alice, bob := w.browser(""), w.browser("")
		alice.logsIn("alice", "alice's password")
		client := w.register(nil)
		access, _ := w.tokens(redeem(client, alice.consent(ask(client, nil)), nil))

		opts := &mcpserver.Options{Records: w.store}
		opts.HTTP.Authenticate, opts.HTTP.AllowedHosts = w.rs.Authenticate, []string{"mcp.example.com"}
		s := must(mcpserver.New(mcp.Implementation{Name: "notes", Version: "1"}, opts))
		defer s.Close()
		cn := must(connect.New(s, connect.Options{
			Base: issuer + "/connect", Store: w.store, Keys: [][]byte{testKey}, NoWait: true,
			Login:     connect.LoginAt(issuer+"/login", w.as.Visitor),
			Providers: []connect.Provider{connect.APIKey("notes", connect.APIKeyConfig{API: []string{"https://notes.example"}})},
		}))
		defer cn.Close()
		err := mcpserver.AddTool(s, &mcp.Tool{Name: "use"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			_, err := cn.Client(ctx, req, "notes")
			return "connected", err
		})
		if err != nil {
			t.Fatal(err)
		}
		mux := http.NewServeMux()
		w.as.Mount(mux)
		mux.Handle("/mcp", s.Handler())
		mux.Handle("/connect/", cn)
		w.net.mu.Lock()
		w.net.hosts["mcp.example.com"] = mux
		w.net.mu.Unlock()
		use := func() string {
			t.Helper()
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"use","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"client","version":"1"}}}}`
			r := must(http.NewRequestWithContext(t.Context(), http.MethodPost, resource, bytes.NewReader([]byte(body))))
			for name, value := range map[string]string{
				"Authorization": "Bearer " + access, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
				"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "use",
			} {
				r.Header.Set(name, value)
			}
			resp := must(w.net.RoundTrip(r))
			defer resp.Body.Close()
			return fmt.Sprint(resp.StatusCode, " ", string(must(io.ReadAll(resp.Body))))
		}
		page := regexp.MustCompile(issuer + `/connect/start/[0-9a-f-]+`).FindString(use())
		p := bob.get(page)
		if at, q := p.location(); p.status != http.StatusFound || at != issuer+"/login" || q.Get("return_to") != strings.TrimPrefix(page, issuer) {
			t.Fatalf("an unknown visitor of %q: %d %s", page, p.status, p.header.Get("Location"))
		}
		p = bob.get(p.header.Get("Location"))
		p = bob.do(http.MethodPost, issuer+"/login", url.Values{"token": {p.token()}, "user": {"bob"}, "password": {"bob's password"}})
		if got := p.header.Get("Location"); issuer+got != page {
			t.Errorf("the login leads to %q, want back to the page", got)
		}
		if p := bob.get(page); p.status != http.StatusForbidden || strings.Contains(p.body, "notes") {
			t.Errorf("Bob on Alice's page: %d %s", p.status, p.body)
		}
		p = alice.get(page)
		if p.status != http.StatusOK || !strings.Contains(p.body, `id="visitor">alice<`) {
			t.Fatalf("Alice on her page: %d %s", p.status, p.body)
		}
		alice.do(http.MethodPost, page, url.Values{"token": {p.token()}, "do": {"connect"}, "key": {"a-key"}}, "Sec-Fetch-Site", "same-origin")
		if got := use(); !strings.Contains(got, `"connected"`) {
			t.Errorf("got %s", got)
		}
	})
}
