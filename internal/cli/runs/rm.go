package runs

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/store"
)

func rmCommand(e *env.Env) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "rm RUN...",
		Short: "Remove runs that have ended",
		Long: "Remove runs that have ended, with their events and questions, and the runs of sub-agents that they have started.\n" +
			"With --force also runs that have not ended, if no process works on them. To remove old runs: troupe store prune.",
		Example: "  troupe runs rm last\n  troupe runs rm 0197c1 0197c2",
		Args:    env.SomeArgs("runs"),
		RunE: e.Stored(func(cmd *cobra.Command, args []string, s store.Store) error {
			var errs []error
			for _, name := range args {
				r, err := FindRun(cmd.Context(), s, name)
				if err == nil {
					err = remove(cmd.Context(), e, s, r, force)
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "also runs that have not ended")
	return cmd
}

// remove removes a run after the runs that it has started: what is left when one of them stays
// can be removed again.
func remove(ctx context.Context, e *env.Env, s store.Store, r store.Run, force bool) error {
	if !r.State.Ended() && !force {
		return fmt.Errorf("run %s has not ended (%s): remove it with --force", r.ID, StateOf(r))
	}
	for {
		started, err := s.Runs(ctx, store.Query{Parent: r.ID})
		if err != nil {
			return err
		}
		if len(started) == 0 {
			break
		}
		for _, child := range started {
			if err := remove(ctx, e, s, child, force); err != nil {
				return err
			}
		}
	}
	switch err := s.Delete(ctx, r.ID); {
	case errors.Is(err, store.ErrLeased):
		return fmt.Errorf("a process works on run %s: end it first", r.ID)
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("removing run %s: %w", r.ID, err)
	}
	_, err := fmt.Fprintf(e.Stdout, "removed %s\n", r.ID)
	return err
}
