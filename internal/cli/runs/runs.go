// Package runs has the commands "troupe runs" and "troupe tree", which read the journal of
// runs and the actors of running processes.
package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/admin"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// Command returns the command; goOn are the commands that go on with a run.
func Command(e *env.Env, goOn ...*cobra.Command) *cobra.Command {
	return env.Group(&cobra.Command{
		Use:   "runs",
		Short: "Read the journal of runs, go on with runs, and remove runs",
	}, append([]*cobra.Command{lsCommand(e), showCommand(e), tailCommand(e), rmCommand(e), exportCommand(e), importCommand(e), diffCommand(e), replayCommand(e)}, goOn...)...)
}

func lsCommand(e *env.Env) *cobra.Command {
	var (
		asJSON bool
		limit  int
		states []string
		q      store.Query
	)
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List runs, the newest first",
		Long:    "List the runs of the store, the newest first: their state, when they were begun, how many events they have, and how they\nbegin. A run that no process works on any more is shown as interrupted.",
		Example: "  troupe runs ls --state failed\n  troupe runs ls --json",
		Args:    env.NoArgs,
		RunE: e.Stored(func(cmd *cobra.Command, _ []string, s store.Store) error {
			q.Limit, q.States = limit, nil
			for _, state := range states {
				q.States = append(q.States, store.RunState(state))
			}
			if err := q.Check(); err != nil {
				return env.Usagef("%w\nSee %s --help", err, cmd.CommandPath())
			}
			runs, err := s.Runs(cmd.Context(), q)
			if err != nil {
				return err
			}
			return env.PrintList(e, asJSON, runs, "RUN|STATE|CREATED|EVENTS|TITLE", func(r store.Run) []string {
				return []string{r.ID, StateOf(r), env.When(r.Created, time.Now()), fmt.Sprint(r.Seq), env.Shorten(r.Title, 60)}
			})
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "at most so many `RUNS`")
	cmd.Flags().StringArrayVar(&states, "state", nil, "only runs in this `STATE`: running, waiting, finished, failed, cancelled, limited (repeat)")
	cmd.Flags().StringVar(&q.Agent, "agent", "", "only runs of this `AGENT`")
	cmd.Flags().StringVar(&q.Parent, "parent", "", "only runs that this `RUN` has started, by its whole id")
	return cmd
}

func showCommand(e *env.Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show RUN",
		Short:   "Show the events of a run",
		Long:    "Show the events of a run. RUN is its id, an unambiguous beginning of it, or -1 for the newest (\"last\" too), -2 for the one before it.",
		Example: "  troupe runs show last\n  troupe runs show 0197c1 --json",
		Args:    env.OneArg("a run"),
		RunE: e.Stored(func(cmd *cobra.Command, args []string, s store.Store) error {
			r, err := FindRun(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			return showRun(cmd.Context(), e, s, r, asJSON)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: the run, its events, its open calls")
	return cmd
}

// transcript is what "runs show --json" prints.
type transcript struct {
	Run    store.Run     `json:"run"`
	State  string        `json:"state"` // the run's, interrupted or stalled
	Open   []OpenCall    `json:"open"`  // calls whose outcome is unknown
	Events []store.Event `json:"events"`
}

// OpenCall is a tool call that was intended and has no outcome.
type OpenCall struct {
	Key        string          `json:"key"`
	Tool       string          `json:"tool"`
	Server     string          `json:"server,omitempty"`
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	Dispatched bool            `json:"dispatched"`         // it may have had its effect
	Round      bool            `json:"round,omitzero"`     // its server wants input before it carries it out
	Asks       bool            `json:"asks"`               // it waits for a human
	WaitsFor   string          `json:"waitsFor,omitempty"` // before it is sent
}

func showRun(ctx context.Context, e *env.Env, s store.Store, r store.Run, asJSON bool) error {
	t := transcript{Run: r, State: StateOf(r), Events: []store.Event{}}
	if !r.State.Ended() && stalled(ctx, e, r.ID) {
		t.State = admin.StateStalled
	}
	var entries []runlog.Entry
	var state runlog.State
	for ev, err := range store.Replay(ctx, s, r.ID, 0) {
		if err != nil {
			return err
		}
		entry, err := runlog.Decode(ev)
		if err != nil {
			return err
		}
		t.Events = append(t.Events, ev)
		entries = append(entries, entry)
		state.Add(&entry)
	}
	t.Open = openCalls(&state)
	if asJSON {
		return e.PrintJSON(t)
	}
	fmt.Fprintf(e.Stdout, "run %s: %s\n", r.ID, t.State)
	if r.Imported > 0 {
		fmt.Fprintf(e.Stdout, "      imported: what events 1 to %d say was decided was not decided here, and allows nothing\n", r.Imported)
	}
	tools := make(map[string]string)
	for _, entry := range entries {
		if err := printEntry(e.Stdout, entry, tools); err != nil {
			return err
		}
	}
	for _, c := range t.Open {
		text := "unknown: %s %s has no recorded outcome; it was not dispatched, so it had no effect"
		switch {
		case c.Round:
			text = "waiting: %s %s is not carried out yet; its server wants input first"
		case c.Dispatched:
			text = "unknown: %s %s has no recorded outcome; it was dispatched and may have had its effect"
		case c.Asks:
			text = "waiting: %s %s was not called yet; a human has to allow it"
		}
		if c.WaitsFor != "" && !c.Dispatched {
			text := "waiting: %s %s is not sent yet; it waits for %s"
			if r.State.Ended() {
				text = "not sent: %s %s had no effect; it waited for %s"
			}
			fmt.Fprintf(e.Stdout, "      "+text+"\n", env.Plain(c.Tool), env.Plain(env.Shorten(string(c.Arguments), 80)), env.Plain(c.WaitsFor))
			continue
		}
		fmt.Fprintf(e.Stdout, "      "+text+"\n", env.Plain(c.Tool), env.Plain(env.Shorten(string(c.Arguments), 80)))
	}
	return nil
}

// stalled asks the processes that run whether one of them has the run, and waits for the
// store to take its events.
func stalled(ctx context.Context, e *env.Env, run string) bool {
	trees, err := (&treeView{env: e}).trees(ctx)
	if err != nil {
		return false // it is a courtesy
	}
	for _, t := range trees {
		for _, a := range t.Actors {
			if a.State == admin.StateStalled && strings.HasSuffix(a.Path, "/run-"+run) {
				return true
			}
		}
	}
	return false
}

// openCalls returns the calls without an outcome.
func openCalls(s *runlog.State) []OpenCall {
	out := []OpenCall{}
	for _, c := range s.Calls {
		if c.Open() && c.Intent != nil {
			out = append(out, OpenCall{Key: c.Key, Tool: c.Tool, Server: c.Server, Arguments: c.Intent.Arguments, Dispatched: c.Sent && c.Round == nil, Round: c.Round != nil,
				Asks: c.Approval != nil && c.Approval.Settled == nil, WaitsFor: c.Waits})
		}
	}
	return out
}
