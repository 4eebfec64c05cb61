// Package elicit holds pending URL elicitations: a server has sent a person to a web
// page, and says later that it is done. One that is pending is an actor of kind
// [actors.KindElicitation], a child of the connection, so that it outlives
// transports and costs no goroutine. It serves mcpclient, mcpserver and agent, and
// promises no compatibility.
//
//	table := elicit.New(k.SpawnChild, elicit.Options{})
//	p, err := table.Open(elicitationID)
//	abort := p.Wait(func(err error) { … }) // a call goes on when err is nil
//	table.Complete(elicitationID)          // what the server's notification does
//
// # What is promised
//
//   - Everybody who waits is told once: nil after the completion or a manual retry,
//     else [ErrExpired], [ErrCancelled] or [ErrFailed].
//   - A completion may come before Open: ids are remembered for a while, within a
//     bound. Those that were not opened by then, and duplicates, are ignored.
//   - The end of the actor of a pending elicitation ends the waits for that one,
//     and no other.
//   - Nothing here blocks: all of it may be used from a Receive.
package elicit
