// Package expose offers agents, and the servers behind them, as one MCP server.
//
//	front, err := expose.New(rt, &expose.Options{Agents: []*agent.Agent{reader}})
//	…
//	defer front.Close()
//	err = front.ServeStdio(ctx)          // or http.ListenAndServe(addr, front.Handler())
//
// Each agent is a tool that runs it, its instructions are a prompt, and its runs are
// resources. With Options.Gateway the tools, resources and prompts of the runtime's
// servers are there, too. Both eras of the protocol are spoken on one pipe and one URL.
//
// # What is promised
//
//   - Clients share nothing: each has a server and connections to the runtime's servers of
//     its own ([agent.Tenant]), so its lists, subscriptions, log levels, roots and
//     questions are nobody else's. A client is a pipe, a legacy session or, in
//     2026-07-28, a principal with what it declares it can do.
//   - What a downstream server or a run asks (forms, pages, sampling, roots, approvals)
//     reaches the client whose call it is for, in whatever way either side's revision has,
//     with the path of who asks. A server is told of no ability that nobody has.
//   - A cancel ends what the call has set going, and the end of a call withdraws its
//     questions. While a person is asked no clock of ours runs.
//   - A call that comes again, with answers, finds what it had set going: nothing is begun
//     or asked twice. Where that is gone the answer is that nobody knows what became of it.
//   - Clients, calls, questions and what is kept of them are bounded.
//
// Tests need no network: Front.Serve takes any pair of streams.
package expose
