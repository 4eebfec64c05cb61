// Package storecmd has the command "troupe store", which looks after the file that runs, jobs
// and logins are kept in.
package storecmd

import (
	"errors"
	"fmt"
	"os"
	"slices"
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
		Short: "Check, copy, prune and shrink the store",
		Long:  "The store is a file that has the runs, the jobs, the open questions, the approvals and the sealed logins.",
	}, checkCommand(e), backupCommand(e), pruneCommand(e), vacuumCommand(e))
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
	var (
		older  env.Age
		p      store.Prune
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove runs and jobs that have ended",
		Long: "Remove runs and jobs that ended long ago, or all but the newest, of an agent or in a state if you say so. Then the store gives the\n" +
			"disk back that they took. What has not ended stays, and so does a job whose webhook is still to be delivered. A run ends as finished, a\n" +
			"job as done or unknown; both end as failed, cancelled or limited.\n\n" +
			"Workers do the same by themselves every hour: see store.keep, store.keep_runs and store.rules of the configuration.",
		Example: "  troupe store prune --older 90d\n  troupe store prune --keep 10000\n  troupe store prune --older 7d --state finished --state done --agent reviewer",
		Args:    env.NoArgs,
		RunE: e.Stored(func(cmd *cobra.Command, _ []string, s store.Store) error {
			if older <= 0 && p.Keep <= 0 {
				return env.Usagef("say what to remove: --older 90d, or --keep 10000\nSee %s --help", cmd.CommandPath())
			}
			for _, state := range p.States {
				if all := store.EndStates(); !slices.Contains(all, state) {
					return env.Usagef("--state %q: want one in which runs or jobs end: %s\nSee %s --help", state, strings.Join(all, ", "), cmd.CommandPath())
				}
			}
			if older > 0 {
				p.Before = time.Now().Add(-time.Duration(older))
			}
			done, err := store.PruneAll(cmd.Context(), s, p)
			if asJSON {
				return errors.Join(err, e.PrintJSON(done))
			}
			text := fmt.Sprintf("removed %s and %s", env.Count(done.Runs, "run"), env.Count(done.Jobs, "job"))
			if done.Freed > 0 {
				text += fmt.Sprintf("; the file has %s less", env.Size(done.Freed))
			}
			fmt.Fprintln(e.Stdout, text)
			if err == nil && done.Unused > 0 {
				e.Note("an older version made this file: %s of it are unused, and stay until you run once: %s", env.Size(done.Unused), e.Command("store", "vacuum"))
			}
			return err
		}),
	}
	flags := cmd.Flags()
	flags.Var(&older, "older", "what ended before this `TIME`, such as 90d or 12h")
	flags.IntVar(&p.Keep, "keep", 0, "all but the newest `NUMBER` of runs, and of jobs")
	flags.StringArrayVar(&p.States, "state", nil, "only what ended in this `STATE`: "+strings.Join(store.EndStates(), ", ")+" (repeat)")
	flags.StringVar(&p.Agent, "agent", "", "only runs and jobs of this `AGENT`")
	flags.BoolVar(&asJSON, "json", false, "print JSON: how many runs and jobs, and bytes")
	return cmd
}

func vacuumCommand(e *env.Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "vacuum",
		Short: "Write the file of the store anew, without unused space",
		Long: "Write the file of the store anew, without unused space. A file that an older version has made needs this once: then it gives back\n" +
			"by itself what troupe store prune and workers remove.\n\n" +
			"No other process may use the store meanwhile, and the disk needs room for two copies: one in the folder for temporary files\n" +
			"($SQLITE_TMPDIR), one beside the file. If the command is killed, the store is as it was.",
		Example: "  troupe store vacuum",
		Args:    env.NoArgs,
		RunE: inFile(e, func(cmd *cobra.Command, _ []string, s *sqlite.Store) error {
			freed, err := s.Vacuum(cmd.Context())
			switch {
			case errors.Is(err, store.ErrBusy):
				return fmt.Errorf("another process has the store open: stop the workers, servers and consoles that use it (troupe tree shows them), and try again: %w", err)
			case err != nil:
				return err
			case asJSON:
				return e.PrintJSON(map[string]int64{"freedBytes": freed})
			}
			_, err = fmt.Fprintf(e.Stdout, "the file is written anew, and has %s less\n", env.Size(freed))
			return err
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: by how many bytes the file is shorter")
	return cmd
}
