package console_test

import (
	"fmt"
	"net/http"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/console"
)

// A program serves the pages of its own runtime to its own machine.
func ExampleHandler() {
	_ = serveConsole // needs a runtime with a store; ends with the program
}

func serveConsole(rt *agent.Runtime) error {
	pages, err := console.Handler(rt, nil)
	if err != nil {
		return err
	}
	fmt.Println("open http://127.0.0.1:8440" + pages.LoginPath())
	return http.ListenAndServe("127.0.0.1:8440", pages)
}
