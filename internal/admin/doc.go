// Package admin connects the processes of one user: each shows its actors, and wakes the
// others when it has changed the store that they share.
//
// A process that runs agents listens on a Unix socket in the state folder:
//
//	srv, err := admin.Listen(admin.Dir(state, storeFile), admin.Options{System: rt.System(), Command: "worker", Wake: w.Wake})
//	defer srv.Close()
//
// Another finds it there:
//
//	clients, err := admin.Find(admin.Dir(state, storeFile))
//	for _, c := range clients {
//		tree, err := c.Tree(ctx)
//	}
//
// It is plain HTTP: GET /tree, /servers, /servers/{name}, /models, /status and /health, POST /wake and
// /servers/{name}/reconnect; of runs GET /runs/{id}/text, POST /runs/{id}/cancel and /runs/{id}/park. A [Local]
// answers the same for the process itself, but for runs. No request begins a run or carries a prompt: a process
// that may do that has the store.
//
// # Access
//
// The folder is the user's own (0700) and so is the socket (0600); a folder that is
// another user's or a link is refused. A web page cannot reach a Unix socket, so there
// is no token.
//
// # What is promised
//
// Everything may be used from any goroutine. Every exchange is bounded in time and
// size, on both ends. A socket whose process has died is removed by the next
// [Find].
package admin
