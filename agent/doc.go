// Package agent runs agents: a model, instructions, tools of MCP servers and of the
// program, limits, and a person whom it asks before it changes something.
//
//	rt, err := agent.Open(ctx, &agent.Options{
//		Model:   ollama.New("qwen3:8b", nil),
//		Servers: []mcpclient.Server{mcpclient.Command("npx", "-y", "@modelcontextprotocol/server-filesystem", ".")},
//	})
//	defer rt.Close()
//	res, err := rt.Run(ctx, "Which Go files here are largest?")
//
// A [Runtime] holds everything; [Runtime.Agent] defines an agent, [Agent.Start]
// begins a [Run], [Run.Events] watches it, [Run.Wait] has its [Result].
//
// # Promises
//
//   - A run has exactly one outcome, whatever panics, hangs or is cancelled, and
//     closing the runtime ends everything it started.
//   - Limits are held before a call is made.
//   - A server that fails costs its tools and nothing else: runs go on without them,
//     also without any; [ToolsListed] names it, and the model learns of it.
//   - Nothing happens unasked: see [AskBeforeWrites]. Silence is never a yes.
//   - The store has each act of a run before the run does it; see package store.
//
// Every method may be called from any goroutine.
//
// # Questions to people
//
// A call of a server's tool asks, unless the user marked the server as trusted and
// the server marks the tool as read-only. Functions of the program ([Func]) are the
// program's own business and run, unless marked by [NeedsApproval]. An agent's
// Approve can be stricter or laxer, with one exception: a tool that NeedsApproval marks
// always asks. A question is an [Ask] event and a row in the store; the first
// answer counts, wherever it comes from, and without one it counts as declined once
// it expires. [Options].OnAsk answers for the program.
//
// # Several agents
//
// [Agent.AsTool] makes an agent a tool of another: each call is a run of its own below
// the caller's, with the caller's budget and end. [HandOff] lets another agent go on
// with the same conversation. [Guard] looks at all that goes in and out and may change
// or refuse it, [StopCondition] ends a run early. A model that turns in circles reads
// that it does, and then answers with what it has ([Config.MaxRepeats]), and a conversation that outgrows
// its model is cut ([Config].ContextLength); events report both.
//
// # Models and their costs
//
// Each backend has one provider, which bounds how many requests are out, retries and
// gives up for a while ([Options].Providers). Several models are made one by llm/router.
// [Limits] hold for a run with all that it starts, and one of money needs the prices
// that the user states ([Options].Prices). [Sampling] lets servers ask a model.
//
// # Many users
//
// Runs share the runtime's connections to servers, unless they are started for a [Tenant],
// which has its own. [Runtime.Find] returns a run by its ID, wherever it runs.
//
// Tests use package agenttest: a scripted model, scripted servers, a scripted human, and
// virtual time.
package agent
