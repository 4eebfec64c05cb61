// Subagents lets an agent give parts of its work to others, which are tools to it. Each has
// its own model, instructions and limits; what they all spend together is bounded by the
// limits of the first.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/discover"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	model, err := discover.Default(ctx)
	if err == nil {
		err = run(ctx, model, model, os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run has one model for the editor, and another, a cheaper one say, for its team.
func run(ctx context.Context, editors, teams llm.Model, out io.Writer) error {
	rt, err := agent.Open(ctx, &agent.Options{Model: teams})
	if err != nil {
		return err
	}
	defer rt.Close()
	poet, err := rt.Agent("poet", &agent.Config{Instructions: "You write four lines about what you are given."})
	if err != nil {
		return err
	}
	critic, err := rt.Agent("critic", &agent.Config{Instructions: "You name the weakest line of a poem, and say why in one sentence."})
	if err != nil {
		return err
	}
	editor, err := rt.Agent("editor", &agent.Config{
		Instructions: "Have a poem written, have it judged, have it written again, and answer with the last one.",
		Model:        editors,
		Tools:        []agent.Tool{poet.AsTool("write", "Writes a poem."), critic.AsTool("judge", "Judges a poem.")},
		Limits:       agent.Limits{Tokens: 20_000, ToolCalls: 6}, // of all three together
	})
	if err != nil {
		return err
	}
	run, err := editor.Start(ctx, "A poem about supervision trees, please.", nil)
	if err != nil {
		return err
	}
	for ev, err := range run.Events(ctx) {
		if err != nil {
			return err
		}
		switch inner := agent.Unnest(ev).(type) {
		case agent.ModelTurn:
			fmt.Fprintf(out, "%s: %d tokens\n", strings.Join(inner.Path, " › "), inner.Usage.Input+inner.Usage.Output)
		case agent.RunFinished:
			if inner.RunID == run.ID() {
				fmt.Fprintf(out, "%s\n(%d tokens in all)\n", inner.Result.Text, inner.Result.Spent.Tokens)
			}
		}
	}
	_, err = run.Wait(ctx)
	return err
}
