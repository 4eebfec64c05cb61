// Package auth makes an MCP server over HTTP an OAuth resource server: it checks the tokens
// of requests, says which scopes they need, and publishes where tokens come from.
//
//	rs, err := auth.New(auth.Options{
//		Resource: "https://api.example.com/mcp",
//		Issuers:  []auth.Issuer{{URL: "https://login.example.com"}},
//		Scopes:   auth.Scopes{Base: []string{"mcp"}, Implies: map[string][]string{"files:write": {"files:read"}}},
//	})
//	server, err := mcpserver.New(info, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{
//		Authenticate: rs.Authenticate, Authorize: rs.Authorize, AllowedHosts: []string{"api.example.com"},
//	}})
//	mcpserver.AddTool(server, tool, handler, mcpserver.Scopes("files:write"))
//	http.Handle("/mcp", server.Handler())
//	http.Handle("/.well-known/oauth-protected-resource/", auth.Metadata(rs))
//	http.Handle("/.well-known/oauth-protected-resource", auth.Metadata(rs))
//
// A token is a JWT that a key of one of the issuers has signed, or one about which the issuer
// is asked. It must be for this resource. A client without a token gets 401 and the address of
// the metadata; one whose token has too few scopes gets 403 and all the scopes that the
// request needs, so that it can ask its user for them.
//
// Everything may be used from any goroutine. Keys and answers of issuers are fetched on the
// goroutine of the request that needs them, by a client that contacts only the issuers and
// public addresses; nothing has to be closed. Tokens that were verified are recognised by
// their hash until they expire.
package auth
