// Store keeps what agents do in a store of one's own: here one that keeps all in memory,
// and tells an auditor each thing that a run has done, before the run goes on.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/discover"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

func main() {
	ctx := context.Background()
	model, err := discover.Default(ctx)
	if err == nil {
		err = run(ctx, model, os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// audited is a store that tells of what is written to its journal. A whole store of one's
// own is held to the same rules by package storetest.
type audited struct {
	store.Store
	out io.Writer
}

// Create implements [store.Journal].
func (a *audited) Create(ctx context.Context, r store.Run, owner string, ttl time.Duration, first ...store.Event) (store.Run, error) {
	run, err := a.Store.Create(ctx, r, owner, ttl, first...)
	if err == nil {
		a.tell(r.ID, first)
	}
	return run, err
}

// Append implements [store.Journal].
func (a *audited) Append(ctx context.Context, what store.Append) (int64, error) {
	last, err := a.Store.Append(ctx, what)
	if err == nil {
		a.tell(what.Run, what.Events)
	}
	return last, err
}

func (a *audited) tell(run string, events []store.Event) {
	for _, ev := range events {
		fmt.Fprintf(a.out, "%s: %s\n", run, ev.Type)
	}
}

func run(ctx context.Context, model llm.Model, out io.Writer) error {
	journal := memstore.New(nil)
	defer journal.Close() // the runtime leaves a store of ours open
	rt, err := agent.Open(ctx, &agent.Options{Model: model, Store: &audited{journal, out}})
	if err != nil {
		return err
	}
	defer rt.Close()
	for range 2 { // the second time the run of that name is found, and the model not asked
		run, err := rt.Start(ctx, "Name a colour.", &agent.RunOptions{ID: "colour-1"})
		if err != nil {
			return err
		}
		res, err := run.Wait(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, res.Text)
	}
	return nil
}
