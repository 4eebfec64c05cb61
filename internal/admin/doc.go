// Package admin lets the processes of one user look at each other: what runs in
// them, and that there is something new in the store they share.
//
// A process that runs agents listens on a Unix socket in the state folder:
//
//	srv, err := admin.Listen(admin.Dir(state), admin.Options{System: rt.System(), Command: "worker", Wake: w.Wake})
//	defer srv.Close()
//
// Another finds it there:
//
//	clients, err := admin.Find(admin.Dir(state))
//	for _, c := range clients {
//		tree, err := c.Tree(ctx)
//	}
//
// It is plain HTTP: GET /tree, GET /status, GET /health and POST /wake. Nothing that
// goes over it changes a run or carries a prompt: whoever may do that has the store.
//
// # Who gets in
//
// The folder is the user's own (0700) and so is the socket (0600); a folder that is
// somebody else's or a link is refused. A web page can not reach a Unix socket, so
// there is no token.
//
// # What is promised
//
// Everything may be used from any goroutine. Every exchange is bounded in time and
// size, on both ends. A socket whose process has died is removed by the next
// [Find].
package admin
