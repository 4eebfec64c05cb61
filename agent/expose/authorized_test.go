package expose_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/expose"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// AUTH-51, AUTH-60, SECA-23: a gateway judges the scopes of a call by the name of the tool,
// before a server behind it hears of the call, and passes no token on.
func TestGatewayScopes(t *testing.T) {
	for _, protocol := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(protocol, func(t *testing.T) {
			const narrow, wide = "narrow-secret-0123456789", "wide-secret-0123456789"
			var mu sync.Mutex // of goroutines of requests
			var passed []string
			f := newFront(t, "", func(ro *agent.Options, fo *expose.Options) {
				behind := newDownstream(t).Handler()
				ro.Servers = []mcpclient.Server{{Name: "down", Trusted: true, URL: serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					var all strings.Builder
					_ = r.Header.Write(&all)
					mu.Lock()
					passed = append(passed, r.URL.String()+all.String())
					mu.Unlock()
					behind.ServeHTTP(w, r)
				}))}}
				fo.Server.HTTP = mcpserver.HTTPOptions{
					ScopeRules: []mcpserver.ScopeRule{{Name: "down__*", Scopes: []string{"down:call"}}},
					Authenticate: func(r *http.Request) (*mcpserver.Principal, error) {
						switch r.Header.Get("Authorization") {
						case "Bearer " + narrow:
							return &mcpserver.Principal{ID: "ada"}, nil
						case "Bearer " + wide:
							return &mcpserver.Principal{ID: "ada", Scopes: []string{"down:call"}}, nil
						}
						return nil, errors.New("no token")
					}}
			})
			dial := func(token string) *upstream {
				return f.connect(t, mcpclient.Server{Name: "front", Protocol: protocol, Headers: map[string]string{"Authorization": "Bearer " + token}}, "http", protocol, nil)
			}
			u := dial(narrow)
			if tools, err := u.ListTools(t.Context()); err != nil || len(tools) < 2 {
				t.Errorf("the list without the scope: got %d tools, %v", len(tools), err)
			}
			_, err := u.CallTool(t.Context(), "down__log", json.RawMessage(`{}`), nil)
			refused, ok := errors.AsType[*mcpclient.AuthRequiredError](err)
			if !ok || !strings.Contains(refused.Error(), "403") && !strings.Contains(err.Error(), "insufficient_scope") {
				t.Errorf("without the scope: got %v", err)
			}
			if res, err := dial(wide).CallTool(t.Context(), "down__log", json.RawMessage(`{}`), nil); err != nil || text(res.Content) != "done" {
				t.Errorf("with the scope: got %+v, %v", res, err)
			}
			mu.Lock()
			defer mu.Unlock()
			calls := 0
			for _, r := range passed {
				if strings.Contains(r, "tools/call") {
					calls++
				}
				if strings.Contains(r, "secret") || strings.Contains(r, "Authorization") {
					t.Errorf("the server behind the gateway got %s", r)
				}
			}
			if len(passed) == 0 || protocol == "2026-07-28" && calls > 1 {
				t.Errorf("%d requests passed, %d of them calls", len(passed), calls)
			}
		})
	}
}
