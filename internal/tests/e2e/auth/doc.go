// Package auth tests the authorization of clients with programs that others wrote: the
// authorization server oidc-provider, MCP servers on the Go SDK and on version 2 of the TypeScript
// SDK that demand its tokens, and Chromium. What it needs of those is in packages peers and chromium.
//
// world_test.go has the servers, client_test.go the programs of ours that are authorized at them.
package auth
