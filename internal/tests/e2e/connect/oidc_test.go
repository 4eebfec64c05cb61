package connect

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/troupe-dev/troupe/internal/tests/chromium"
	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/connect"
)

// registered registers a client at the authorization server.
func registered(t *testing.T, as *peers.OIDC, redirect string) (id string) {
	t.Helper()
	said, err := json.Marshal(map[string]any{"application_type": "native", "redirect_uris": []string{redirect}})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(as.URL+"/reg", "application/json", bytes.NewReader(said))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var client struct {
		ID string `json:"client_id"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&client); err != nil || client.ID == "" {
		t.Fatalf("registering a client: %s, %v", resp.Status, err)
	}
	return client.ID
}

// oidc-provider, certified for OpenID Connect, as the login of the pages and as the service with the
// accounts: found by metadata, with an ID token, rotated refresh tokens, and revocation.
func TestOIDCProvider(t *testing.T) {
	chromium.Require(t)
	as := peers.ListenOIDC(t, "")
	w := newWorld(t)
	s, err := mcpserver.New(mcp.Implementation{Name: "far", Version: "1"}, &mcpserver.Options{Records: w.store, Principal: &mcpserver.Principal{ID: "ada at the issuer", Issuer: as.URL, Subject: peers.Name}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cn, err := connect.New(s, connect.Options{
		Base: w.at + "/connect", Store: w.store, Keys: [][]byte{make([]byte, 32)},
		Login: connect.OIDC(connect.OIDCOptions{Issuer: as.URL, ClientID: registered(t, as, w.at+"/connect/login/callback")}),
		Providers: []connect.Provider{connect.OAuth("far", connect.OAuthConfig{
			Title: "Far", Issuer: as.URL, ClientID: registered(t, as, w.at+"/connect/callback/far"), Scopes: []string{"openid", "offline_access"},
			Params: map[string]string{"prompt": "consent"}, API: []string{as.URL}, AccountURL: as.URL + "/me", AccountField: "sub",
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = mcpserver.AddTool(s, &mcp.Tool{Name: "my_repos"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
		client, err := cn.Client(ctx, req, "far")
		if err != nil {
			return "", err
		}
		resp, err := client.Get(as.URL + "/me")
		if err != nil {
			return "", err
		}
		return resp.Status, resp.Body.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/connect", cn)
	mux.Handle("/connect/", cn)
	w.pages.Store(mux)

	c := w.call(mcpclient.InProcess("far", s))
	ada := &person{w, chromium.Start(t)}
	const button = `button.login-submit`
	ada.do(chromedp.Navigate(c.page), chromedp.SendKeys(`input[name=login]`, peers.Name), chromedp.SendKeys(`input[name=password]`, peers.Password), chromedp.Click(button),
		chromedp.WaitReady(`input[value=consent]`), chromedp.Click(button))
	ada.want("Connect your Far account?")
	ada.want("You are logged in here as\n" + peers.Name)
	ada.do(chromedp.Click(chromedp.CSS(`button[value="connect"]`)), chromedp.WaitReady(`input[value=consent]`), chromedp.Click(button))
	ada.want("Your Far account " + peers.Name + " is connected.")
	if got := c.says(); got != "200 OK" {
		t.Errorf("the tool says %q", got)
	}
	as.Forget("AccessToken")
	for range 2 {
		got, err := c.client.CallTool(t.Context(), "my_repos", nil, nil)
		if err != nil || got.Content.Text() != "200 OK" {
			t.Errorf("after the token's end: got %v, %v", got, err)
		}
	}
	ada.disconnect()
	seen := func(is func(peers.OIDCRequest) bool) int {
		return len(slices.DeleteFunc(as.Seen(), func(r peers.OIDCRequest) bool { return !is(r) }))
	}
	if n := seen(func(r peers.OIDCRequest) bool { return r.Grant == "refresh_token" && r.Status == http.StatusOK }); n != 1 {
		t.Errorf("the token was renewed %d times, want once", n)
	}
	if n := seen(func(r peers.OIDCRequest) bool {
		return strings.HasPrefix(r.Route, "revocation") && r.Status == http.StatusOK
	}); n != 1 {
		t.Errorf("%d revocations, want one", n)
	}
}
