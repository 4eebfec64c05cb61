// Package inbox has the commands "troupe inbox", which list and answer what waits for a
// person.
package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/store"
)

// Command returns the command.
func Command(e *env.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inbox",
		Short: "Answer what waits for a human",
		Long: `Answer what waits for a human: calls that ask first, forms and pages of servers, limits that are reached, logins that are
missing, jobs that get no further, of all runs and servers that share the store. Without a command it lists what waits.

ASK is its id, an unambiguous beginning of it, the short form that the list shows, or -1 for the newest, -2 for the one before it.`,
		Example: "  troupe inbox\n  troupe inbox answer -1 --accept",
		Args:    env.SubcommandOnly,
	}
	ls := lsCommand(e)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ls.SetContext(cmd.Context())
		return ls.RunE(ls, nil)
	}
	cmd.AddCommand(ls, showCommand(e), answerCommand(e), denyCommand(e), watchCommand(e))
	return cmd
}

func lsCommand(e *env.Env) *cobra.Command {
	var (
		asJSON, all bool
		limit       int
		q           store.AskQuery
	)
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List what waits for a human, the newest first",
		Long:    "List the questions that runs and servers wait for an answer to, the newest first. A number such as -1 stands for the newest\nin all commands of the inbox.",
		Example: "  troupe inbox ls\n  troupe inbox ls --all --json",
		Args:    env.NoArgs,
		RunE: e.Stored(func(cmd *cobra.Command, _ []string, s store.Store) error {
			q.Limit, q.Status = limit, store.AskPending
			if all {
				q.Status = ""
			}
			if err := q.Check(); err != nil {
				return env.Usagef("%w\nSee %s --help", err, cmd.CommandPath())
			}
			rows, err := s.Asks(cmd.Context(), q)
			if err != nil {
				return err
			}
			views := make([]AskView, len(rows))
			for i := range rows {
				views[i] = viewOf(&rows[i])
			}
			if len(views) == 0 && !asJSON {
				e.Note("nothing waits for a human")
				return nil
			}
			return env.PrintList(e, asJSON, views, "ASK|STATUS|KIND|WHO ASKS|WHAT|EXPIRES", AskView.row)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&all, "all", false, "also what has been decided, or has expired")
	cmd.Flags().IntVarP(&limit, "limit", "n", 100, "at most so many `ASKS`")
	cmd.Flags().StringVar(&q.Run, "run", "", "only those of this `RUN`, by its whole id")
	cmd.Flags().StringVar(&q.Server, "server", "", "only those of this `SERVER`")
	return cmd
}

func showCommand(e *env.Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show ASK",
		Short:   "Show all of what is to be decided",
		Long:    "Show all of a question: who asks, on behalf of which run, with which arguments, and what can be answered.",
		Example: "  troupe inbox show -1\n  troupe inbox show 3fa85f64-1-0 --json",
		Args:    env.OneArg("an ask"),
		RunE: e.Stored(func(cmd *cobra.Command, args []string, s store.Store) error {
			row, err := findAsk(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			v := viewOf(&row)
			if asJSON {
				return e.PrintJSON(v.whole(&row))
			}
			_, err = fmt.Fprint(e.Stdout, v.text(&row, time.Now()))
			return err
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with the payload as it is stored")
	return cmd
}

func watchCommand(e *env.Env) *cobra.Command {
	var asJSON, ask bool
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Show what comes to wait for a human, as it comes",
		Long: `Show what waits for a human, and what comes to wait, as it comes, until it is interrupted.
With --answer each is asked on the terminal, one after the other.`,
		Example: "  troupe inbox watch\n  troupe inbox watch --answer\n  troupe inbox watch --json",
		Args:    env.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			prompter := e.NewPrompter(nil)
			if ask && (prompter == nil || asJSON) {
				return env.Usagef("--answer needs a terminal to ask on, and no --json")
			}
			return e.WithStore(func(s store.Store) error {
				w := &inboxWatch{env: e, store: s, json: asJSON, seen: make(map[string]bool)}
				if ask {
					w.prompter = prompter
				}
				return env.Every(cmd.Context(), env.LookEvery, func() (bool, error) { return false, w.look(cmd.Context()) })
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one ask a line")
	cmd.Flags().BoolVar(&ask, "answer", false, "ask each on the terminal")
	return cmd
}

// inboxWatch follows the asks of a store.
type inboxWatch struct {
	env      *env.Env
	store    store.Store
	json     bool
	prompter prompter // nil: they are only shown
	seen     map[string]bool
}

// look shows what is new, the oldest first.
func (w *inboxWatch) look(ctx context.Context) error {
	rows, err := w.store.Asks(ctx, store.AskQuery{Status: store.AskPending})
	if err != nil {
		return err
	}
	waits := make(map[string]bool, len(rows))
	for i := len(rows) - 1; i >= 0; i-- {
		row := &rows[i]
		waits[row.ID] = true
		if w.seen[row.ID] {
			continue
		}
		if err := w.show(ctx, row); err != nil {
			return err
		}
	}
	w.seen = waits // what has been decided is not shown again, and need not be remembered
	return nil
}

func (w *inboxWatch) show(ctx context.Context, row *store.Ask) error {
	v := viewOf(row)
	switch {
	case w.json:
		return w.env.PrintJSONLine(v)
	case w.prompter == nil:
		_, err := fmt.Fprintln(w.env.Stdout, v.text(row, time.Now()))
		return err
	}
	err := askInTerminal(ctx, w.env, w.store, row, w.prompter)
	if errors.Is(err, store.ErrSettled) || errors.Is(err, env.ErrExpired) { // meanwhile
		w.env.Note("%v", err)
		return nil
	}
	return err
}
