// Package authserver is an OAuth 2.1 authorization server for MCP servers, for teams that have no
// identity provider, or one that cannot do what MCP needs. It may be in the same process as the
// MCP server, or in one of its own.
//
//	as, err := authserver.New(ctx, authserver.Options{
//		Issuer: "https://mcp.example.com", Resources: []string{"https://mcp.example.com/mcp"},
//		Scopes: []string{"mcp", "files:write"}, Default: []string{"mcp"},
//		Login: login, Store: store, Keys: keys,
//	})
//	rs, err := auth.New(auth.Options{
//		Resource: "https://mcp.example.com/mcp", Issuers: []auth.Issuer{as.TokenIssuer()}, Scopes: auth.Scopes{Base: []string{"mcp"}},
//	})
//	as.Mount(mux)
//
// Clients find it by its metadata, and register by themselves or bring the address of a document
// that describes them. A person logs in as [Login] has it, and consents on a page. The client gets
// an access token for one resource, and a refresh token.
//
// # What is promised
//
//   - A person consents each time, to one client, which the page names with what it may do and where
//     the browser goes then. The answer counts only from the browser to which the page was shown.
//   - A code is good once, for a minute, and only for the client, the redirect address and the
//     resource of its request, with the verifier of PKCE. A second use ends what the first has given.
//   - A refresh token is good once. When an old one is used, the grant ends: for the thief and the
//     owner.
//   - Access tokens are good for 15 minutes. A resource server in the same process refuses them
//     within half a minute after their grant has ended.
//   - Before a grant is honoured, the login is asked whether its person may still log in.
//   - What is kept is sealed in the store, has an owner, a bound and an expiry, so that instances
//     share it and nothing has to be swept. The signing key is replaced from time to time.
//   - Nothing is asked of an address that a client has named, except by the guard of package netguard.
//
// # Files
//
// server.go has the [Server] and its routes, options.go its options, site.go its addresses, its
// metadata and how it refuses; authorize.go the request of a client and the page that asks for
// consent; token.go the endpoints that clients call; registry.go finds and registers clients, and
// client.go is what they say of themselves; keys.go has the signing keys; grant.go is what a person
// has consented to, and records.go how all that is kept; login.go finds out who the visitor is,
// users.go by a file, and openid.go by a provider; look.go is what pages look like.
package authserver
