// Worker works off jobs that are kept in a file: each is a prompt for an agent. Start it in
// two terminals, and they share the work; end one midway, and the other does the rest.
//
//	go run ./examples/worker jobs.db Turin Oslo Lima
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/discover"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: worker FILE [CITY…]")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	jobs, err := sqlite.Open(os.Args[1], nil)
	if err != nil {
		log.Fatal(err)
	}
	defer jobs.Close()
	model, err := discover.Default(ctx)
	if err == nil {
		err = run(ctx, model, jobs, os.Args[2:], os.Stdout)
	}
	if err != nil {
		log.Print(err)
	}
}

// run adds a job for each city that has none, and works until ctx ends.
func run(ctx context.Context, model llm.Model, s store.Store, cities []string, out io.Writer) error {
	rt, err := agent.Open(ctx, &agent.Options{Model: model, Store: s})
	if err != nil {
		return err
	}
	defer rt.Close()
	guide, err := rt.Agent("guide", &agent.Config{Instructions: "Name the one sight of a city that every visitor should see."})
	if err != nil {
		return err
	}
	for _, city := range cities {
		// The key makes it one job, however often this program is started.
		_, err := s.AddJob(ctx, store.Job{Agent: guide.Name(), Prompt: city, Key: "sight of " + city})
		if err != nil && !errors.Is(err, store.ErrRepeated) {
			return err
		}
	}
	w, err := worker.New(rt, &worker.Options{
		Agents: []*agent.Agent{guide},
		Store:  s,
		OnEvent: func(ev worker.Event) {
			if ev.Type == worker.JobEnded {
				fmt.Fprintf(out, "%s %s\n", ev.Job.Key, ev.Job.State)
			}
		},
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}
