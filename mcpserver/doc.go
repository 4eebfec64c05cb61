// Package mcpserver serves tools, resources and prompts over the Model Context Protocol.
//
//	s, err := mcpserver.New(mcp.Implementation{Name: "greeter", Version: "1"}, nil)
//	…
//	err = mcpserver.AddFunc(s, &mcp.Tool{Name: "greet", Description: "Greets someone."},
//		func(ctx context.Context, in GreetIn) (GreetOut, error) {
//			return GreetOut{"Hello, " + in.Name + "."}, nil
//		})
//	…
//	err = s.ServeStdio(ctx)
//
// One pipe speaks both eras: the handshake of the revisions 2024-11-05 to
// 2025-11-25, and the stateless requests of 2026-07-28. A handler need not know
// which it serves.
//
// [AddResource], [AddTemplate], [ServeFS] and [AddPrompt] add resources and prompts,
// [CompletePrompt] and [CompleteTemplate] suggest values while the user types. The server
// declares and lists all entries, which may change at any time. [ServeSkills] publishes
// Agent Skills, folders of instructions for a model.
//
// A handler that needs a model asks the client's, or the server's own ([Options].Model),
// by [Request.Sample]; sampling.Loop lets the model call Go functions meanwhile.
//
// # What is promised
//
//   - A call is an actor from its acceptance to its one outcome; see package
//     actors/inbound. Its context ends with the client's cancel, with the
//     deadline, and with the connection. A cancelled call is not answered.
//   - Arguments are checked against the tool's schema before the handler runs,
//     and decoded once.
//   - A panic of a handler ends its call alone. The client gets an internal
//     error, the log gets the panic and its stack.
//   - No message of a client ends or hangs the server; it answers the next good
//     one. Messages, queues and calls in flight are bounded.
//   - The server writes only messages to the pipe; logs go to a slog.Logger.
//
// Handlers run concurrently. A handler of [AddFunc] that has proved quick runs on
// the goroutine that reads the pipe; when it is slow for once, another goroutine
// reads on.
//
// # Testing
//
// [Server.Connect] joins a server with a client in the same process.
package mcpserver
