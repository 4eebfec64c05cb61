// Package oauth is the wire of OAuth as MCP uses it: what a client and a resource server read
// and send, and how each is checked. It has no policy, no store and no goroutine: those are its caller's.
//
//	401 ── ParseChallenges ── FetchResource ── FetchServer ── Register ── Client.Begin
//	                                             │                            │ browser
//	                          FetchLegacyServer ─┘      Client.Token ── Authorization.Finish
//
//	Authorization: Bearer ── ParseJWT ── FetchKeySet ── JWT.Verify, or Client.Introspect
//
// Each function that asks takes a context and an HTTP client, which must be one of package
// netguard: that decides at the connection which addresses are contacted, follows no
// redirect and bounds the time. All input is hostile until checked: documents are strict
// JSON of at most 64 KiB, lists and texts are bounded, addresses are https, or this
// machine's where the MCP server is on it.
//
// Tokens, codes and keys are of type [Secret], which shows as "***". No error has the text of
// an answer in it, but the code and the description of an [Error], cleaned for a terminal.
//
// Everything may be used from any goroutine, as long as it is not changed.
package oauth
