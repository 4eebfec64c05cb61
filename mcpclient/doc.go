// Package mcpclient talks to MCP servers, one or many at once, in every revision
// of the protocol.
//
// [Dial] connects to one server; [NewHost] keeps many running, merges their tools
// into one catalogue and routes calls to them:
//
//	host, err := mcpclient.NewHost(sys, []mcpclient.Server{
//		mcpclient.Command("npx", "-y", "@modelcontextprotocol/server-filesystem", "."),
//	}, nil)
//	tools, err := host.Tools(ctx)
//	res, err := host.Call(ctx, "filesystem__list_directory", args, nil)
//	err = host.Close()
//
// # What is promised
//
//   - A server that fails, hangs, floods or lies concerns its own calls alone;
//     it is restarted under supervision.
//   - Which era a server belongs to is found out by asking, and what it
//     did not declare is never asked of it.
//   - No command from a configuration file is started without consent.
//   - Close ends everything, processes and their children included.
//
// All methods may be used from any goroutine. What waits takes a context. Tests of
// code that uses this package need no process: see [InProcess].
package mcpclient
