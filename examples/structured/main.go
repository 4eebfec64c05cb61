// Structured has a model answer in the form of a Go type. An answer that does not fit is
// sent back to it; in the end it fits, or the run has failed.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/discover"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	model, err := discover.Default(ctx)
	if err == nil {
		err = run(ctx, model, os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

type invoice struct {
	From  string `json:"from" jsonschema:"the name of the company"`
	Cents int    `json:"cents" jsonschema:"what is to be paid, taxes included"`
	Lines []line `json:"lines"`
}

type line struct {
	Text  string `json:"text"`
	Cents int    `json:"cents"`
}

const letter = `Dear Ada, for the two days of repairs to your roof we ask 960.00, and 84.50
for the tiles. Please pay 1044.50 by the end of the month. Yours, Miller & Daughters.`

func run(ctx context.Context, model llm.Model, out io.Writer) error {
	rt, err := agent.Open(ctx, &agent.Options{Model: model})
	if err != nil {
		return err
	}
	defer rt.Close()
	clerk, err := rt.Agent("clerk", &agent.Config{Instructions: "You read letters and write down what is to be paid."})
	if err != nil {
		return err
	}
	bill, res, err := agent.RunInto[invoice](ctx, clerk, letter, nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %d.%02d\n", bill.From, bill.Cents/100, bill.Cents%100)
	for _, l := range bill.Lines {
		fmt.Fprintf(out, "  %s: %d.%02d\n", l.Text, l.Cents/100, l.Cents%100)
	}
	fmt.Fprintf(out, "(%d turns)\n", res.Steps)
	return nil
}
