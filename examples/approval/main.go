// Approval asks a person before an agent does something that cannot be undone. Here the
// person is at the terminal; it may as well be a message in a chat.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/discover"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	model, err := discover.Default(ctx)
	if err == nil {
		err = run(ctx, model, os.Stdin, os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

type transferIn struct {
	To    string `json:"to"`
	Euros int    `json:"euros"`
}

func transfer(_ context.Context, in transferIn) (string, error) {
	return fmt.Sprintf("%d euros were sent to %s", in.Euros, in.To), nil
}

func run(ctx context.Context, model llm.Model, in io.Reader, out io.Writer) error {
	var one sync.Mutex // a model may ask for several calls at once, a person answers one
	lines := bufio.NewScanner(in)
	rt, err := agent.Open(ctx, &agent.Options{
		Model: model,
		// Marked so, it asks whatever the policy says.
		Tools: []agent.Tool{agent.NeedsApproval(agent.Func("transfer", "Sends money.", transfer))},
		// Silence is never a yes: a question without an answer is declined in the end.
		OnAsk: func(_ context.Context, ask agent.Ask) (agent.Decision, error) {
			one.Lock()
			defer one.Unlock()
			fmt.Fprintf(out, "May it call %s with %s? [y/N] ", ask.Tool, ask.Arguments)
			if lines.Scan() && strings.EqualFold(lines.Text(), "y") {
				return agent.Accept().By("terminal"), nil
			}
			return agent.Decline("the person said no").By("terminal"), nil // the model is told
		},
	})
	if err != nil {
		return err
	}
	defer rt.Close()
	res, err := rt.Run(ctx, "Send Ada 20 euros.")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, res.Text)
	return nil
}
