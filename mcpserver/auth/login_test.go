package auth_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/seal"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	clientauth "github.com/troupe-dev/troupe/mcpclient/auth"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/auth"
	"github.com/troupe-dev/troupe/store/memstore"
)

// tinyAS is an authorization server on this machine that agrees to everything at once.
type tinyAS struct {
	issuer string

	mu    sync.Mutex // guards the fields below, of goroutines of requests
	codes map[string]url.Values
	asked []string // the scopes of each authorization
	life  time.Duration
}

func (a *tinyAS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	answer := func(status int, v any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	_ = r.ParseForm()
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server/as":
		answer(200, object{"issuer": a.issuer, "authorization_endpoint": a.issuer + "/authorize", "token_endpoint": a.issuer + "/token", "registration_endpoint": a.issuer + "/register",
			"jwks_uri": a.issuer + "/keys", "code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true})
	case "/as/keys":
		answer(200, object{"keys": []object{jwk("ec", &ecKey().PublicKey)}})
	case "/as/register":
		answer(201, object{"client_id": "tiny", "token_endpoint_auth_method": "none"})
	case "/as/authorize":
		code := fmt.Sprintf("code-%d", len(a.codes))
		a.codes[code] = r.Form
		a.asked = append(a.asked, r.Form.Get("scope"))
		http.Redirect(w, r, r.Form.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {r.Form.Get("state")}, "iss": {a.issuer}}.Encode(), http.StatusFound)
	case "/as/token":
		q := a.codes[r.Form.Get("code")]
		if q == nil || q.Get("resource") != r.Form.Get("resource") {
			answer(400, object{"error": "invalid_grant"})
			return
		}
		answer(200, object{"access_token": sign(object{"alg": "ES256", "typ": "at+jwt", "kid": "ec"},
			object{"iss": a.issuer, "sub": "alice", "aud": q.Get("resource"), "client_id": "tiny", "scope": q.Get("scope"), "exp": time.Now().Add(a.life).Unix()}, ecKey()),
			"token_type": "Bearer", "expires_in": int(a.life.Seconds()), "scope": q.Get("scope")})
	default:
		http.NotFound(w, r)
	}
}

// AUTH-01, AUTH-03, AUTH-20, AUTH-21, AUTH-45, AUTH-50, AUTH-60, SEC-13: our client logs in at
// a server by what the server says of itself, and is asked for more scopes by the one tool
// that needs them, in both eras; the handler knows the person.
func TestLogin(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_06_18, mcp.V2025_11_25, mcp.V2026_07_28} {
		t.Run(string(v), func(t *testing.T) {
			mux := http.NewServeMux()
			web := httptest.NewServer(mux)
			defer web.Close()
			as := &tinyAS{issuer: web.URL + "/as", codes: make(map[string]url.Values), life: time.Hour}
			rs, err := auth.New(auth.Options{Resource: web.URL + "/mcp", Issuers: []auth.Issuer{{URL: as.issuer}},
				Scopes: auth.Scopes{Base: []string{"mcp"}, Implies: map[string][]string{"files:write": {"files:read"}}}})
			if err != nil {
				t.Fatal(err)
			}
			s, err := mcpserver.New(mcp.Implementation{Name: "guarded", Version: "1"}, &mcpserver.Options{
				Versions: []mcp.Version{v}, HTTP: mcpserver.HTTPOptions{Authenticate: rs.Authenticate, Authorize: rs.Authorize}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			who := func(_ context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
				return req.Principal().Subject + " by " + req.Principal().ClientID, nil
			}
			err = errors.Join(
				mcpserver.AddTool(s, &mcp.Tool{Name: "who"}, who),
				mcpserver.AddTool(s, &mcp.Tool{Name: "read"}, who, mcpserver.Scopes("files:read")),
				mcpserver.AddTool(s, &mcp.Tool{Name: "write"}, who, mcpserver.Scopes("files:write")),
			)
			if err != nil {
				t.Fatal(err)
			}
			mux.Handle("/mcp", s.Handler())
			mux.Handle("/.well-known/oauth-protected-resource/", auth.Metadata(rs))
			mux.Handle("/.well-known/oauth-authorization-server/", as)
			mux.Handle("/as/", as)

			sys, err := actors.NewSystem(nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = sys.Shutdown(context.Background()) }()
			authorizer, err := clientauth.New(clientauth.Options{System: sys, Vault: memstore.New(nil), Keys: [][]byte{seal.NewKey()}, RedirectURI: "http://localhost:3000/callback",
				Authorize: func(ctx context.Context, r *clientauth.Request) error {
					req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL, nil)
					if err != nil {
						return err
					}
					resp, err := http.DefaultTransport.RoundTrip(req)
					if err != nil {
						return err
					}
					resp.Body.Close()
					return r.Redirected(ctx, resp.Header.Get("Location"))
				}})
			if err != nil {
				t.Fatal(err)
			}
			c, err := mcpclient.Dial(t.Context(), mcpclient.Server{Name: "guarded", URL: web.URL + "/mcp"}, &mcpclient.Options{System: sys, Authorizer: authorizer})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for _, tool := range []string{"who", "write", "read", "who"} {
				got, err := c.CallTool(t.Context(), tool, json.RawMessage(`{}`), nil)
				if err != nil {
					t.Fatalf("%s: %v", tool, err)
				}
				if text := got.Content[0].(*mcp.TextContent).Text; text != "alice by tiny" {
					t.Errorf("%s: got %q", tool, text)
				}
			}
			as.mu.Lock()
			defer as.mu.Unlock()
			for i, scopes := range as.asked {
				all := strings.Fields(scopes)
				slices.Sort(all)
				as.asked[i] = strings.Join(all, " ")
			}
			if want := []string{"mcp", "files:write mcp"}; !slices.Equal(as.asked, want) { // write stands for read, too
				t.Errorf("the person was asked for %q, want %q", as.asked, want)
			}
		})
	}
}
