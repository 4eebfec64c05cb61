package archtest

import (
	"context"
	"net/http"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/auth"
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
