// Durable is a program whose run outlives it: kill it while it waits for an approval, answer from
// another terminal, start it again, and it goes on where it was.
//
//	go run ./examples/durable payments.db        # kill it with kill -9 while it waits
//	troupe --store payments.db inbox answer -1 --accept
//	go run ./examples/durable payments.db
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/discover"
	"github.com/troupe-dev/troupe/store/sqlite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) != 2 {
		log.Fatal("usage: durable FILE")
	}
	model, err := discover.Default(ctx)
	if err == nil {
		err = run(ctx, model, os.Args[1], os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

type transferIn struct {
	To    string `json:"to"`
	Euros int    `json:"euros"`
}

// transfer sends money. A bank that is given the same key twice sends it once: the key of a call stays
// the same when it is repeated.
func transfer(ctx context.Context, in transferIn) (string, error) {
	return fmt.Sprintf("%d euros were sent to %s by the order %s", in.Euros, in.To, agent.CallKey(ctx)), nil
}

func run(ctx context.Context, model llm.Model, file string, out io.Writer) error {
	s, err := sqlite.Open(file, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	rt, err := agent.Open(ctx, &agent.Options{
		Model: model,
		Store: s,
		Tools: []agent.Tool{agent.NeedsApproval(agent.Func("transfer", "Sends money.", transfer))},
		// A process that was killed holds its runs until its lease is over, where it is not known to be gone.
		Lease: 5 * time.Second,
	})
	if err != nil {
		return err
	}
	defer rt.Close() // what waits for a person is left waiting
	clerk, err := rt.Agent("clerk", &agent.Config{AskExpiry: 7 * 24 * time.Hour})
	if err != nil {
		return err
	}
	// The ID makes it one run, however often the program is started.
	run, err := clerk.Start(ctx, "Send Ada 20 euros.", &agent.RunOptions{ID: "salary-of-ada"})
	if err != nil {
		return err
	}
	for ev, err := range run.Events(ctx) {
		if err != nil {
			return err
		}
		if ask, ok := ev.(agent.Ask); ok {
			fmt.Fprintf(out, "It waits: may it call %s with %s?\nAnswer with: troupe --store %s inbox answer -1 --accept\n", ask.Tool, ask.Arguments, file)
		}
	}
	res, err := run.Wait(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, res.Text)
	return nil
}
