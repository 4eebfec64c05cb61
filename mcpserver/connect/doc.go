// Package connect connects accounts of people at other services with an MCP server: a tool that
// needs the caller's GitHub account gets an HTTP client for it, and the caller is sent to a page
// to connect the account if there is none.
//
//	cn, err := connect.New(server, connect.Options{
//		Base: "https://api.example.com/connect", Store: store, Keys: keys, Login: login,
//		Providers: []connect.Provider{connect.GitHub(id, secret)},
//	})
//	mux.Handle("/connect/", cn)
//
//	func handler(ctx context.Context, req *mcpserver.ToolRequest, in In) (string, error) {
//		github, err := cn.Client(ctx, req, "github", "repo")
//		if err != nil {
//			return "", err
//		}
//		resp, err := github.Get("https://api.github.com/user/repos")
//
// # What is promised
//
//   - A page belongs to the person whose MCP request needs it. The visitor, as [Login] knows
//     it, is compared with the principal of the request before anything is shown, and again
//     before anything is stored. A link that was sent on is of no use, nor is the address at
//     the provider: the flow belongs to the browser that began it.
//   - A GET changes nothing, so that previews of links do no harm. What changes something is a
//     POST with a token of its page.
//   - Tokens are sealed in the store, and bound to person and provider. No page, log, error or
//     message of MCP has one, and the client that a handler gets sends them to the provider's
//     own addresses only.
//   - Refreshing is done once, whatever the number of processes, and saved before use. A refused
//     token is refreshed once; where that does not help the account has to be connected again.
//   - The owner of an account learns of it from the next result of a tool that uses it.
//   - Instances that share the store see within seconds what was done at another.
//
// A client that has no elicitation by URL gets the address in an error that its model can show.
// On stdio, where the person who owns the process is the user, pages are on this machine.
//
// # Files
//
// connect.go has the [Connector] and what handlers do; provider.go the providers; account.go
// what is kept of an account; transport.go the client that handlers get; pending.go the pages
// and flows that are open; pages.go shows them; look.go is what they look like; login.go and
// oidc.go find out who the visitor is; local.go is for stdio.
package connect
