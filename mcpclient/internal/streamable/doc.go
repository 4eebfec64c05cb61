// Package streamable is the client's side of the Streamable HTTP transport, of both
// eras: sessions, a GET stream and resumption up to 2025-11-25 (SHL), one POST for
// each request and nothing else in 2026-07-28 (SHM).
//
// A [Link] looks like any other link, but there is no connection behind it: each
// request is a POST of its own, on a goroutine that lives as long as its answer
// takes. The GET stream has one while something comes. [Link.Speak] says what was agreed on, and so which headers go out.
//
//	l, err := streamable.New(streamable.Options{URL: u, Client: client, Go: sys.Go, Sink: sink})
//	l.Speak(mcp.V2026_07_28)
//	err = l.Send(request)
//
// # What is promised
//
//   - A request ends in exactly one way: its answer is passed on, or the sink's
//     Failed is told why there will be none. What ends one request leaves the others
//     alone; only a session that is gone and a server that cannot be reached end the
//     link.
//   - On a request's own stream no other request is answered: a message with another id is
//     dropped.
//   - Everything is bounded: requests at once and in line, messages, error pages,
//     resumptions without progress, pauses, the wait in [Link.Close]. After Close
//     nothing of the link is left.
//   - The session id and the values of the configured headers never get into a log or
//     an error (SHL-50).
package streamable
