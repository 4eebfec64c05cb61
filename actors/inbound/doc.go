// Package inbound runs incoming requests: each one is a supervised actor from
// its acceptance to its outcome. Both sides of MCP use it, a server for what a
// client asks and a client for what a server asks.
// It serves mcpclient, mcpserver and agent, and promises no compatibility.
//
// A connection has one [Table], which belongs to the actor that stands for the
// connection: that calls [Table.Bind] when it starts and [Table.Close] when it stops.
//
//	func (s *session) Receive(c *actors.Context, msg any) {
//		switch msg.(type) {
//		case actors.Started:
//			s.calls.Bind(c.Self())
//		case actors.Stopping:
//			s.calls.Close(errConnectionLost)
//		}
//	}
//
// The goroutine that has a request calls [Table.Serve], or [Table.Begin] and, on
// another goroutine, [Call.Run]. The work is a [Handler]:
//
//	type request struct {
//		inbound.Call
//		result []byte
//	}
//	err := calls.Serve(&r.Call, r, inbound.Request{ID: id, Method: method})
//
// # What is promised
//
//   - Every request that was accepted gets exactly one outcome: its handler's,
//     or that of the cancel, deadline, failure or stop that came first. One call
//     of Answer, or of Drop for a cancelled request, follows.
//   - A handler that hangs keeps its actor and its place under the limit, but
//     delays no answer, not even its own request's.
//   - A panic of a handler ends its actor alone; the peer learns nothing of it.
//   - After the answer no progress is sent, and before it progress
//     always increases.
//
// # How
//
// The actor does not run the handler: it decides, in no time, on whatever
// goroutine sends to it (the inline mailbox of package actors). Cancel,
// deadline, progress and the handler's end are its messages. It is used again
// for the next request, so what belongs to one request lives in its [Call], and
// messages about a request name the call they are for.
package inbound
