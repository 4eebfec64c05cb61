// Package expose offers agents, and the servers of a runtime, as one MCP server.
//
//	front, err := expose.New(rt, &expose.Options{Agents: []*agent.Agent{reader}})
//	…
//	defer front.Close()
//	err = front.ServeStdio(ctx)          // or http.ListenAndServe(addr, front.Handler())
//
// Each agent is a tool that runs it, its instructions are a prompt, and its runs are
// resources. With Options.Gateway the client also gets the tools, resources and prompts of the
// runtime's servers, the backends. One pipe and one URL speak both eras of the protocol.
//
// # Promises
//
//   - Clients share nothing: each has a server and connections to the backends of its own
//     ([agent.Tenant]), and so its own lists, subscriptions, log levels, roots and questions.
//     A client is a pipe, a legacy session or, in 2026-07-28, a principal with the
//     capabilities that it declares.
//   - The questions of a backend or a run (forms, pages, sampling, roots, approvals) reach
//     the client whose call they belong to, in whatever way the revision of each side has,
//     with the path of the asker. Backends see no capability that the client lacks.
//   - A cancel ends the work that the call started, and the end of a call withdraws its
//     questions. No clock of Troupe runs while a person is asked.
//   - A call that comes again, with answers, finds its work: nothing starts twice and nothing
//     is asked twice. If that work is gone the answer is that its outcome is unknown.
//   - Clients, calls, questions and records of them are bounded.
//
// Tests need no network: Front.Serve takes any pair of streams.
package expose
