// Package auth authorizes a client at MCP servers over HTTP, by OAuth 2.1 as MCP has it: it
// finds a server's authorization server, registers there, asks a person, keeps the tokens
// sealed in a store, renews them, and asks again where a server wants more.
//
//	authorizer, err := auth.New(auth.Options{System: sys, Vault: store, Keys: keys, Authorize: ask})
//	client, err := mcpclient.Dial(ctx, server, &mcpclient.Options{System: sys, Authorizer: authorizer})
//
// A server that wants nothing notices nothing. A request that a server has refused was not
// carried out: it is sent again once it is authorized, and its call waits for that without a
// goroutine. What is known of one server, and one account there, is the state of one actor, a
// keeper, so that there is one refresh, and one question to a person, however many calls were
// refused. A lease in the store does the same between processes.
//
// # Files
//
// auth.go has the [Authorizer]; people.go what a person is asked, and who asks; keeper.go the
// actor; refusal.go decides what a refusal means; login.go is the flow; redirect.go takes the
// browser's answer, device.go is without one; renewal.go refreshes; saved.go is what is kept.
package auth
