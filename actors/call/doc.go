// Package call holds outgoing requests: one logical request is one actor, from
// the moment it is accepted until its one outcome.
// It serves mcpclient, mcpserver and agent, and promises no compatibility.
//
// A [Table] belongs to a connection. Its calls are actors of kind
// [actors.KindCall], children of the connection's actor, used again and run on
// the goroutine of their senders, so that a pending call costs about a
// kilobyte and no goroutine. [Table.Do] is all that most callers need;
// [Table.Start] returns a handle, and is what actors use:
//
//	res, err := calls.Do(ctx, &call.Request{Method: mcp.MethodPing, Safe: true})
//
// # What is promised
//
//   - Every call gets exactly one outcome: the peer's result, its error
//     ([*mcp.Error]), a [TimeoutError], the cause of the caller's context, a
//     [LostError], [TransportError], [ErrBusy], [ErrClosed], or what killed its actor.
//   - A call that ends without an answer is withdrawn from the wire with
//     notifications/cancelled, except initialize. What the
//     peer still answers is ignored and counted.
//   - A call may be sent more than once, each time with an id that was never
//     used before: when the peer has certainly not carried it out, when its
//     caller said that it is safe, or because its Follow wants to;
//     all of it a bounded number of times.
//   - Between two attempts nothing is on the wire: a person may be asked, for as
//     long as it takes, over lost connections. The call's clocks stand still then,
//     and its end ends the question and sends nothing.
//   - No call outlives its connection's actor.
//
// # Several attempts
//
// [Request].Follow looks at each answer and says how to go on: with that answer as
// the outcome, with another one, with another attempt at once or after a pause, or
// with a Wait, whose end says the same again:
//
//	Follow: func(a call.Answer) call.Step {
//		if !needsSomebody(a.Err) {
//			return call.Step{}
//		}
//		return call.Step{Wait: func(resume func(call.Step)) (abort func(error)) {
//			return ask(func() { resume(call.Step{Retry: &call.Retry{}}) })
//		}}
//	},
//
// It is a message each time: response, resumed, followed. A call without Follow
// pays nothing for it.
//
// The connection tells the table what happens to its transport: Open, Agree,
// Ready, Lost, Failed, and passes on what the peer sends: Deliver, Progress. While
// the peer asks a question in turn, [Table.Hold] keeps the clocks of the calls still
// that it may belong to, and [Table.Out] says which those are. Tests need
// only an actor that binds the table and a [mcp.Link] that writes to memory.
package call
