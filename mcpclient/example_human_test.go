package mcpclient_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// A Human decides what servers want of a person: here a form is filled in, and
// everything else is declined.
func ExampleHuman() {
	human := mcpclient.HumanFunc(func(ctx context.Context, ask *mcpclient.Ask) (*mcpclient.Decision, error) {
		if ask.Kind != mcpclient.AskForm {
			return &mcpclient.Decision{Action: mcp.ActionDecline}, nil
		}
		fmt.Printf("%s asks: %s\n", ask.Server, ask.Message)
		return &mcpclient.Decision{
			Action:  mcp.ActionAccept,
			Content: map[string]json.RawMessage{"name": json.RawMessage(`"Ada"`)},
		}, nil
	})
	opts := &mcpclient.Options{AskOptions: mcpclient.AskOptions{Human: human, Serial: true}}
	opts.Lazy = true
	c, err := mcpclient.Dial(context.Background(), mcpclient.Command(os.Args[0]), opts)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	// What a server asks for is handed to the Human by the client; this is what it is handed.
	d, _ := human.Decide(context.Background(), &mcpclient.Ask{Kind: mcpclient.AskForm, Server: "greeter", Message: "What is your name?"})
	fmt.Println(d.Action, string(d.Content["name"]))
	// Output:
	// greeter asks: What is your name?
	// accept "Ada"
}
