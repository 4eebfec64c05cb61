// Package logins tests servers of ours that demand tokens, "troupe serve" and one made with
// mcpserver/auth, with clients that others wrote and our own: they log in at an authorization
// server, another program or our own within the server, use tools that need more scopes than others, and come back when a token is refused.
//
// world_test.go has the servers and the person, clients_test.go the clients.
package logins
