// Package storecmd has the command "troupe store", which looks after the file that runs, jobs
// and logins are kept in.
package storecmd

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// Command returns the command.
func Command(e *env.Env) *cobra.Command {
	return env.Group(&cobra.Command{
		Use:   "store",
		Short: "Check, copy and prune the store",
		Long:  "The store is a file that has the runs, the jobs, the open questions, the approvals and the sealed logins.",
	}, checkCommand(e), backupCommand(e), pruneCommand(e))
}

// inFile returns the RunE of a command that needs the store to be a file.
func inFile(e *env.Env, run func(cmd *cobra.Command, args []string, s *sqlite.Store) error) func(*cobra.Command, []string) error {
	return e.Stored(func(cmd *cobra.Command, args []string, s store.Store) error {
		file, ok := s.(*sqlite.Store)
		if !ok {
			return env.Usagef("with --no-store there is no file")
		}
		return run(cmd, args, file)
	})
}

func checkCommand(e *env.Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Read the whole store and report what is damaged",
		Long: "Read the whole store and report what is damaged, or contradicts itself. Other processes may use the store meanwhile.\n" +
			"The exit code is 1 if there is a fault.",
		Example: "  troupe store check\n  troupe store check --store backup.db\n  troupe store check --json",
		Args:    env.NoArgs,
		RunE: inFile(e, func(cmd *cobra.Command, _ []string, s *sqlite.Store) error {
			faults, err := s.Check(cmd.Context())
			if err != nil {
				return err
			}
			switch {
			case asJSON:
				err = e.PrintJSON(append([]string{}, faults...))
			case len(faults) == 0:
				_, err = fmt.Fprintln(e.Stdout, "the store is sound")
			default:
				_, err = fmt.Fprintln(e.Stdout, env.PlainLines(strings.Join(faults, "\n")))
			}
			if len(faults) > 0 {
				return errors.Join(err, errors.New("the store is damaged: keep a copy of its file, and go back to a backup (troupe store backup makes one)"))
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: a list of the faults")
	return cmd
}

func backupCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the store to a new file",
		Long: "Copy the store as it is now to a new file, without unused space. Other processes may use the store meanwhile.\n" +
			"Logins are sealed in the copy as they are in the store: the key is not part of it. To use the copy, name it with --store.",
		Example: "  troupe store backup /backup/troupe-monday.db",
		Args:    env.OneArg("a file"),
		RunE: inFile(e, func(cmd *cobra.Command, args []string, s *sqlite.Store) error {
			err := s.Backup(cmd.Context(), args[0])
			if errors.Is(err, os.ErrExist) {
				return env.Usagef("%s exists: name a new file", args[0])
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(e.Stdout, args[0])
			return err
		}),
	}
}

func pruneCommand(e *env.Env) *cobra.Command {
	var older env.Age
	var keep int
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove runs and jobs that have ended",
		Long: "Remove runs and jobs that ended long ago, or all but the newest. What has not ended stays, and so does a job whose webhook is\n" +
			"still to be delivered. Workers do the same by themselves every hour: see store.keep and store.keep_runs of the configuration.",
		Example: "  troupe store prune --older 90d\n  troupe store prune --keep 10000",
		Args:    env.NoArgs,
		RunE: e.Stored(func(cmd *cobra.Command, _ []string, s store.Store) error {
			if older <= 0 && keep <= 0 {
				return env.Usagef("say what to remove: --older 90d, or --keep 10000\nSee %s --help", cmd.CommandPath())
			}
			p := store.Prune{Keep: keep}
			if older > 0 {
				p.Before = time.Now().Add(-time.Duration(older))
			}
			runs, jobs, err := store.PruneAll(cmd.Context(), s, p)
			fmt.Fprintf(e.Stdout, "removed %s and %s\n", env.Count(runs, "run"), env.Count(jobs, "job"))
			return err
		}),
	}
	cmd.Flags().Var(&older, "older", "what ended before this `TIME`, such as 90d or 12h")
	cmd.Flags().IntVar(&keep, "keep", 0, "all but the newest `NUMBER` of runs, and of jobs")
	return cmd
}
