// Command floor is the least a server of the benchmark tools can do: one decode
// and one encode by encoding/json, a map of sessions, no validation of anything,
// no negotiation, no limits. Other servers are measured as multiples of it.
package main

import (
	"context"
	"net/http"
	"os"

	"github.com/troupe-dev/troupe/internal/tests/compare/kit"
)

func main() {
	kit.Main(kit.Server{
		Stdio:  func(context.Context) error { return serveStdio(os.Stdin, os.Stdout) },
		HTTP:   func() http.Handler { return &web{sessions: make(map[string]*peer)} },
		Modern: func() http.Handler { return modern{} },
	})
}
