// Tools gives an agent Go functions as tools: their schemas come from the types, and what
// the model asks for is checked before they are called.
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

// prices is what the shop sells, in cents.
var prices = map[string]int{"apple": 45, "bread": 320, "cheese": 610}

type priceIn struct {
	Item string `json:"item" jsonschema:"singular, in lower case"`
}

type priceOut struct {
	Cents int `json:"cents"`
}

func price(_ context.Context, in priceIn) (priceOut, error) {
	cents, ok := prices[in.Item]
	if !ok {
		return priceOut{}, fmt.Errorf("the shop has no %q", in.Item) // the model reads it and goes on
	}
	return priceOut{cents}, nil
}

func run(ctx context.Context, model llm.Model, out io.Writer) error {
	rt, err := agent.Open(ctx, &agent.Options{Model: model})
	if err != nil {
		return err
	}
	defer rt.Close()

	shop, err := rt.Agent("shop", &agent.Config{
		Instructions: "You sell groceries. Look prices up, never guess them.",
		Tools:        []agent.Tool{agent.Func("price", "Tells what one piece of an item costs.", price)},
	})
	if err != nil {
		return err
	}
	res, err := shop.Run(ctx, "What do two apples and a bread cost?", nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\n(%d prices were looked up)\n", res.Text, res.ToolCalls)
	return nil
}
