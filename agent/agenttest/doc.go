// Package agenttest runs agents in tests: with a scripted model, scripted MCP servers and
// a scripted human, all in the test's process.
//
//	func TestTidy(t *testing.T) {
//		files := agenttest.Server("files", agenttest.Tool("remove", agenttest.Text("removed")))
//		rt := agenttest.Open(t, &agenttest.Options{
//			Model: llmtest.Script(
//				llmtest.Call("files__remove", `{"path":"notes.txt"}`),
//				llmtest.Say("It is gone."),
//			),
//			Servers: []*agenttest.FakeServer{files},
//			Human:   agenttest.Human(agenttest.Accept().Tool("remove")),
//		})
//		res, err := rt.Run(t.Context(), "Remove the notes.")
//		…
//	}
//
// Everything else is real: the protocol in the revision that the server speaks, the
// policy, the limits, the journal. When the test ends the runtime is closed, and the test
// fails if something of it is left, if a question was asked that the human has no answer
// to, or if an answer was not asked for.
//
// A program that opens its runtime itself is given [Options.Agent], or parts of it.
//
// # Time
//
// Inside of [Bubble] time is virtual: a tool that takes an hour, a limit of wall time and a
// question that expires cost nothing, and nothing is ever late. See there for what works.
package agenttest
