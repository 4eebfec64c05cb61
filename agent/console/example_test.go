package console_test

import (
	"fmt"
	"net/http"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/console"
	"github.com/troupe-dev/troupe/store"
)

// A program serves the pages of its own store to its own machine.
func ExampleNew() {
	_ = serveConsole // needs a runtime with a store; ends with the program
}

func serveConsole(s store.Store, rt *agent.Runtime) error {
	c, err := console.New(&console.Options{Store: s, Wake: rt.Wake})
	if err != nil {
		return err
	}
	fmt.Println("open http://127.0.0.1:8440" + c.LoginPath())
	return http.ListenAndServe("127.0.0.1:8440", c)
}
