package archtest

import (
	"context"
	"net/http"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/auth"
	"github.com/troupe-dev/troupe/mcpserver/authserver"
)

type saveIn struct{}

// docs/guides/authorization.md, As a server.
var _ = func(info mcp.Implementation, mux *http.ServeMux, save func(context.Context, *mcpserver.ToolRequest, saveIn) (string, error)) error {
	rs, err := auth.New(auth.Options{
		Resource: "https://mcp.example.com/mcp",
		Issuers:  []auth.Issuer{{URL: "https://login.example.com"}},
		Scopes:   auth.Scopes{Base: []string{"mcp"}, Implies: map[string][]string{"files:write": {"files:read"}}},
	})
	if err != nil {
		return err
	}
	s, err := mcpserver.New(info, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{
		Authenticate: rs.Authenticate, Authorize: rs.Authorize, AllowedHosts: []string{"mcp.example.com"},
	}})
	if err != nil {
		return err
	}
	err = mcpserver.AddTool(s, &mcp.Tool{Name: "save"}, save, mcpserver.Scopes("files:write"))
	mux.Handle("/mcp", s.Handler())
	mux.Handle("/.well-known/oauth-protected-resource", auth.Metadata(rs))
	mux.Handle("/.well-known/oauth-protected-resource/", auth.Metadata(rs))
	return err
}

// docs/guides/authorization.md, Without an identity provider.
var _ = func(ctx context.Context, mux *http.ServeMux, sessions interface {
	User(*http.Request) (string, bool)
}, s authserver.Store, keys [][]byte) error {
	as, err := authserver.New(ctx, authserver.Options{
		Issuer: "https://mcp.example.com", Resources: []string{"https://mcp.example.com/mcp"}, Scopes: []string{"mcp", "files:write"}, Default: []string{"mcp"},
		Login: authserver.LoginAt("/login-of-mine", func(r *http.Request) (subject string, ok bool) { return sessions.User(r) }), Store: s, Keys: keys,
	})
	if err != nil {
		return err
	}
	as.Mount(mux)
	return nil
}
