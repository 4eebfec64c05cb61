// Package call holds outgoing requests: one logical request is one actor, from
// the moment it is accepted until its one outcome.
//
// A [Table] belongs to a connection. Its calls are actors of kind
// [actors.KindCall], children of the connection's actor, used again and run on
// the goroutine of whoever sends to them, so that a pending call costs about a
// kilobyte and no goroutine. [Table.Do] is all that most callers need:
//
//	res, err := calls.Do(ctx, &call.Request{Method: mcp.MethodPing, Safe: true})
//
// # What is promised
//
//   - Every call gets exactly one outcome: the peer's result, its error
//     ([*mcp.Error]), a [TimeoutError], the cause of the caller's context, a
//     [LostError], [ErrBusy], [ErrClosed], or what killed its actor.
//   - A call that ends without an answer is withdrawn from the wire with
//     notifications/cancelled (CANC-03), except initialize (CANC-04). What the
//     peer still answers is ignored and counted (BASE-15, CANC-06).
//   - A call may be sent more than once, each time with an id that was never
//     used before (BASE-04): when it had not left this process, or when its
//     caller said that it is safe, and a bounded number of times.
//   - No call outlives its connection's actor.
//
// The connection tells the table what happens to its transport: Open, Agree,
// Ready, Lost, and passes on what the peer sends: Deliver, Progress. Tests need
// only an actor that forwards its messages to [Table.Receive] and a [mcp.Link]
// that writes to memory.
package call
