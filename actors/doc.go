// Package actors runs the processes that make up Troupe.
//
// Everything that can be cancelled, time out, report progress or be retried is
// an actor: it has a mailbox, handles one message at a time, and is watched by
// the actor that started it. This package is the kit they are built from; the
// protocol's own actors (incoming requests, outgoing calls, connections, loops)
// are packages below it. It is also the only package that knows protoactor-go.
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
//     error. Whoever needs an answer waits for a [Reply], which its parent
//     completes if the actor can not.
//   - Work that blocks runs in a task ([Await], [Context.Go], [System.Go]). Only
//     this package starts goroutines; a panic in a task is an error with its stack.
//   - [System.Shutdown] ends all of it within its context, or names what did not end.
//
// # Rules for an actor
//
// Receive never blocks and does no I/O. Messages are not changed once sent.
// Timers and tasks are the actor's: they end with it, and what they send after a
// restart is dropped. An actor on the inline mailbox ([Spec].Inline) is run by
// whoever sends to it, so it sends to pooled actors only, and nobody sends to it
// while holding a lock that its Receive takes.
package actors
