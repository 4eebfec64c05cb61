// Package watch holds what a client watches at its peer over a long time, one
// actor each: tasks, and subscriptions.
// It serves mcpclient, mcpserver and agent, and promises no compatibility.
//
// A task ([Task], kind [actors.KindTask]) is a request of ours that the peer works
// on without holding the request open. Both designs of the protocol, the core tasks
// of 2025-11-25 and the extension of 2026-07-28, are a [Generation] of the same
// actor: it polls while it has a waiter, fetches the result, answers what the peer
// wants to know, and cancels. A subscription ([Listen], kind
// [actors.KindSubscription]) owns a subscriptions/listen request of 2026-07-28, and
// [Resources] keeps the subscriptions to resources of the revisions before. [Tasks]
// of the peer, for which we do the work, are [Served].
//
// # What is promised
//
//   - A waiter of a task gets one outcome: its result, its error, that it
//     was cancelled ([ErrCancelled]), is not known any more ([ErrUnknown]), could
//     not be reached, the limit of the waiter, or what killed the actor.
//   - A task is asked for no more often than it wishes, and not at all while it has
//     no waiter. An actor that pauses has no goroutine.
//   - Each question of a task is put once, however often it is read.
//   - A subscription ends once. One that broke is opened again after a
//     growing pause, and says that notices may have been missed.
//
// The package knows nothing of hosts and people: it is given functions that carry
// out requests, start actors and answer questions, so that tests need no connection.
package watch
