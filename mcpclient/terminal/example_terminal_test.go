package terminal_test

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/terminal"
)

// Where there is no terminal the error says so, and the host takes it for a
// dismissal.
func ExampleNew() {
	var human mcpclient.Human = terminal.New(terminal.Options{In: nobody{}})
	_, err := human.Decide(context.Background(), &mcpclient.Ask{Kind: mcpclient.AskURL, URL: &mcpclient.URLView{URL: "https://example.com/"}})
	fmt.Println(err)
	// Output: there is no terminal to ask on
}

type nobody struct{}

func (nobody) Read([]byte) (int, error) { select {} }
