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
// 2025-11-25, and the stateless requests of 2026-07-28 (ERA-10, ERA-11). A
// handler need not know which it serves.
//
// [AddResource], [AddTemplate], [ServeFS] and [AddPrompt] add what else a server may
// have, [CompletePrompt] and [CompleteTemplate] suggest values for what is typed. What
// was added is declared, listed in its order, and may change at any time.
// [ServeSkills] publishes Agent Skills, folders of instructions for a model.
//
// A handler that needs a model asks the client's, or the server's own ([Options].Model),
// by [Request.Sample]; [Request.SampleLoop] lets the model call Go functions meanwhile.
//
// # What is promised
//
//   - A call is an actor from its acceptance to its one outcome; see package
//     actors/inbound. Its context ends with the client's cancel, with the
//     deadline, and with the connection. A cancelled call is not answered.
//   - Arguments are checked against the tool's schema before the handler runs,
//     and decoded once.
//   - A panic of a handler ends its call alone. The client learns that there
//     was an internal error, the log the rest.
//   - Nothing a client sends ends or hangs the server; the next good message is
//     answered (ROB-2). Messages, queues and calls in flight are bounded.
//   - Nothing but messages is written to the pipe; logs go to a slog.Logger.
//
// Handlers run at the same time as each other. One given to [AddFunc] that has
// proved quick runs on the goroutine that reads the pipe, which goes on reading
// elsewhere as soon as the handler is slow for once.
//
// # Testing
//
// [Server.Connect] joins a server with a client in the same process.
package mcpserver
