// Limits bounds what a run may spend, and cancels one: both are held before a call is made,
// and the result says what it has cost all the same.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"time"

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

type numberIn struct {
	N int `json:"n"`
}

// next is a tool that can be called for ever.
func next(ctx context.Context, in numberIn) (int, error) { return in.N + 1, ctx.Err() }

func run(ctx context.Context, model llm.Model, out io.Writer) error {
	rt, err := agent.Open(ctx, &agent.Options{Model: model, Tools: []agent.Tool{agent.Func("next", "Tells the next number.", next)}})
	if err != nil {
		return err
	}
	defer rt.Close()
	counter, err := rt.Agent("counter", &agent.Config{
		Instructions: "Count with the tool, one number at a time, never by yourself.",
		Limits: agent.Limits{
			ToolCalls: 3,
			Tokens:    50_000,
			Wall:      time.Minute,
			OnLimit:   agent.LimitWrapUp, // one more answer, without calling tools, with what there is
		},
	})
	if err != nil {
		return err
	}

	res, err := counter.Run(ctx, "Count to ten.", nil)
	if limit, ok := errors.AsType[*agent.LimitError](err); ok {
		fmt.Fprintf(out, "the limit of %s (%s) was reached: %s\n", limit.Limit, limit.Max, res.Text)
	} else if err != nil {
		return err
	}

	tired := errors.New("the answer is no longer needed")
	short, cancel := context.WithTimeoutCause(ctx, time.Second, tired)
	defer cancel()
	res, err = counter.Run(short, "Count to a million.", nil)
	if errors.Is(err, tired) {
		fmt.Fprintf(out, "cancelled after %d turns: %v\n", res.Steps, tired)
		return nil
	}
	return err
}
