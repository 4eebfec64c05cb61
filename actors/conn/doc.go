// Package conn holds connections: one actor of kind [actors.KindClient] keeps one
// peer reachable, over as many transports as that takes.
// It serves mcpclient, mcpserver and agent, and promises no compatibility.
//
// Each transport is a generation with an actor of its own; whatever comes from an
// older generation is dropped. Dialing and negotiation are ordinary functions that
// run outside of the actor:
//
//	k := conn.New(sys, conn.Options{Name: "files", Dial: dial, Negotiate: negotiate})
//	err := k.Start()
//	res, err := k.Do(ctx, &call.Request{Method: mcp.MethodListTools})
//	err = k.Close(ctx)
//
// # What is promised
//
//   - All callers share one reconnect. Calls made meanwhile wait, within bounds
//     and within their own time limits.
//   - A failed attempt is followed by another after a delay that doubles up to 30
//     seconds, with jitter, and starts anew once a connection has held. An error
//     marked [Permanent] is not retried until a caller asks for the connection; one that
//     a login ends ([Options].Await) not before that.
//   - A request of the peer's ends with the transport it came on ([Options].Inbound);
//     a child of the connection ([Conn.Spawn]) ends with the connection.
//   - Over a silent transport the peer is pinged if that is wanted, and given up
//     when it does not answer ([Options].Ping).
//   - Close lets calls end until its context does, then ends them. When it has
//     returned nothing of the connection is left.
package conn
