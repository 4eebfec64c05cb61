// Package loop runs an agent: a model's turn, the tool calls it asks for, their
// results back to the model, until there is an answer. Each run is one actor,
// and a child of the actor that started it:
//
//	agents ─┬─ run-a1 ─┬─ model turn (task)
//	        │          └─ tool calls (tasks, a bounded number at once)
//	        └─ run-b2 …
//
// A run is described by a [Config], started by [Run.Start] from its parent's
// Receive, and held by its [Run]. The package knows neither servers nor
// configuration: what it needs of them are the interfaces [Tools], [Journal] and
// [Sink], which package agent joins with the rest.
//
// # Promises
//
//   - A run has exactly one [Outcome], whatever panics, hangs or is cancelled, and
//     a bounded time after it was cancelled ([Config.Grace], twice at the most).
//   - Nothing is done before the event that says so is durable: an intent and a
//     dispatch precede every call. A run whose store does not take its events waits for
//     it, and one whose events cannot be written any more ends.
//   - Limits are held before a call is made, never after it.
//   - A tool that fails, panics or is unknown is a result the model reads, and
//     never a failed run.
//   - A call that needs consent and gets none is not made. Silence is never a yes.
//   - What does not fit the model is left out of what it sees, never of the journal,
//     and no call is ever seen without its result.
//   - No reader sees an answer or a result before its guards.
//
// The events of a run hold all that a later resume needs; see runlog.Decode. Without a
// journal ([Config].Journal) the same actor runs a loop that only lives as long as
// its caller, such as a server's handler: nothing is written then, and no person can be
// asked.
package loop
