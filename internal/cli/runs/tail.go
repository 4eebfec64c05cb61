package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

func tailCommand(e *env.Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "tail RUN",
		Short: "Follow a run, in whatever process it is",
		Long: `Follow a run from its beginning to its end, in whatever process it is: what is in its journal comes within half a second.
RUN is its id, an unambiguous beginning of it, or -1 for the newest ("last" too), -2 for the one before it.
The exit code is 1 for a run that no process works on any more, and 3 for one that waits and that no process holds.`,
		Example: "  troupe runs tail -1\n  troupe runs tail 0197c1 --json",
		Args:    env.OneArg("a run"),
		RunE: e.Stored(func(cmd *cobra.Command, args []string, s store.Store) error {
			r, err := FindRun(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			t := &tail{env: e, store: s, run: r.ID, json: asJSON, tools: make(map[string]string)}
			return t.follow(cmd.Context())
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one event of the journal a line")
	return cmd
}

// tailEvery is how often the journal of a followed run is looked at.
const tailEvery = 250 * time.Millisecond

// changeover is how long a run that was seen at work may be without a process: another one takes it over.
const changeover = 3 * time.Second

// tail follows the journal of one run.
type tail struct {
	env   *env.Env
	store store.Store
	run   string
	json  bool
	tools map[string]string // by the key of the call
	seq   int64             // of the last event that was shown
}

// follow shows events until the run has ended, or no process works on it.
func (t *tail) follow(ctx context.Context) error {
	var held time.Time // when a process was last seen at work
	return env.Every(ctx, tailEvery, func() (bool, error) {
		// The head first: what is written after it is seen by the next look.
		head, err := t.store.Run(ctx, t.run)
		if err != nil {
			return false, fmt.Errorf("following the run: %w", err)
		}
		if err := t.show(ctx); err != nil {
			return false, err
		}
		switch {
		case head.State.Ended():
			return true, nil
		case head.Leased(time.Now()):
			held = time.Now()
			return false, nil
		case time.Since(held) < changeover:
			return false, nil
		case head.State == store.Waiting:
			return false, env.ExitWith(env.ExitWaiting, fmt.Errorf("the run %s waits for a human, and no process holds it: troupe inbox", t.run))
		}
		return false, env.ExitWith(env.ExitFailed, fmt.Errorf("the run %s was interrupted: no process works on it", t.run))
	})
}

// show writes what is new.
func (t *tail) show(ctx context.Context) error {
	for ev, err := range store.Replay(ctx, t.store, t.run, t.seq) {
		if err != nil {
			return fmt.Errorf("reading the journal: %w", err)
		}
		t.seq = ev.Seq
		if err := t.write(runlog.Public(ev)); err != nil {
			return err
		}
	}
	return nil
}

func (t *tail) write(ev store.Event) error {
	if t.json {
		return t.env.PrintJSONLine(struct {
			Run  string          `json:"run"`
			Seq  int64           `json:"seq"`
			Time time.Time       `json:"time"`
			Type string          `json:"type"`
			Key  string          `json:"key,omitempty"`
			Body json.RawMessage `json:"body,omitzero"`
		}{ev.Run, ev.Seq, ev.Time, ev.Type, ev.Key, ev.Body})
	}
	e, err := runlog.Decode(ev)
	if err != nil {
		return err
	}
	return printEntry(t.env.Stdout, e, t.tools)
}

// printEntry prints an event on one line. It keeps the tools of calls in a map by the
// calls' keys, for the events after it.
func printEntry(w io.Writer, entry runlog.Entry, tools map[string]string) error {
	_, err := fmt.Fprintf(w, "%4d  %s  %-15s %s\n", entry.Seq, env.WhenMillis(entry.Time, time.Now()), entry.Type,
		env.Plain(env.Shorten(runlog.Describe(&entry, tools), 160)))
	return err
}
