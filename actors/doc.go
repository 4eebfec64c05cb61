// Package actors runs the processes that make up Troupe.
//
// Everything that can be cancelled, time out, report progress or be retried is
// an actor: it has a mailbox, handles one message at a time, and is watched by
// the actor that started it. This package is the kit they are built from; the
// protocol's own actors (incoming requests, outgoing calls, connections, loops)
// are packages below it, which promise no compatibility.
//
//	sys, err := actors.NewSystem(nil)
//	ref, err := sys.Spawn(actors.Spec{Kind: actors.KindHost, Name: "host", New: newHost})
//	ref.Send(hello{})
//	err = sys.Shutdown(ctx)
//
// # What is promised
//
//   - An [Actor] handles one message at a time and never runs on two goroutines
//     at once, so its fields need no lock.
//   - A panic in Receive ends that actor alone; what happens next is the row of
//     its [Kind] in the supervision table. The message that caused it is lost.
//   - A message to an actor that has stopped is dropped and counted, never an
//     error. A caller that needs an answer waits for a [Reply], which the
//     parent completes if the actor fails.
//   - Work that blocks runs in a task ([Await], [Context.Go], [System.Go]). Only
//     this package starts goroutines; a panic in a task is an error with its stack.
//     A task that waits for input may wait without a goroutine ([System.WhenReadable]).
//   - [System.Shutdown] ends all of it within its context, or names what did not end.
//
// # Rules for an actor
//
// Receive never blocks and does no I/O. Messages are not changed once sent.
// Timers and tasks are the actor's: they end with it, and what they send after a
// restart is dropped. An actor on the inline mailbox ([Spec].Inline) is run by
// its senders, so it sends to pooled actors only, and a sender holds no lock that its
// Receive takes.
//
// # What protoactor-go does
//
// This is the only package that imports github.com/asynkron/protoactor-go. The library
// spawns actors, registers them by path, begins and ends their lives, and carries failures
// from child to parent. The kit replaces the rest:
//
//   - children: the library's set of them takes 0.6 KB of each parent, and the props of
//     an actor that may be restarted 0.3 KB. The kit has its children stop before an actor
//     stops or is restarted, and makes the next incarnation.
//   - dispatcher: a goroutine for each wake-up spends 43 % of the time on growing its
//     stack; workers that are used again halve the cost of a call (12 µs in place of 23).
//   - mailbox: its nodes are embedded in the messages, so that a message costs no
//     allocation, and an inline actor runs on its sender: 0.7 µs for a recycled call actor.
//   - send: [Ref.Send] posts to the mailbox, not through the registry: a late message
//     never reaches a later actor of the same name.
//   - futures: a second answer overwrites the first, with a data race, and one of several
//     waiters wakes. A [Reply] is given once, and costs no channel until it is waited for.
//   - timers: the library's receive timeout has a data race and rings once. One clock for
//     all timers costs 100 bytes a timer in place of 260.
//   - strategies: the default stops an actor silently after ten restarts, and its back-off
//     is linear and without a limit. The supervision table is data, in kind.go.
//   - events and dead letters: they start goroutines and log whole messages. The census
//     counts what is dropped.
//
// contract_test.go holds what the kit relies on, and what it works around.
package actors
